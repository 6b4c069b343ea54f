package behaviour

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// A release that is heard wakes a waiter at once. By itself the waiter would look only after most of a second.
func TestRedissonsReleaseWakesAWaiter(t *testing.T) {
	t.Parallel()
	backend.Virtual(t, func(t *testing.T, b *backend.Backend) {
		l := b.Client(t, nil).RedissonMutex("orders")
		theirs := rlock{b.Redis(t), "orders"}
		for n := range 20 {
			token := strconv.Itoa(n)
			if !theirs.try(t, token, time.Minute) {
				t.Fatal("a free lock is not granted")
			}
			leases := backend.Start(t, l)
			time.Sleep(5 * time.Second) // until its pauses are as long as they get
			released := time.Now()
			theirs.unlock(t, token)
			lease := backend.Receive(t, leases)
			if late := time.Since(released); late > time.Millisecond {
				t.Errorf("a waiter has the lock %s after their release", late)
			}
			backend.Release(t, lease)
		}
	})
}

// For programs that announce no release, a waiter looks at least every 300 ms.
func TestAReleaseThatIsNotToldIsFoundSoon(t *testing.T) {
	t.Parallel()
	backend.Virtual(t, func(t *testing.T, b *backend.Backend) {
		l := b.Client(t, nil).MutexKey("orders")
		theirs := canonical{b.Redis(t), "orders"}
		for n, held := range []time.Duration{20 * time.Millisecond, time.Second, 10 * time.Second, time.Minute} {
			token := strconv.Itoa(n)
			if !theirs.try(t, token, time.Hour) {
				t.Fatal("a free lock is not granted")
			}
			leases := backend.Start(t, l)
			time.Sleep(held)
			released := time.Now()
			theirs.unlock(t, token)
			lease := backend.Receive(t, leases)
			if late := time.Since(released); late > 301*time.Millisecond {
				t.Errorf("a lock that was held for %s is had %s after their release", held, late)
			}
			backend.Release(t, lease)
		}
	})
}

func TestRedissonsLockHasAllThatAMutexHas(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := func(c *holdfast.Client, opts ...holdfast.MutexOption) *holdfast.Lock {
			return c.RedissonMutex("orders", opts...)
		}
		first := backend.Acquire(t, l(b.Client(t, nil), holdfast.Owner("me"), holdfast.Meta("k", "v")))
		s, err := l(b.Client(t, nil)).Status(t.Context())
		if h, _ := s.Holder(); err != nil || h.Foreign || h.Owner != "me" || h.Meta["k"] != "v" || h.Fence != first.Fence() || s.Key != "orders" || s.Kind != holdfast.KindRedisson {
			t.Errorf("the status is %+v, %v", s, err)
		}
		leases := queue(t, l(b.Client(t, nil)), 1)
		backend.Release(t, first)
		second := backend.Receive(t, leases)
		if second.Fence() <= first.Fence() {
			t.Errorf("fence %d follows %d", second.Fence(), first.Fence())
		}
		extended := time.Now()
		if err := second.Extend(t.Context(), time.Minute); err != nil {
			t.Fatalf("Extend: %v", err)
		}
		if left := b.Redis(t).PTTL(t.Context(), "orders").Val(); left > time.Minute || left < time.Minute-time.Since(extended)-2*time.Millisecond {
			t.Errorf("extended to a minute %s ago, it lasts for %s", time.Since(extended), left)
		}
		// RLock.forceUnlock does the same.
		b.Redis(t).Del(t.Context(), "orders")
		wantErr(t, "Extend of a lock that was deleted", second.Extend(t.Context(), time.Minute), holdfast.ErrLost)
		wantErr(t, "Release of a lock that was deleted", second.Release(t.Context()), holdfast.ErrLost)
	})
}
