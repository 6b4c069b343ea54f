package pubsub

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// subscription is the subscription to a channel.
type subscription struct {
	p *Pool
	Channel
	to driver.Subscription

	// Guarded by Pool.mu.
	link       *link // nil until the channel's server is known
	pause      time.Duration
	up         bool
	ended      bool
	events     []event // not delivered yet
	delivering bool    // a goroutine delivers events
}

// event is an interruption if down is set, a message if message is set, and otherwise a confirmation.
type event struct {
	down    error
	message *string
}

// close ends the subscription without waiting.
func (s *subscription) close() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	delete(s.p.subs, s.Channel)
	l := s.link
	if l == nil {
		return
	}
	s.link = nil
	delete(l.subs, s.Channel)
	if len(l.subs) == 0 {
		l.end()
	} else {
		l.send(command{s.Channel, true})
	}
}

// add queues an event, for deliver. The caller holds Pool.mu.
func (s *subscription) add(e event) {
	switch {
	case e.message == nil:
		s.up = e.down == nil
	case !s.up:
		return // published before the server confirmed this subscription
	}
	s.events = append(s.events, e)
}

// deliver calls the functions of subscriptions that have queued events. It must be called without Pool.mu, because
// these functions take locks under which Subscribe and cancel are called.
func deliver(subs ...*subscription) {
	for _, s := range subs {
		s.deliver()
	}
}

// deliver delivers the queued events in order. If another goroutine is delivering, it leaves them to that one.
func (s *subscription) deliver() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.delivering {
		return
	}
	s.delivering = true
	defer func() { s.delivering = false }()
	for len(s.events) > 0 && !s.ended {
		events := s.events
		s.events = nil
		s.p.mu.Unlock()
		for _, e := range events {
			switch {
			case e.down != nil:
				s.to.Down(e.down)
			case e.message != nil:
				s.to.Message(*e.message)
			default:
				s.to.Up()
			}
		}
		s.p.mu.Lock()
	}
}
