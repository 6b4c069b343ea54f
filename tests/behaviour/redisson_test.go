package behaviour

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// A release that is heard wakes a waiter at once. By itself the waiter would look only after most of a second.
func TestRedissonsReleaseWakesAWaiter(t *testing.T) {
	virtually(t, func(t *testing.T, b *backend.Backend) {
		l := b.Client(t, nil).RedissonMutex("orders")
		theirs := foreign{rlock, b.Redis(t), "orders"}
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
