package notify

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// subscription is the subscription to one channel, for all its listeners. Notifier.mu guards its fields.
type subscription struct {
	n *Notifier
	Channel
	handle func(message string) // if nil, a message makes the listeners look
	only   string               // if not "", the only message that does

	cancel        func()
	epoch         int           // counts openings, so that events of earlier ones are ignored
	confirmed     bool          // the server says that it has the subscription
	refused       bool          // the server's ACL forbids it
	confirmations int           // how often it was confirmed
	reopened      bool          // reopened, and not confirmed since
	lostAt        time.Time     // when it was opened or interrupted, unless it is confirmed
	unheard       int           // how often in a row it was confirmed but the server did not have it
	pollingSince  time.Time     // zero while listeners do not poll
	changed       chan struct{} // closed when confirmed or refused changes
	listeners     map[*Listener]struct{}
	idle          schedule.Entry // closes the subscription once it has had no listeners for a while
}

// How long a subscription without listeners stays open. A client's own channel, which any lock may need next, stays
// open longer than a channel of a single lock.
const (
	idleClient = time.Minute
	idleLock   = 10 * time.Second
)

func (s *subscription) open() {
	s.epoch++
	s.confirmed, s.refused = false, false
	s.lostAt = time.Now()
	s.wake()
	epoch := s.epoch
	s.cancel = s.n.cfg.Subscribe(driver.Subscription{
		Channel: s.Name, Sharded: s.Sharded,
		Up:      func() { s.up(epoch) },
		Down:    func(err error) { s.down(epoch, err) },
		Message: func(message string) { s.message(epoch, message) },
	})
}

// reopen cancels the subscription and opens it again, because the server does not have it.
func (s *subscription) reopen() {
	s.cancel()
	s.open()
	s.reopened = true
}

// wake wakes listeners that wait for a confirmation.
func (s *subscription) wake() {
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

func (s *subscription) up(epoch int) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if epoch != s.epoch {
		return
	}
	s.confirmed, s.refused = true, false
	s.confirmations++
	if !s.reopened { // it was interrupted, and may now be on a server that has it
		s.unheard, s.pollingSince = 0, time.Time{}
	}
	s.reopened = false
	s.wake()
	s.look()
}

func (s *subscription) down(epoch int, err error) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if epoch != s.epoch {
		return
	}
	if s.confirmed {
		s.lostAt = time.Now()
	}
	s.confirmed, s.refused = false, s.n.cfg.Denied(err)
	s.wake()
}

func (s *subscription) message(epoch int, message string) {
	if s.handle != nil {
		if s.n.begin() {
			defer s.n.cfg.End()
			s.handle(message)
		}
		return
	}
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if epoch == s.epoch && (s.only == "" || message == s.only) {
		s.look()
	}
}

// look makes all listeners look.
func (s *subscription) look() {
	for l := range s.listeners {
		l.missed = true
		l.look()
	}
}
