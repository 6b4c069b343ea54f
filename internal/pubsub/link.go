package pubsub

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounds"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// link is the pool's connection to one server, from when it is first needed until it fails or has no subscriptions left.
type link struct {
	p      *Pool
	server string
	ctx    context.Context
	cancel context.CancelFunc
	wakeup chan struct{} // holds an item if there is something to send or to check

	// Guarded by Pool.mu.
	conn  driver.Connection // zero until connected
	subs  map[Channel]*subscription
	queue []command
	// unanswered has the commands that the server has not answered, in order: servers answer in order, and an error does not say what it
	// answers. pending counts those of each channel, so that the answer to a subscription that has been ended since is not taken for the
	// answer to the next one.
	unanswered []command
	pending    map[Channel]int
	suspect    bool // the server ended a subscription, so it may have become a replica
	ended      bool
}

// command subscribes to a channel, or unsubscribes from it. Without a channel it is a PING.
type command struct {
	Channel
	unsubscribe bool
}

// words returns the command as it is sent to the server.
func (c command) words() []string {
	if c.Name == "" {
		return []string{"ping"}
	}
	name := "subscribe"
	if c.unsubscribe {
		name = "unsubscribe"
	}
	if c.Sharded {
		name = "s" + name
	}
	return []string{name, c.Name}
}

func newLink(p *Pool, server string) *link {
	l := &link{p: p, server: server, wakeup: make(chan struct{}, 1), subs: map[Channel]*subscription{}, pending: map[Channel]int{}}
	l.ctx, l.cancel = context.WithCancel(p.ctx)
	return l
}

// send queues a command. The caller holds Pool.mu.
func (l *link) send(c command) {
	l.queue = append(l.queue, c)
	l.unanswered = append(l.unanswered, c)
	l.pending[c.Channel]++
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

// end closes the connection. The caller holds Pool.mu.
func (l *link) end() {
	if l.ended {
		return
	}
	l.ended = true
	l.cancel()
	if l.p.links[l.server] == l {
		delete(l.p.links, l.server)
	}
	if conn := l.conn; conn.Conn != nil {
		l.p.background.Go(func() { free(conn) }) // not by spawn: a pool that is stopped closes its connections, too
	}
}

// free closes a connection that was made, or not.
func free(conn driver.Connection) {
	if conn.Conn != nil {
		_ = conn.Close()
	}
	if conn.Free != nil {
		conn.Free()
	}
}

// connectTimeout bounds the making of a connection.
const connectTimeout = 10 * time.Second

// run connects and then sends queued commands until the link ends.
func (l *link) run() {
	ctx, cancel := context.WithTimeout(l.ctx, connectTimeout)
	var conn driver.Connection
	err := l.p.client.CheckMaster(ctx, l.server)
	if err == nil {
		conn, err = l.p.client.Connect(ctx, l.server)
	}
	cancel()
	if err != nil {
		free(conn)
		l.failed(err)
		return
	}
	conn.Conn = bounds.Unwrap(conn.Conn) // resp.Read has its own
	l.p.mu.Lock()
	ended := l.ended
	l.conn = conn
	if !ended {
		l.p.background.Go(func() { l.listen(conn) })
	}
	l.p.mu.Unlock()
	if ended {
		free(conn)
		return
	}
	tick := time.NewTicker(Keepalive)
	defer tick.Stop()
	for {
		select {
		case <-l.wakeup:
			l.p.mu.Lock()
			commands, suspect := l.queue, l.suspect
			l.queue, l.suspect = nil, false
			l.p.mu.Unlock()
			var err error
			if suspect {
				err = l.p.client.CheckMaster(l.ctx, l.server)
			}
			var words []byte
			for _, c := range commands {
				words = resp.Append(words, c.words()...)
			}
			if err == nil {
				_ = conn.SetWriteDeadline(time.Now().Add(Keepalive))
				_, err = conn.Write(words)
			}
			if err != nil {
				l.failed(err)
				return
			}
		case <-tick.C:
			l.p.mu.Lock()
			l.p.spawn(l.check)
			l.p.mu.Unlock()
		case <-l.ctx.Done():
			return
		}
	}
}

// listen handles what arrives, until the connection fails.
func (l *link) listen(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(Keepalive))
		_, err := in.Peek(1)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout() && l.ping():
			continue
		case err == nil:
			err = l.receive(in)
		}
		if err != nil {
			l.failed(err)
			return
		}
	}
}

// ping sends a PING, or returns false if the server has not answered all commands.
func (l *link) ping() bool {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if len(l.unanswered) > 0 || l.ended {
		return false
	}
	l.send(command{})
	return true
}

// receive handles the next reply or message.
func (l *link) receive(in *bufio.Reader) error {
	reply, err := resp.Read(in)
	if err != nil {
		return err
	}
	if refused, is := reply.(driver.ReplyError); is {
		return l.refused(refused)
	}
	items, is := reply.([]any)
	if !is {
		items = []any{reply}
	}
	var words [3]string
	for i, item := range items[:min(len(items), len(words))] {
		words[i], _ = item.(string)
	}
	switch kind, name := words[0], words[1]; kind {
	case "message", "smessage":
		l.message(name, words[2])
	case "subscribe", "ssubscribe":
		l.confirmed(Channel{name, kind == "ssubscribe"})
	case "unsubscribe", "sunsubscribe":
		l.unsubscribed(Channel{name, kind == "sunsubscribe"})
	case "pong", "PONG":
		l.p.mu.Lock()
		defer l.p.mu.Unlock()
		l.answer(command{})
	default:
		return fmt.Errorf("%w: %.40q", errUnexpected, fmt.Sprint(reply))
	}
	return nil
}

var errUnexpected = errors.New("the server sent what nobody asked for")

// answer removes the oldest unanswered command, and reports whether it was this one. If not, it removes nothing. The caller holds Pool.mu.
func (l *link) answer(c command) bool {
	if len(l.unanswered) == 0 || l.unanswered[0] != c {
		return false
	}
	l.unanswered = l.unanswered[1:]
	if l.pending[c.Channel]--; l.pending[c.Channel] == 0 {
		delete(l.pending, c.Channel)
	}
	return true
}

// confirmed is called when the server has confirmed a subscription.
func (l *link) confirmed(c Channel) {
	l.p.mu.Lock()
	if l.ended || !l.answer(command{Channel: c}) || l.pending[c] > 0 {
		l.p.mu.Unlock()
		return
	}
	s := l.subs[c]
	if s == nil {
		l.send(command{Channel: c, unsubscribe: true})
		l.p.mu.Unlock()
		return
	}
	s.pause = 0
	s.add(event{})
	l.p.mu.Unlock()
	s.deliver()
}

// unsubscribed is called when a subscription has ended, because the pool unsubscribed, the slot moved, or the server became a
// replica.
func (l *link) unsubscribed(c Channel) {
	l.interrupt(c, func() bool {
		if l.answer(command{c, true}) {
			return false
		}
		l.suspect = true
		return true
	}, errEnded)
}

var errEnded = errors.New("the server ended the subscription")

// refused is called when the server has sent an error. It returns the error if that is not about a channel.
func (l *link) refused(cause driver.ReplyError) error {
	l.p.mu.Lock()
	if len(l.unanswered) == 0 || l.unanswered[0].Name == "" {
		l.p.mu.Unlock()
		return cause
	}
	c := l.unanswered[0]
	l.p.mu.Unlock() // only this goroutine removes what is unanswered
	l.interrupt(c.Channel, func() bool { return l.answer(c) && !c.unsubscribe }, cause)
	return nil
}

// interrupt subscribes to a channel again, on whatever server has it, if lost reports that the subscription was lost.
func (l *link) interrupt(c Channel, lost func() bool, cause error) {
	l.p.mu.Lock()
	s := l.subs[c]
	if l.ended || !lost() || s == nil {
		l.p.mu.Unlock()
		return
	}
	delete(l.subs, c)
	if len(l.subs) == 0 {
		l.end()
	}
	l.p.reattach([]*subscription{s}, cause)
	l.p.mu.Unlock()
	s.deliver()
}

// message is called when a message has arrived. The connection does not say whether its channel is a sharded one, so
// subscribers of both get it.
func (l *link) message(name, payload string) {
	l.p.mu.Lock()
	var subs []*subscription
	for _, sharded := range []bool{false, true} {
		if s := l.subs[Channel{name, sharded}]; s != nil && !l.ended {
			s.add(event{message: &payload})
			subs = append(subs, s)
		}
	}
	l.p.mu.Unlock()
	deliver(subs...)
}

// failed is called when the connection can no longer be used.
func (l *link) failed(cause error) {
	l.p.mu.Lock()
	if l.ended {
		l.p.mu.Unlock()
		return
	}
	l.end()
	subs := slices.Collect(maps.Values(l.subs))
	clear(l.subs)
	l.p.reattach(subs, cause)
	l.p.mu.Unlock()
	deliver(subs...)
}
