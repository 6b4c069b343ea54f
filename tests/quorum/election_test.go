package quorum

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// There is one leader at a time, also while a minority of nodes is away. When it resigns, the next one leads.
// Watchers see both.
func TestElection(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const patience = 10 * time.Second
		resign, led, over := make(chan struct{}), make(chan *holdfast.Lease), make(chan error, 2)
		for _, owner := range []string{"one", "two"} {
			q := s.quorum(patience)
			go func() {
				over <- q.Election("q", holdfast.Owner(owner)).Run(ctx, func(ctx context.Context, term *holdfast.Lease) error {
					led <- term
					select {
					case <-resign:
						return holdfast.ErrResign
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			}()
		}
		observer := s.quorum(patience).Election("q")
		seen := make(chan string, 100)
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for status, err := range observer.Watch(ctx) {
				if err != nil {
					t.Errorf("Watch: %v", err)
				}
				if leader, leads := status.Holder(); leads {
					seen <- leader.Owner
				}
			}
		}()
		sees := func(owner string) {
			t.Helper()
			for limit := time.After(time.Minute); ; {
				select {
				case got := <-seen:
					if got == owner {
						return
					}
				case <-limit:
					t.Fatalf("nobody sees that %s leads", owner)
				}
			}
		}
		first := <-led
		sees(first.Owner())
		if h, err := observer.Leader(t.Context()); err != nil || h.Owner != first.Owner() {
			t.Errorf("Leader: %v, %v; %s leads", h.Owner, err, first.Owner())
		}
		backend.Eventually(t, "the other waits", func() bool { return s.tickets() == 3 })
		s.nodes[0].Kill()
		resign <- struct{}{}
		second := <-led
		if second.Fence() <= first.Fence() || second.Owner() == first.Owner() {
			t.Errorf("%s leads with %d after %s with %d", second.Owner(), second.Fence(), first.Owner(), first.Fence())
		}
		sees(second.Owner())
		cancel()
		for range 2 {
			if err := <-over; !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
		}
		<-watched
		// With one node dead, the other two have to agree, and a candidate that gave up may still be leaving one of them.
		backend.Eventually(t, "nobody leads", func() bool {
			_, err := observer.Leader(t.Context())
			return errors.Is(err, holdfast.ErrNotHeld)
		})
	})
}
