package topology

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A master of a Cluster loses its data. A holder has its lock again if no lock of its slot was granted since; otherwise its
// lease is lost.
func TestHoldersInAClusterHaveTheirLocksAgain(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		locks := clusterOf(c).client(t, nil)
		const name = "a"
		owner := c.Owner(slotOf(name))
		// One lock is in the slot of a, the other in another slot of its master.
		var near, far string
		for i := 0; near == "" || far == ""; i++ {
			switch other := fmt.Sprint("b", i); {
			case slotOf(other) == slotOf(name):
				near = other
			case far == "" && c.Owner(slotOf(other)) == owner:
				far = other
			}
		}
		acquire := func(name string) *holdfast.Lease {
			return backend.Acquire(t, locks.Mutex(name, holdfast.TTL(time.Minute), holdfast.NoRenew()))
		}
		lost, kept := acquire(name), acquire(far)
		lose := func() {
			expect.OK(t, expect.ErrOf(owner.Do("FLUSHALL")))
		}
		lose()
		for _, lease := range []*holdfast.Lease{lost, kept} {
			expect.Err(t, "nobody has had the lock", lease.Extend(t.Context(), time.Minute), nil)
		}
		lose()
		backend.Release(t, backend.Acquire(t, clusterOf(c).client(t, nil).Mutex(near)))
		expect.Err(t, "another may have had the lock", lost.Extend(t.Context(), time.Minute), holdfast.ErrLost)
		expect.Err(t, "nobody has had a lock of the slot", kept.Extend(t.Context(), time.Minute), nil)
		backend.Release(t, kept)
	})
}
