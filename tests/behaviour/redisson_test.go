package behaviour

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
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
			expect.AtMost(t, "the time from their release to a waiter's grant", time.Since(released), time.Millisecond)
			backend.Release(t, lease)
		}
	})
}
