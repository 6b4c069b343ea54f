package holdfastgoredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// Subscribe opens a subscription with a connection of its own. In a Cluster each
// has its own in any case: go-redis would send channels of several slots to the node
// of one.
func (d *driver) Subscribe(channel string, sharded bool, sink holdfast.Sink) holdfast.Subscription {
	ctx, cancel := context.WithCancel(context.Background())
	s := &subscription{d: d, channel: channel, open: d.plain, sink: sink, cancel: cancel}
	if sharded {
		s.open, s.leads = d.sharded, d.leads
	}
	d.background.Go(func() { s.run(ctx) })
	return s
}

// subscription keeps one channel subscribed to, on one connection after another.
type subscription struct {
	d       *driver
	channel string
	open    func(context.Context, ...string) *redis.PubSub
	leads   func(ctx context.Context, channel string) error // or nil
	sink    holdfast.Sink
	cancel  context.CancelFunc

	mu sync.Mutex
	ps *redis.PubSub // the present one, to be closed by Close
}

// Close ends the subscription, without waiting.
func (s *subscription) Close() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if ps := s.ps; ps != nil {
		// PubSub.Close waits for a PubSub that is connecting.
		s.d.background.Go(func() { _ = ps.Close() })
	}
}

// run connects again and again. A PubSub is not used after an error: what it does
// then by itself is not told to us.
func (s *subscription) run(ctx context.Context) {
	const longest = time.Second
	pause := 10 * time.Millisecond
	for {
		confirmed, err := s.listen(ctx)
		if ctx.Err() != nil || errors.Is(err, redis.ErrClosed) {
			return
		}
		s.sink.Down(convert(err))
		s.d.orient(err)
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

// listen subscribes and hands on what comes, until something fails. confirmed says
// that the server had accepted the subscription.
func (s *subscription) listen(ctx context.Context) (confirmed bool, err error) {
	if s.leads != nil {
		if err := s.leads(ctx, s.channel); err != nil {
			return false, err
		}
	}
	ps := s.start(ctx)
	if ps == nil {
		return false, ctx.Err()
	}
	defer func() { _ = ps.Close() }()

	silent := false
	for {
		m, err := ps.ReceiveTimeout(ctx, keepalive)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout() && !silent && confirmed:
			silent = true
			if err := ps.Ping(ctx); err != nil {
				return confirmed, err
			}
			continue
		case err != nil:
			return confirmed, err
		}
		silent = false
		switch m := m.(type) {
		case *redis.Subscription:
			if m.Channel != s.channel {
				continue
			}
			if m.Kind != "subscribe" && m.Kind != "ssubscribe" {
				// The slot moved, or the node became a replica.
				return confirmed, fmt.Errorf("the server ended the subscription (%s)", m.Kind)
			}
			confirmed = true
			s.sink.Up()
		case *redis.Message:
			s.sink.Message(m.Payload)
		}
	}
}

// start sends the subscription; nil after Close.
func (s *subscription) start(ctx context.Context) *redis.PubSub {
	ps := s.open(ctx, s.channel)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		_ = ps.Close()
		return nil
	}
	s.ps = ps
	return ps
}
