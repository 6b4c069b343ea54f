package compatibility

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/tests/compatibility/hf1"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// attempts returns attempts at the mutexes with these names.
func attempts(c *hf1.Client, names ...string) (all []*hf1.Attempt) {
	for _, name := range names {
		all = append(all, c.Mutex(name).New(term))
	}
	return all
}

// Either side acquires several locks at once or none, alongside the other's mutexes and multi-locks.
func TestSeveralAtOnce(t *testing.T) {
	each(t, func(t testing.TB, s site) {
		p, c := library(t, s), recorded(t, s)
		ours := p.multi("b", "a", "c")

		// The recorded client has all locks.
		all := attempts(c, "a", "b", "c")
		hf1.TakeAll(all...).Want("granted")
		isOld(t, p.mutex("b").refused(), all[1])
		same(t, "the holder of one of several", ours.refused().owner, "old")
		w := ours.wait()
		p.mutex("a").waiters(1) // it acquires them in the order of their names
		for _, a := range all {
			a.Renew().Want("renewed")
			a.Release().Want("released")
		}
		lease := w.granted()
		fences := lease.fences()
		for n, name := range []string{"a", "b", "c"} {
			rising(t, all[n].Fence, fences[name])
			isNew(t, c.Mutex(name).New(term).Try().Want("held").Value(), fences[name])
		}

		// The library has all locks.
		r := hf1.TakeAll(attempts(c, "d", "b")...).Want("held")
		same(t, "which is held", r.Int("I"), 2)
		isNew(t, r.Value(), fences["b"])
		free(t, c.Mutex("d"))
		next := c.Mutex("b").New(term)
		next.Queue().Want("queued")
		lease.release()
		next.Granted()
		rising(t, fences["b"], next.Fence)

		// One held lock keeps either side from all of them, and is waited for while the others are held.
		w = ours.wait()
		p.mutex("b").waiters(1)
		isNew(t, c.Mutex("a").New(term).Try().Want("held").Value(), p.mutex("a").holder().fence)
		free(t, c.Mutex("c"))
		next.Release().Want("released")
		w.granted().release()
		s.cleaned(t)
	})
}

// many is how many locks go into one call.
const many = 20

func manyNames() (names []string) {
	for n := range many {
		names = append(names, fmt.Sprint("job-", n))
	}
	return names
}

// The recorded batch scripts acquire, renew and release the recorded client's locks, and leave those that the
// library holds or waits for.
func TestManyInOneCall(t *testing.T) {
	each(t, func(t testing.TB, s site) {
		p, c := library(t, s), recorded(t, s)
		taken := p.mutex("job-3").acquire()
		same(t, "the chain", c.Mutex("job-3").Stored()[0].Chain, "0")
		all := attempts(c, manyNames()...)
		wantLeft(t, "taken", hf1.TakeBatch(all...), 4)
		for n, a := range all {
			if n != 3 {
				isOld(t, p.mutex(fmt.Sprint("job-", n)).refused(), a)
				rising(t, taken.fence(), a.Fence)
			}
		}
		for _, a := range all {
			a.TTL *= 2 // they leave a lock that already lasts for the TTL
		}
		wantLeft(t, "renewed", hf1.RenewBatch(all...), 4)
		for n, a := range all {
			if left := a.Lock.Holders()[0].TTL; left <= term && n != 3 {
				t.Errorf("job-%d lasts for %s", n, left)
			}
		}
		w := p.mutex("job-7").queue()
		wantLeft(t, "released", hf1.ReleaseBatch(all...), 4, 8)
		isOld(t, p.mutex("job-7").refused(), all[7])
		all[7].Release().Want("released")
		lease := w.granted()
		rising(t, all[7].Fence, lease.fence())
		wantLeft(t, "released", hf1.ReleaseBatch(all...), manyNumbers()...)
		lease.release()
		taken.release()
		s.cleaned(t)
	})
}

// The library acquires and releases many locks at the same time. A recorded client holds one of them and waits for
// another.
func TestManyAtATime(t *testing.T) {
	each(t, func(t testing.TB, s site) {
		p, c := library(t, s), recorded(t, s)
		held := c.Mutex("job-3").New(term)
		held.Try().Want("granted")
		for range 2 { // the second time over existing connections
			var waits []waiting
			for _, name := range manyNames() {
				waits = append(waits, p.mutex(name).wait())
			}
			p.mutex("job-3").waiters(1)
			var leases []granted
			for n, w := range waits {
				if n != 3 {
					leases = append(leases, w.granted())
				}
			}
			for n, a := range attempts(c, slices.Delete(manyNames(), 3, 4)...) {
				isNew(t, a.Try().Want("held").Value(), leases[n].fence())
			}
			wantLeft(t, "taken", hf1.TakeBatch(attempts(c, manyNames()...)...), manyNumbers()...)
			next := c.Mutex("job-7").New(term)
			next.Queue().Want("queued")
			held.Release().Want("released")
			leases = slices.Insert(leases, 3, waits[3].granted())
			released := make(chan error)
			for _, lease := range leases {
				go func() { released <- backend.Released(lease.l) }()
			}
			for range leases {
				if err := receive(t, "a release", released); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
			next.Granted()
			rising(t, leases[7].fence(), next.Fence)
			next.Release().Want("released")
			for _, name := range manyNames() {
				free(t, c.Mutex(name))
			}
			held = c.Mutex("job-3").New(term)
			held.Try().Want("granted")
		}
		held.Release().Want("released")
		s.cleaned(t)
	})
}

func manyNumbers() (numbers []int64) {
	for n := range many {
		numbers = append(numbers, int64(n+1))
	}
	return numbers
}

func wantLeft(tb testing.TB, what string, got []int64, want ...int64) {
	tb.Helper()
	if !slices.Equal(got, want) {
		tb.Errorf("not %s are %d; want %d", what, got, want)
	}
}
