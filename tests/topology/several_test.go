package topology

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: In a Cluster each slot has its own fence counter, and the masters' clocks differ. A lease of several names has the fence of
// each, so that the next holder of one name is not shut out by another name's fence.
func TestFencesOfSeveralNamesGuardEachItsOwn(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		locks := clusterOf(c).client(t, nil)
		const ahead, behind = "a", "b"
		// This is the counter after a master whose clock was a minute ahead.
		lead := time.Now().Add(time.Minute).UnixMicro()
		owner := c.Owner(slotOf(ahead))
		expect.OK(t, expect.ErrOf(owner.Do("XADD", "holdfast:f{"+keys.Tag(uint16(slotOf(ahead)))+"}", backend.IDOf(lead), "g", "")))
		both := backend.Acquire(t, locks.Multi([]string{ahead, behind}, holdfast.TTL(term)))
		tokens := both.Fences()
		if tokens[ahead] <= uint64(lead) || tokens[behind] >= uint64(lead) {
			t.Fatalf("the fences are %v; the counter of %s was at %d", tokens, ahead, lead)
		}
		backend.Release(t, both)
		for _, name := range []string{ahead, behind} {
			next := backend.Acquire(t, locks.Mutex(name, holdfast.TTL(term)))
			if next.Fence() <= tokens[name] || name == behind && next.Fence() >= both.Fence() {
				t.Errorf("the next holder of %s has the fence %d after %v", name, next.Fence(), tokens)
			}
			backend.Release(t, next)
		}
	})
}
