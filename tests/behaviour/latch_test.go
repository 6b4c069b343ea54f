package behaviour

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// countdown returns the test's latch, with a client of its own.
func countdown(t testing.TB, b *backend.Backend, parties int, opts ...latch.Option) *latch.Latch {
	return latch.New(b.Client(t, nil), "l", parties, append([]latch.Option{holdfast.TTL(time.Minute)}, opts...)...)
}

// watched waits until that many processes are subscribed to changes.
func watched(t testing.TB, b *backend.Backend, name string, n int64) {
	t.Helper()
	channel, rdb := "holdfast:c:w:holdfast:{"+name+"}", b.Redis(t)
	backend.Eventually(t, "the waiters are subscribed", func() bool {
		subscribers, err := rdb.PubSubNumSub(t.Context(), channel).Result()
		return err == nil && subscribers[channel] == n
	})
}

// A party that leaves, or dies, is no longer waited for, and waiters are told.
func TestLatchOfPartiesThatEnd(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := countdown(t, b, 3)
		// A waiter that hears nothing looks after 30 s.
		ctx := lasting(t, 15*time.Second)
		over := async(func() error { return l.Wait(ctx) })
		leaving := expect.Of(l.Register(t.Context())).OK(t)
		dying, err := countdown(t, b, 3, holdfast.TTL(6*time.Second), holdfast.NoRenew()).Register(t.Context())
		expect.OK(t, err)
		backend.Release(t, leaving.Lease())
		expect.Err(t, "CountDown of a party that has left", leaving.CountDown(t.Context()), holdfast.ErrReleased)
		expect.OK(t, l.CountDown(t.Context()))
		err = <-over
		var incomplete *latch.IncompleteError
		if !errors.Is(err, latch.ErrIncomplete) || !errors.As(err, &incomplete) || incomplete.Missing != 2 || incomplete.Parties != 3 {
			t.Errorf("Wait: %v", err)
		}
		expect.Err(t, "the lease of a party that has died", dying.Lease().Err(), holdfast.ErrLost)
		expect.Err(t, "CountDown of a party that has died", dying.CountDown(t.Context()), holdfast.ErrLost)
		expect.Err(t, "a late Wait", l.Wait(t.Context()), latch.ErrIncomplete)
		if n, err := l.Count(t.Context()); err != nil || n != 0 {
			t.Errorf("the count is %d, %v", n, err)
		}
	})
}
