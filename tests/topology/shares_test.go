package topology

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A Cluster's master is replaced while others wait for shared locks. All keys of a name are in one slot, and
// its new master wakes the waiters.
func TestSharesInACluster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		open := clusterOf(c)
		for _, name := range []string{"a", "b", "c"} { // most likely of different masters
			rw := func() *holdfast.RWMutex {
				return open.client(t, nil).RWMutex(name, holdfast.TTL(term))
			}
			here, there := rw(), rw()
			one, two := backend.Acquire(t, here.Reader()), backend.Acquire(t, there.Reader())
			writer := backend.Start(t, rw().Writer())
			backend.Waiters(t, here.Reader(), 1)
			if name == "a" {
				first := c.Owner(slotOf(name))
				first.AwaitInStep()
				c.Failover(c.ReplicaOf(first))
				c.Owner(slotOf(name), first)
			}
			backend.Release(t, one)
			backend.Release(t, two)
			writing := backend.Receive(t, writer)
			if writing.Fence() <= one.Fence() {
				t.Errorf("the writer's fence %d is not above the readers', %d", writing.Fence(), one.Fence())
			}
			reader := backend.Start(t, rw().Reader())
			backend.Waiters(t, here.Reader(), 1)
			backend.Release(t, writing)
			backend.Release(t, backend.Receive(t, reader))

			s := func() *holdfast.Semaphore {
				return open.client(t, nil).Semaphore(name+"-permits", 2, holdfast.TTL(term))
			}
			sem := s()
			first, second := backend.Acquire(t, sem.Permits(1)), backend.Acquire(t, s().Permits(1))
			if _, err := s().Permits(1).TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("a third of two permits: %v; want ErrHeld", err)
			}
			third := backend.Start(t, s().Permits(1))
			backend.Waiters(t, sem.Permits(1), 1)
			backend.Release(t, first)
			backend.Release(t, backend.Receive(t, third))
			backend.Release(t, second)

			owned := func(owner string) *holdfast.Lock {
				return open.client(t, nil).OwnerMutex(name+"-owned", owner, holdfast.TTL(term))
			}
			mine := owned("me")
			outer := backend.Acquire(t, mine)
			stranger := backend.Start(t, owned("you"))
			backend.Waiters(t, mine, 1)
			inner := backend.Acquire(t, owned("me"))
			if inner.Fence() != outer.Fence() {
				t.Errorf("one owner has the fences %d and %d", outer.Fence(), inner.Fence())
			}
			backend.Release(t, outer)
			if left, err := open.client(t, nil).ReleaseOwner(t.Context(), name+"-owned", "me"); left != 0 || err != nil {
				t.Errorf("ReleaseOwner: %d, %v; want 0", left, err)
			}
			backend.Release(t, backend.Receive(t, stranger))
		}
	})
}
