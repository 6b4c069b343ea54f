package pubsub

import "github.com/holdfast-go/holdfast/driver"

// subscription is one of the subscriptions to a channel.
type subscription struct {
	p       *Pool
	channel *channel
	driver.Subscription

	// Guarded by Pool.mu.
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
	p, ch := s.p, s.channel
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	delete(ch.subs, s)
	if len(ch.subs) > 0 {
		return
	}
	delete(p.channels, ch.Channel)
	l := ch.link
	if l == nil {
		return
	}
	ch.link = nil
	delete(l.channels, ch.Channel)
	if len(l.channels) == 0 {
		l.end()
	} else {
		l.send(command{ch.Channel, true})
	}
}

// add queues an event for the channel's subscriptions, and returns subs with those that have to be delivered to
// appended. The caller holds Pool.mu.
func (ch *channel) add(subs []*subscription, e event) []*subscription {
	for s := range ch.subs {
		switch {
		case e.down != nil:
			s.up = false
		case e.message == nil && s.up:
			continue // a confirmation of another subscription
		case e.message == nil:
			s.up = true
		case !s.up:
			continue // published before the server confirmed this one
		}
		s.events = append(s.events, e)
		subs = append(subs, s)
	}
	return subs
}

// deliver calls the functions of subscriptions that have queued events. It must be called without Pool.mu, because
// these functions take locks under which Subscribe and cancel are called.
func deliver(subs []*subscription) {
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
				s.Down(e.down)
			case e.message != nil:
				s.Message(*e.message)
			default:
				s.Up()
			}
		}
		s.p.mu.Lock()
	}
}
