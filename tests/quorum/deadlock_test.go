package quorum

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
)

// An acquire that would wait for the caller's own lease of the quorum's lock fails at once; so does one of the lock that a
// node grants by itself.
func TestAnAcquireWithinItsOwnLeaseFailsAtOnce(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		const patience = 10 * time.Second
		q := s.quorum(patience)
		l, other := q.Mutex("q"), s.quorum(patience).Mutex("q")
		lease := acquire(t, l)
		ctx := lease.Context(t.Context())
		for what, try := range map[string]func() error{
			"Acquire":                     func() error { _, err := l.Acquire(ctx); return err },
			"Acquire, with a limit":       func() error { _, err := q.Mutex("q", holdfast.Wait(time.Minute)).Acquire(ctx); return err },
			"TryAcquire":                  func() error { _, err := l.TryAcquire(ctx); return err },
			"an election's":               func() error { return election.New(q.Mutex("q")).Run(ctx, nil) },
			"Do":                          func() error { return l.Do(ctx, nil) },
			"Acquire, by another lease's": func() error { _, err := l.Acquire(lease.Context(ctx)); return err },
		} {
			if err := try(); !errors.Is(err, holdfast.ErrDeadlock) || !strings.Contains(err.Error(), `"q"`) {
				t.Errorf("%s: %v; want ErrDeadlock of %q", what, err, "q")
			}
		}
		if _, err := other.TryAcquire(ctx); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("another quorum's: %v; want ErrHeld", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		next, err := l.Acquire(context.WithoutCancel(ctx))
		if err != nil {
			t.Fatalf("within a lease that was released: %v", err)
		}
		_ = next.Release(t.Context())
	})
}
