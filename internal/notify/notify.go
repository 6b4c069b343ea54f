// Package notify keeps subscriptions open for as long as they are needed, and tells listeners what arrives. It knows
// channels and listeners, but no locks.
//
// A subscription can be silent for three reasons, which a listener must tell apart: it is not confirmed yet; it was
// interrupted, and messages may have been lost; or the server confirmed it but does not have it, as happens behind a
// proxy that keeps subscriptions to itself. Only a listener can detect the third, by asking the server how many
// receivers the channel has.
package notify

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// Channel is a channel to subscribe to. A sharded channel differs from a plain one of the same name.
type Channel struct {
	Name    string
	Sharded bool
}

// Notifier keeps the subscriptions of one client.
type Notifier struct {
	cfg Config

	mu     sync.Mutex
	subs   map[Channel]*subscription
	closed bool // messages that still arrive are dropped
}

// Config connects a Notifier to its client.
type Config struct {
	Subscribe func(driver.Subscription) (cancel func())
	Scheduler *schedule.Scheduler
	Closing   <-chan struct{}      // closed when the client begins to close
	Denied    func(err error) bool // reports whether err means that the server's ACL forbids a channel
	Begin     func()               // called before a message is handled, unless the Notifier is closed
	End       func()               // called after a message has been handled
	Retry     time.Duration        // how long listeners poll before the subscription is tried again
}

// New returns a Notifier without subscriptions.
func New(cfg Config) *Notifier {
	return &Notifier{cfg: cfg, subs: map[Channel]*subscription{}}
}

// Confirmation identifies one confirmation of a subscription. It holds until the subscription is interrupted.
type Confirmation struct {
	s *subscription
	n int
}

// Channel returns the name of the subscription's channel.
func (c Confirmation) Channel() string { return c.s.Name }

// Confirmed returns the current confirmation of the channel's subscription, or false if it is not confirmed.
func (n *Notifier) Confirmed(ch Channel) (Confirmation, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.subs[ch]
	if s == nil || !s.confirmed {
		return Confirmation{}, false
	}
	return Confirmation{s, s.confirmations}, true
}

// HasNone reports whether there are no subscriptions at all.
func (n *Notifier) HasNone() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.subs) == 0
}

// Hear subscribes to a channel whose messages are addressed to the client, unless it is subscribed already, until the
// listener leaves. It calls handle with each message, and look each time that the subscription is confirmed.
func (n *Notifier) Hear(ch Channel, handle func(message string), look func()) *Listener {
	return n.listen(ch, handle, "", look)
}

// Watch subscribes to a channel whose messages only say that something changed. It calls look for each message, and
// each time that the subscription is confirmed. If only is not "", messages other than that one are ignored.
func (n *Notifier) Watch(ch Channel, only string, look func()) *Listener {
	return n.listen(ch, nil, only, look)
}

func (n *Notifier) listen(ch Channel, handle func(string), only string, look func()) *Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.subs[ch]
	if s == nil {
		s = &subscription{n: n, Channel: ch, handle: handle, only: only, listeners: map[*Listener]struct{}{}}
		n.subs[ch] = s
		s.open()
	}
	n.cfg.Scheduler.Cancel(&s.idle)
	l := &Listener{s: s, look: look}
	s.listeners[l] = struct{}{}
	return l
}

// Close ends all subscriptions. A message being handled is not waited for, but no further message is handled after
// Close returns.
func (n *Notifier) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for ch, s := range n.subs {
		s.cancel()
		delete(n.subs, ch)
	}
}

// begin calls Config.Begin and returns true, unless the Notifier is closed.
func (n *Notifier) begin() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.cfg.Begin()
	}
	return !n.closed
}
