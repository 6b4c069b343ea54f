package behaviour

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
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

// No waiter passes before all have counted down, and none sleeps on after that.
func TestLatchOfMany(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		const parties, waiters = 20, 6
		var clients []*holdfast.Client
		for range 4 {
			clients = append(clients, b.Client(t, nil))
		}
		for range 5 {
			var counted atomic.Int32
			var wg sync.WaitGroup
			for n := range waiters {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					if err := latch.New(clients[n%4], "l", parties).Wait(ctx); err != nil {
						t.Errorf("Wait: %v", err)
						return
					}
					if n := counted.Load(); n != parties {
						t.Errorf("a waiter passes after %d of %d", n, parties)
					}
				})
			}
			for n := range parties {
				wg.Go(func() {
					l := latch.New(clients[n%4], "l", parties)
					if n%2 == 0 {
						counted.Add(1)
						wantErr(t, "CountDown", l.CountDown(t.Context()), nil)
						return
					}
					party, err := l.Register(t.Context())
					if err != nil {
						t.Errorf("Join: %v", err)
						return
					}
					counted.Add(1)
					wantErr(t, "CountDown of a party", party.CountDown(t.Context()), nil)
				})
			}
			wg.Wait()
			must(t, latch.New(clients[0], "l", parties).Reset(t.Context()))
		}
	})
}

// A party that leaves, or dies, is no longer waited for, and waiters are told.
func TestLatchOfPartiesThatEnd(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := countdown(t, b, 3)
		// A waiter that hears nothing looks after 30 s.
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		over := make(chan error, 1)
		go func() { over <- l.Wait(ctx) }()
		leaving, err := l.Register(t.Context())
		must(t, err)
		dying, err := countdown(t, b, 3, holdfast.TTL(6*time.Second), holdfast.NoRenew()).Register(t.Context())
		must(t, err)
		backend.Release(t, leaving.Lease())
		wantErr(t, "CountDown of a party that has left", leaving.CountDown(t.Context()), holdfast.ErrReleased)
		must(t, l.CountDown(t.Context()))
		err = <-over
		var incomplete *latch.IncompleteError
		if !errors.Is(err, latch.ErrIncomplete) || !errors.As(err, &incomplete) || incomplete.Missing != 2 || incomplete.Parties != 3 {
			t.Errorf("Wait: %v", err)
		}
		if dying.Lease().Err() == nil {
			t.Error("the latch opens while a party holds its lease")
		}
		wantErr(t, "CountDown of a party that has died", dying.CountDown(t.Context()), holdfast.ErrLost)
		wantErr(t, "a late Wait", l.Wait(t.Context()), latch.ErrIncomplete)
		if n, err := l.Count(t.Context()); err != nil || n != 0 {
			t.Errorf("the count is %d, %v", n, err)
		}
	})
}
