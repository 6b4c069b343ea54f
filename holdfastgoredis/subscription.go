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
	"github.com/holdfast-go/holdfast/internal/resp"
)

// Subscribe opens a subscription. All subscriptions on a server share a connection, which carries no calls.
func (d *adapter) Subscribe(s driver.Subscription) (cancel func()) { return d.subs.Subscribe(s) }

// subscriber is the driver's pubsub.Client.
type subscriber struct {
	d *adapter

	mu    sync.Mutex
	nodes map[string]*redis.Client // the Cluster nodes that Locate has returned
}

// Locate returns the address of the Cluster node that has the channel's slot. Outside Cluster mode it returns "".
func (s *subscriber) Locate(c pubsub.Channel) (string, bool) {
	cluster, ok := s.d.urgent.get().(*redis.ClusterClient)
	if !ok {
		return "", true
	}
	node, err := cluster.MasterForKey(ended, c.Name)
	if err != nil {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	addr := node.Options().Addr
	s.nodes[addr] = node
	return addr, true
}

func (s *subscriber) Refresh(ctx context.Context, c pubsub.Channel, cause error) error {
	s.d.refreshAfter(cause)
	cluster, ok := s.d.urgent.get().(*redis.ClusterClient)
	if !ok {
		return nil
	}
	cluster.ReloadState(ctx)
	_, err := cluster.MasterForKey(ctx, c.Name)
	return convert(err)
}

func (s *subscriber) Connect(ctx context.Context, server string, l *pubsub.Link) (pubsub.Conn, error) {
	c := &conn{link: l, node: s.d.urgent.get(), server: server}
	if server != "" {
		s.mu.Lock()
		c.node = s.nodes[server]
		s.mu.Unlock()
	}
	if err := c.CheckMaster(ctx); err != nil {
		return nil, err
	}
	ctx = context.WithValue(ctx, dialOnce{}, &c.dialed)
	c.ps = c.node.Subscribe(ctx)
	// A PubSub connects on first use and holds its lock while it does. Nothing else uses this one yet.
	var timeout net.Error
	if _, err := c.ps.ReceiveTimeout(ctx, time.Microsecond); err != nil && !(errors.As(err, &timeout) && timeout.Timeout()) {
		_ = c.ps.Close()
		return nil, convert(err)
	}
	s.d.spawn(func() { c.receive(ctx) })
	return c, nil
}

// dialOnce is the context key of the flag that a PubSub has dialed. It may dial only once: after an error it would
// reconnect, holding its lock, although the conn has been given up.
type dialOnce struct{}

var errRedial = fmt.Errorf("%w: the connection broke", driver.ErrNotSent)

// checkDial returns an error if ctx belongs to a PubSub that has dialed before.
func checkDial(ctx context.Context) error {
	if dialed, ok := ctx.Value(dialOnce{}).(*atomic.Bool); ok && dialed.Swap(true) {
		return errRedial
	}
	return nil
}

// conn is a connection for subscriptions.
type conn struct {
	link   *pubsub.Link
	node   redis.UniversalClient
	server string // the node's address in a Cluster, otherwise ""
	ps     *redis.PubSub
	dialed atomic.Bool

	writing sync.Mutex
	mu      sync.Mutex
	// unanswered has the commands that the server has not answered, in order, because an error does not say which command
	// it answers. A ping has no channel.
	unanswered []pubsub.Command
}

// CheckMaster asks the node on another connection, since a subscribed one takes few commands.
func (c *conn) CheckMaster(ctx context.Context) error {
	if c.server == "" {
		return nil
	}
	return convert(resp.CheckMaster(replyTo(c.node.Do(ctx, "hello"))))
}

func (c *conn) Send(ctx context.Context, commands []pubsub.Command) error {
	ctx = context.WithValue(ctx, dialOnce{}, &c.dialed)
	for _, command := range commands {
		send := c.ps.Subscribe
		switch {
		case command.Sharded && command.Unsubscribe:
			send = c.ps.SUnsubscribe
		case command.Sharded:
			send = c.ps.SSubscribe
		case command.Unsubscribe:
			send = c.ps.Unsubscribe
		}
		if err := c.send(command, func() error { return send(ctx, command.Name) }); err != nil {
			return convert(err)
		}
	}
	return nil
}

// send records a command as unanswered and writes it, one command at a time.
func (c *conn) send(command pubsub.Command, write func() error) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	c.unanswered = append(c.unanswered, command)
	c.mu.Unlock()
	return write()
}

func (c *conn) Close() { _ = c.ps.Close() }

// receive passes what arrives to the link until the connection fails. The PubSub is not used after that, because it
// does not say what it does on its own.
func (c *conn) receive(ctx context.Context) {
	for {
		m, err := c.next(ctx)
		var timeout net.Error
		var reply redis.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout() && c.idle():
			err = c.send(pubsub.Command{}, func() error { return c.ps.Ping(ctx) })
		case errors.As(err, &reply):
			err = c.refused(err)
		case err == nil:
			c.dispatch(m)
		}
		if err != nil {
			c.link.Failed(convert(err))
			return
		}
	}
}

// next waits for a message. It turns go-redis's panics on some malformed messages into errors.
func (c *conn) next(ctx context.Context) (m any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: go-redis panicked: %v", bounds.ErrProtocol, p)
		}
	}()
	return c.ps.ReceiveTimeout(ctx, pubsub.Keepalive)
}

// idle reports whether the server has answered all commands.
func (c *conn) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.unanswered) == 0
}

// refused handles an error that the server sent. It returns err if it is not about one channel, or if the PubSub
// reconnects after it, which it would do silently.
func (c *conn) refused(err error) error {
	c.mu.Lock()
	if len(c.unanswered) == 0 || c.unanswered[0].Name == "" || redis.HasErrorPrefix(err, "READONLY") || strings.HasSuffix(err.Error(), " "+c.server) {
		c.mu.Unlock()
		return err
	}
	command := c.unanswered[0]
	c.unanswered = c.unanswered[1:]
	c.mu.Unlock()
	c.link.Refused(command, convert(err))
	return nil
}

func (c *conn) dispatch(m any) {
	switch m := m.(type) {
	case *redis.Pong:
		c.answered(pubsub.Command{})
	case *redis.Message:
		c.link.Message(m.Channel, m.Payload)
	case *redis.Subscription:
		ch := pubsub.Channel{Name: m.Channel, Sharded: m.Kind == "ssubscribe" || m.Kind == "sunsubscribe"}
		ended := m.Kind == "unsubscribe" || m.Kind == "sunsubscribe"
		c.answered(pubsub.Command{Channel: ch, Unsubscribe: ended})
		if ended {
			c.link.Ended(ch)
		} else {
			c.link.Confirmed(ch)
		}
	}
}

// answered removes a command from unanswered if it is the next. It may not be, because a server also ends subscriptions
// on its own.
func (c *conn) answered(command pubsub.Command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unanswered) > 0 && c.unanswered[0] == command {
		c.unanswered = c.unanswered[1:]
	}
}
