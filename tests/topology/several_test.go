package topology

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: In a Cluster each slot has its own fence counter, and the masters' clocks differ. A holder of one name that
// comes after a lease of several is not shut out by another name's fence.
func TestFencesOfSeveralNamesGuardEachItsOwn(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		locks := clusterOf(c).client(t, nil)
		const ahead, behind = "a", "b"
		// This is the counter after a master whose clock was a minute ahead.
		lead := time.Now().Add(time.Minute).UnixMicro()
		owner := c.Owner(slotOf(ahead))
		if _, err := owner.Do("XADD", "holdfast:f{"+keys.Tag(uint16(slotOf(ahead)))+"}", backend.IDOf(lead), "g", ""); err != nil {
			t.Fatal(err)
		}
		both, err := locks.Multi([]string{ahead, behind}, holdfast.TTL(term)).Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tokens := both.Fences()
		if tokens[ahead] <= uint64(lead) || tokens[behind] >= uint64(lead) {
			t.Fatalf("the fences are %v; the counter of %s was at %d", tokens, ahead, lead)
		}
		var marks fence.Memory
		if s, err := fence.Of(both); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("a lease of several has the stamp %+v, %v; want ErrInvalid", s, err)
		}
		for _, name := range []string{ahead, behind} {
			s, err := fence.Of(fence.Part(both, name))
			if err != nil || s.Lock != name || s.Fence != tokens[name] {
				t.Fatalf("the stamp for %s is %+v, %v", name, s, err)
			}
			if err := marks.Raise(t.Context(), s, name); err != nil {
				t.Fatal(err)
			}
		}
		late, err := fence.Of(fence.Part(both, behind))
		if err != nil {
			t.Fatal(err)
		}
		backend.Release(t, both)
		for _, name := range []string{ahead, behind} {
			next := backend.Acquire(t, locks.Mutex(name, holdfast.TTL(term)))
			s, err := fence.Of(next)
			if err != nil {
				t.Fatal(err)
			}
			if s.Fence >= both.Fence() && name == behind {
				t.Errorf("the next holder of %s has fence %d; the test wants it below the other's, %d", name, s.Fence, both.Fence())
			}
			if err := marks.Raise(t.Context(), s, name); err != nil {
				t.Errorf("the next holder of %s: %v", name, err)
			}
			backend.Release(t, next)
		}
		if err := marks.Raise(t.Context(), late, behind); !errors.Is(err, fence.ErrStale) {
			t.Errorf("a late write under the lease of several: %v; want ErrStale", err)
		}
	})
}
