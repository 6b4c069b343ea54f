package topology

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
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
			if _, err := owner.Do("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
		}
		lose()
		for _, lease := range []*holdfast.Lease{lost, kept} {
			if err := lease.Extend(t.Context(), time.Minute); err != nil {
				t.Errorf("nobody has had the lock: %v", err)
			}
		}
		lose()
		backend.Release(t, backend.Acquire(t, clusterOf(c).client(t, nil).Mutex(near)))
		if err := lost.Extend(t.Context(), time.Minute); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("another may have had the lock: %v", err)
		}
		if err := kept.Extend(t.Context(), time.Minute); err != nil {
			t.Errorf("nobody has had a lock of the slot: %v", err)
		}
		backend.Release(t, kept)
	})
}
