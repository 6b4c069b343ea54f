package pubsub

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// Link is the pool's connection to one server, from when it is first needed until it fails or has no channels left.
type Link struct {
	p      *Pool
	server string
	ctx    context.Context
	cancel context.CancelFunc
	wakeup chan struct{} // holds an item if there is something to send or to check

	// Guarded by Pool.mu.
	conn     Conn // nil until connected
	channels map[Channel]*channel
	queue    []Command
	// unanswered has the commands for each channel that the server has not answered, in order; true stands for an
	// unsubscribe. Servers answer in order, so the answer to a subscription that has been ended since is not taken for the
	// answer to the next one.
	unanswered map[Channel][]bool
	suspect    bool // the server ended a subscription, so it may have become a replica
	ended      bool
}

func newLink(p *Pool, server string) *Link {
	l := &Link{p: p, server: server, wakeup: make(chan struct{}, 1), channels: map[Channel]*channel{}, unanswered: map[Channel][]bool{}}
	l.ctx, l.cancel = context.WithCancel(p.ctx)
	return l
}

// send queues a command. The caller holds Pool.mu.
func (l *Link) send(c Command) {
	l.queue = append(l.queue, c)
	l.unanswered[c.Channel] = append(l.unanswered[c.Channel], c.Unsubscribe)
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

// end closes the connection. The caller holds Pool.mu.
func (l *Link) end() {
	if l.ended {
		return
	}
	l.ended = true
	l.cancel()
	if l.p.links[l.server] == l {
		delete(l.p.links, l.server)
	}
	if l.conn != nil {
		l.p.background.Go(l.conn.Close) // not by spawn: a pool that is stopped closes its connections, too
	}
}

// run connects and then sends queued commands until the link ends.
func (l *Link) run() {
	conn, err := l.p.client.Connect(l.ctx, l.server, l)
	if err != nil {
		l.Failed(err)
		return
	}
	l.p.mu.Lock()
	ended := l.ended
	l.conn = conn
	l.p.mu.Unlock()
	if ended {
		conn.Close()
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
				err = conn.CheckMaster(l.ctx)
			}
			if err == nil && len(commands) > 0 {
				err = conn.Send(l.ctx, commands)
			}
			if err != nil {
				l.Failed(err)
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

// answer removes the oldest unanswered command for a channel, and reports whether there was one and it was of this
// type. If not, it removes nothing. The caller holds Pool.mu.
func (l *Link) answer(c Channel, unsubscribe bool) bool {
	commands := l.unanswered[c]
	if len(commands) == 0 || commands[0] != unsubscribe {
		return false
	}
	if commands = commands[1:]; len(commands) == 0 {
		delete(l.unanswered, c)
	} else {
		l.unanswered[c] = commands
	}
	return true
}

// Confirmed is called when the server has confirmed a subscription.
func (l *Link) Confirmed(c Channel) {
	l.p.mu.Lock()
	if l.ended || !l.answer(c, false) || len(l.unanswered[c]) > 0 {
		l.p.mu.Unlock()
		return
	}
	var subs []*subscription
	if ch := l.channels[c]; ch != nil {
		ch.pause = 0
		subs = ch.add(nil, event{})
	} else {
		l.send(Command{Channel: c, Unsubscribe: true})
	}
	l.p.mu.Unlock()
	deliver(subs)
}

// Ended is called when a subscription has ended, because the pool unsubscribed, the slot moved, or the server became a
// replica.
func (l *Link) Ended(c Channel) {
	l.interrupt(c, func() bool {
		if l.answer(c, true) {
			return false
		}
		l.suspect = true
		return true
	}, errEnded)
}

var errEnded = errors.New("the server ended the subscription")

// Refused is called when the server has refused a command.
func (l *Link) Refused(c Command, cause error) {
	l.interrupt(c.Channel, func() bool { return l.answer(c.Channel, c.Unsubscribe) && !c.Unsubscribe }, cause)
}

// interrupt subscribes to a channel again, on whatever server has it, if lost reports that the subscription was lost.
func (l *Link) interrupt(c Channel, lost func() bool, cause error) {
	l.p.mu.Lock()
	var subs []*subscription
	if ch := l.channels[c]; !l.ended && lost() && ch != nil {
		delete(l.channels, c)
		if len(l.channels) == 0 {
			l.end()
		}
		subs = l.p.reattach([]*channel{ch}, cause)
	}
	l.p.mu.Unlock()
	deliver(subs)
}

// Message is called when a message has arrived. The connection does not say whether its channel is a sharded one, so
// subscribers of both get it.
func (l *Link) Message(name, payload string) {
	l.p.mu.Lock()
	var subs []*subscription
	for _, sharded := range []bool{false, true} {
		if ch := l.channels[Channel{name, sharded}]; ch != nil && !l.ended {
			subs = ch.add(subs, event{message: &payload})
		}
	}
	l.p.mu.Unlock()
	deliver(subs)
}

// Failed is called when the connection can no longer be used.
func (l *Link) Failed(cause error) {
	l.p.mu.Lock()
	if l.ended {
		l.p.mu.Unlock()
		return
	}
	l.end()
	channels := slices.Collect(maps.Values(l.channels))
	clear(l.channels)
	subs := l.p.reattach(channels, cause)
	l.p.mu.Unlock()
	deliver(subs)
}
