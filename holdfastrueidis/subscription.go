package holdfastrueidis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
)

// Subscribe opens a subscription. All of one server share a connection, apart from that
// of the scripts.
func (d *driver) Subscribe(channel string, sharded bool, sink holdfast.Sink) holdfast.Subscription {
	ctx, cancel := context.WithCancel(d.ctx)
	s := &subscription{d: d, channel: channel, sharded: sharded, sink: sink, cancel: cancel}
	d.behind(func() { s.run(ctx) })
	return s
}

// subscription keeps one channel subscribed to, on one connection after another.
type subscription struct {
	d       *driver
	channel string
	sharded bool
	cancel  context.CancelFunc

	mu   sync.Mutex // rueidis confirms from another goroutine than it hands messages over
	sink holdfast.Sink
}

// Close ends the subscription, without waiting.
func (s *subscription) Close() { s.cancel() }

// run subscribes again and again.
func (s *subscription) run(ctx context.Context) {
	const longest = time.Second
	pause := 10 * time.Millisecond
	for {
		confirmed, err := s.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		s.sink.Down(err)
		s.mu.Unlock()
		if confirmed {
			pause = 10 * time.Millisecond
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, longest)
	}
}

// errEnded is the end of a subscription that the server ended: the slot moved, or the node became
// a replica.
var errEnded = errors.New("the server ended the subscription")

// listen subscribes and hands on what comes, until something fails. confirmed says
// that the server had accepted the subscription.
func (s *subscription) listen(ctx context.Context) (confirmed bool, err error) {
	client, err := s.d.ears.client(ctx)
	if err != nil {
		return false, err
	}
	if err := s.leads(ctx, client); err != nil {
		return false, convert(err)
	}
	var state struct{ confirmed, over bool } // guarded by s.mu
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(heard rueidis.PubSubSubscription) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if state.over || heard.Channel != s.channel || heard.Kind != "subscribe" && heard.Kind != "ssubscribe" {
			return
		}
		state.confirmed = true
		s.sink.Up()
	})
	end := func(b rueidis.Builder) rueidis.Completed { return b.Unsubscribe().Channel(s.channel).Build() }
	subscribe := client.B().Subscribe().Channel(s.channel).Build()
	if s.sharded {
		end = func(b rueidis.Builder) rueidis.Completed { return b.Sunsubscribe().Channel(s.channel).Build() }
		subscribe = client.B().Ssubscribe().Channel(s.channel).Build()
	}
	// rueidis leaves the server subscribed when nobody receives any more.
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, on rueidis.CommandClient) error {
		if ctx.Err() != nil {
			_ = on.Do(context.WithoutCancel(ctx), end(on.B()))
		}
		return err
	})
	err = client.Receive(hooked, subscribe, func(m rueidis.PubSubMessage) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sink.Message(m.Message)
	})
	if err != nil && ctx.Err() == nil && s.d.option.AlwaysRESP2 {
		// rueidis subscribes on a second connection then, which it does not replace.
		s.d.ears.forget(client)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state.over = true
	if err == nil {
		err = errEnded
	}
	return state.confirmed, convert(err)
}

// leads finds out, before it is subscribed to, whether a sharded channel's server is a master.
// A client that has not asked the Cluster yet takes the old one for it; and replicas accept
// subscriptions, on which a waiter would never be heard. A script with a key of the slot is
// redirected by a replica, and rueidis asks the Cluster then.
func (s *subscription) leads(ctx context.Context, client rueidis.Client) error {
	if !s.sharded {
		return nil
	}
	reply, err := client.Do(ctx, words(client, "eval", "return 'master'", []string{s.channel}, nil)).ToString()
	if err == nil && reply != "master" {
		err = fmt.Errorf("the reply to a script is %q", reply)
	}
	return err
}
