package holdfastgoredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounds"
	"github.com/holdfast-go/holdfast/internal/pubsub"
)

// Subscribe opens a subscription. All of one server share a connection, apart from those
// of the scripts.
func (d *adapter) Subscribe(s driver.Subscription) (cancel func()) { return d.subs.Subscribe(s) }

// ears is the pubsub.Client of a driver.
type ears struct {
	d *adapter

	mu    sync.Mutex
	nodes map[string]*redis.Client // of a Cluster: those that Locate named
}

// Locate names the node of a Cluster that has the channel's slot. Other servers have one name, "".
func (e *ears) Locate(p pubsub.Place) (string, bool) {
	cluster, ok := e.d.own.get().(*redis.ClusterClient)
	if !ok {
		return "", true
	}
	node, err := cluster.MasterForKey(ended, p.Channel)
	if err != nil {
		return "", false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	addr := node.Options().Addr
	e.nodes[addr] = node
	return addr, true
}

func (e *ears) Learn(ctx context.Context, p pubsub.Place, why error) error {
	e.d.orient(why)
	cluster, ok := e.d.own.get().(*redis.ClusterClient)
	if !ok {
		return nil
	}
	cluster.ReloadState(ctx)
	_, err := cluster.MasterForKey(ctx, p.Channel)
	return convert(err)
}

func (e *ears) Connect(ctx context.Context, server string, l *pubsub.Link) (pubsub.Conn, error) {
	c := &conn{link: l, node: e.d.own.get(), server: server}
	if server != "" {
		e.mu.Lock()
		c.node = e.nodes[server]
		e.mu.Unlock()
	}
	if err := c.Leads(ctx); err != nil {
		return nil, err
	}
	ctx = context.WithValue(ctx, oneDial{}, &c.dialled)
	c.ps = c.node.Subscribe(ctx)
	// A PubSub connects when it is first used, under its lock. Nobody else uses this one yet.
	var timeout net.Error
	if _, err := c.ps.ReceiveTimeout(ctx, time.Microsecond); err != nil && !(errors.As(err, &timeout) && timeout.Timeout()) {
		_ = c.ps.Close()
		return nil, convert(err)
	}
	e.d.behind(func() { c.receive(ctx) })
	return c, nil
}

// oneDial is the key, in contexts, of whether a PubSub has dialled. It may do so once: after an error it would
// connect anew, under its lock, while others wait for that, although it is given up.
type oneDial struct{}

var errDialsAgain = fmt.Errorf("%w: the connection broke", driver.ErrNotSent)

// dials notes that somebody dials, and fails if that is a PubSub that has dialled before.
func dials(ctx context.Context) error {
	if dialled, once := ctx.Value(oneDial{}).(*atomic.Bool); once && dialled.Swap(true) {
		return errDialsAgain
	}
	return nil
}

// conn is a connection for subscriptions.
type conn struct {
	link   *pubsub.Link
	node   redis.UniversalClient
	server string // its address, in a Cluster
	ps     *redis.PubSub

	dialled atomic.Bool

	writing sync.Mutex
	mu      sync.Mutex
	// unanswered are the commands that the server has not answered, in their order: an error does not say
	// to which it is the answer. A ping has no channel.
	unanswered []pubsub.Command
}

// Leads asks the node, over another connection: this one takes few commands.
func (c *conn) Leads(ctx context.Context) error {
	if c.server == "" {
		return nil
	}
	return convert(mustBeMaster(c.node.Do(ctx, "hello")))
}

func (c *conn) Send(ctx context.Context, commands []pubsub.Command) error {
	ctx = context.WithValue(ctx, oneDial{}, &c.dialled)
	for _, command := range commands {
		send := c.ps.Subscribe
		switch {
		case command.Sharded && command.Off:
			send = c.ps.SUnsubscribe
		case command.Sharded:
			send = c.ps.SSubscribe
		case command.Off:
			send = c.ps.Unsubscribe
		}
		if err := c.send(command, func() error { return send(ctx, command.Channel) }); err != nil {
			return convert(err)
		}
	}
	return nil
}

// send notes a command, and sends it, before another.
func (c *conn) send(command pubsub.Command, write func() error) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	c.unanswered = append(c.unanswered, command)
	c.mu.Unlock()
	return write()
}

func (c *conn) Close() { _ = c.ps.Close() }

// receive tells the link what comes, until something fails. A PubSub is not used after an error of the
// connection: what it does then by itself is not told to us.
func (c *conn) receive(ctx context.Context) {
	for {
		m, err := c.next(ctx)
		var timeout net.Error
		var sent redis.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout() && c.idle():
			err = c.send(pubsub.Command{}, func() error { return c.ps.Ping(ctx) })
		case errors.As(err, &sent):
			err = c.refused(err)
		case err == nil:
			c.heard(m)
		}
		if err != nil {
			c.link.Failed(convert(err))
			return
		}
	}
}

// next waits for what comes. Of some messages of no form go-redis panics; the connection is given up then.
func (c *conn) next(ctx context.Context) (m any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: go-redis panics: %v", bounds.ErrProtocol, p)
		}
	}()
	return c.ps.ReceiveTimeout(ctx, pubsub.Keepalive)
}

// idle reports whether the server has answered all.
func (c *conn) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.unanswered) == 0
}

// refused is told of an error that the server sent. It returns those that are not about one channel, and those
// after which a PubSub connects anew: it would not tell.
func (c *conn) refused(err error) error {
	c.mu.Lock()
	if len(c.unanswered) == 0 || c.unanswered[0].Channel == "" || redis.HasErrorPrefix(err, "READONLY") || strings.HasSuffix(err.Error(), " "+c.server) {
		c.mu.Unlock()
		return err
	}
	command := c.unanswered[0]
	c.unanswered = c.unanswered[1:]
	c.mu.Unlock()
	c.link.Refused(command, convert(err))
	return nil
}

func (c *conn) heard(m any) {
	switch m := m.(type) {
	case *redis.Pong:
		c.answered(pubsub.Command{})
	case *redis.Message:
		c.link.Message(m.Channel, m.Payload)
	case *redis.Subscription:
		p := pubsub.Place{Channel: m.Channel, Sharded: m.Kind == "ssubscribe" || m.Kind == "sunsubscribe"}
		off := m.Kind == "unsubscribe" || m.Kind == "sunsubscribe"
		c.answered(pubsub.Command{Place: p, Off: off})
		if off {
			c.link.Ended(p)
		} else {
			c.link.Confirmed(p)
		}
	}
}

// answered takes a command from those that are not answered, if it is the next: a server also ends subscriptions by itself.
func (c *conn) answered(command pubsub.Command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unanswered) > 0 && c.unanswered[0] == command {
		c.unanswered = c.unanswered[1:]
	}
}
