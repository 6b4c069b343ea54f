// Package notify keeps subscriptions open for as long as somebody needs them, and tells listeners what arrives. It
// knows channels and listeners, but no locks.
//
// A subscription can be silent for three reasons, which a listener has to tell apart: it is not confirmed yet; it was
// interrupted, and messages may have been lost; or the server does not have it although it was confirmed, as
// happens behind a proxy that keeps subscriptions to itself. Only a listener can find out the last one, by asking
// the server how many receivers the channel has.
package notify

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// Channel is what one can subscribe to. A sharded channel is another than a plain one of the same name.
type Channel struct {
	Name    string
	Sharded bool
}

// Notifier keeps the subscriptions of one client.
type Notifier struct {
	cfg Config

	mu     sync.Mutex
	subs   map[Channel]*subscription
	closed bool // what still arrives is not heard
}

// Config is what a Notifier needs of its client.
type Config struct {
	Subscribe func(driver.Subscription) (cancel func())
	Scheduler *schedule.Scheduler
	Closing   <-chan struct{}      // closed when the client begins to close
	Denied    func(err error) bool // reports whether an error says that the server's ACL forbids a channel
	Begin     func()               // is called before a message is handled, unless the Notifier is closed
	End       func()               // is called after that
	Retry     time.Duration        // how long listeners poll before the subscription is tried again
}

// A subscription that nobody needs any more is closed after a while: one to a client's own channel, which any lock may
// need next, later than one to the channel of a single lock.
const (
	restOwn = time.Minute
	restOne = 10 * time.Second
)

// New returns a Notifier without subscriptions.
func New(cfg Config) *Notifier {
	return &Notifier{cfg: cfg, subs: map[Channel]*subscription{}}
}

// Confirmation is one confirmation of a subscription. It is good until the subscription is interrupted.
type Confirmation struct {
	s  *subscription
	nr int
}

// Channel is the subscription's.
func (c Confirmation) Channel() string { return c.s.Name }

// Confirmed returns the confirmation of a channel's subscription; false if there is none now.
func (n *Notifier) Confirmed(ch Channel) (Confirmation, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.subs[ch]
	if s == nil || !s.confirmed {
		return Confirmation{}, false
	}
	return Confirmation{s, s.ups}, true
}

// HasNone reports whether there is no subscription at all, of whatever channel.
func (n *Notifier) HasNone() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.subs) == 0
}

// Hear opens the subscription to a channel whose messages are for the client, unless it is open, and keeps it so until
// the listener leaves. heard is told what arrives. look is called whenever the subscription was interrupted and is
// confirmed again.
func (n *Notifier) Hear(ch Channel, heard func(message string), look func()) *Listener {
	return n.listen(ch, heard, "", look)
}

// Watch is Hear of a channel on which any message is a reason to look; or only the one message, if that is not "".
func (n *Notifier) Watch(ch Channel, only string, look func()) *Listener {
	return n.listen(ch, nil, only, look)
}

func (n *Notifier) listen(ch Channel, heard func(string), only string, look func()) *Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.subs[ch]
	if s == nil {
		s = &subscription{n: n, Channel: ch, heard: heard, only: only, listeners: map[*Listener]struct{}{}}
		n.subs[ch] = s
		s.open()
	}
	n.cfg.Scheduler.Cancel(&s.rest)
	l := &Listener{s: s, look: look}
	s.listeners[l] = struct{}{}
	return l
}

// Close ends all subscriptions. No message is handled after it has returned, but for those whose handling has begun.
func (n *Notifier) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for ch, s := range n.subs {
		s.cancel()
		delete(n.subs, ch)
	}
}

// begin reports whether messages are still handled, and announces one if so.
func (n *Notifier) begin() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.cfg.Begin()
	}
	return !n.closed
}

// subscription is that to one channel. All of it is guarded by Notifier.mu.
type subscription struct {
	n *Notifier
	Channel
	heard func(message string) // nil: what arrives is a reason to look
	only  string               // the one message that is, or ""

	cancel    func()
	epoch     int           // counts openings: what earlier ones still say is not heard
	confirmed bool          // the server says that it has us
	refused   bool          // the server's ACL does not allow it
	ups       int           // how often it was confirmed
	reopened  bool          // we opened it anew, and it has not been confirmed since
	lost      time.Time     // since when it is not confirmed
	unheard   int           // how often in a row it was confirmed, and the server did not have us
	polling   time.Time     // since when listeners poll; zero while they do not
	change    chan struct{} // closed when confirmed or refused changes
	listeners map[*Listener]struct{}
	rest      schedule.Entry
}

func (s *subscription) open() {
	s.epoch++
	s.confirmed, s.refused = false, false
	s.lost = time.Now()
	s.changed()
	epoch := s.epoch
	s.cancel = s.n.cfg.Subscribe(driver.Subscription{
		Channel: s.Name, Sharded: s.Sharded,
		Up:      func() { s.up(epoch) },
		Down:    func(err error) { s.down(epoch, err) },
		Message: func(message string) { s.message(epoch, message) },
	})
}

// reopen opens it anew, since the server does not have it.
func (s *subscription) reopen() {
	s.cancel()
	s.open()
	s.reopened = true
}

// changed wakes whoever waits for a confirmation.
func (s *subscription) changed() {
	if s.change != nil {
		close(s.change)
	}
	s.change = make(chan struct{})
}

func (s *subscription) up(epoch int) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if epoch != s.epoch {
		return
	}
	s.confirmed, s.refused = true, false
	s.ups++
	if !s.reopened { // it was interrupted: perhaps it is where its slot is now, and the server has us
		s.unheard, s.polling = 0, time.Time{}
	}
	s.reopened = false
	s.changed()
	s.tell()
}

func (s *subscription) down(epoch int, err error) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if epoch != s.epoch {
		return
	}
	if s.confirmed {
		s.lost = time.Now()
	}
	s.confirmed, s.refused = false, s.n.cfg.Denied(err)
	s.changed()
}

func (s *subscription) message(epoch int, message string) {
	if s.heard != nil {
		if s.n.begin() {
			defer s.n.cfg.End()
			s.heard(message)
		}
		return
	}
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if epoch == s.epoch && (s.only == "" || message == s.only) {
		s.tell()
	}
}

// tell makes the listeners look.
func (s *subscription) tell() {
	for l := range s.listeners {
		l.missed = true
		l.look()
	}
}
