package behaviour

import (
	"strconv"
	"testing"
	"time"

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
