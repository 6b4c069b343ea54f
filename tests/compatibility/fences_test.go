package compatibility

import (
	"sync"
	"testing"
)

// Fences rise across both sides, with blocks that either side reserves, and with leases that the library passes
// on within its process.
func TestFencesRiseAcrossBoth(t *testing.T) {
	each(t, func(t testing.TB, s site) {
		ours, theirs := library(t, s).mutex("a job"), recorded(t, s).Mutex("a job")
		var (
			mu     sync.Mutex
			fences []int64 // of all grants, in order, each with the last of its block
			passed int     // leases whose fence is not the one that the server knows
		)
		note := func(fence, block int64) {
			mu.Lock()
			defer mu.Unlock()
			if fences = append(fences, fence); block > 1 {
				fences = append(fences, fence+block-1)
			}
		}
		first := theirs.New(term)
		block := first.TryFor(10).Want("granted").Int("BLOCK")
		note(first.Fence, block)
		if block < 2 {
			t.Errorf("there is a block of %d fences", block)
		}
		first.Release().Want("released")
		var turns sync.WaitGroup
		for range 4 {
			turns.Go(func() {
				for range 10 {
					lease := ours.wait().granted()
					note(lease.fence(), 1)
					if all := theirs.Stored(); len(all) == 1 && all[0].Fence < lease.fence() {
						mu.Lock()
						passed++
						mu.Unlock()
					}
					lease.release()
				}
			})
		}
		for range 10 {
			a := theirs.New(term)
			if a.Queue().Word == "queued" {
				a.Granted()
			}
			note(a.Fence, 1)
			a.Renew().Want("renewed")
			if r := a.RenewFor(10).Want("renewed"); r.Int("BLOCK") > 0 {
				note(r.Int("FENCE"), r.Int("BLOCK"))
			}
			a.Release().Want("released")
		}
		turns.Wait()
		lease := ours.acquire()
		note(lease.fence(), 1)
		lease.release()
		rising(t, fences...)
		if passed == 0 {
			t.Error("the library has passed no lease on within its process")
		}
		s.cleaned(t)
	})
}
