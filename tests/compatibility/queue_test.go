package compatibility

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/compatibility/hf1"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// waitFor waits until n entries, including dead ones, are in a lock's queue.
func waitFor(tb testing.TB, l *hf1.Lock, n int) {
	tb.Helper()
	backend.Eventually(tb, fmt.Sprintf("%d are in the queue", n), func() bool { return len(l.Waiters()) == n })
}

// both are locks as the recorded client and the library have them; in each, all want the same but have owners
// of their own.
var both = map[string]kind{
	"mutex": kinds["mutex"],
	"owner": {
		func(c *hf1.Client) *hf1.Lock { return c.Owned("a job", c.Info.Owner) },
		func(p *process) lock { return p.owned("a job", p.owner) }, "own", 1,
	},
	"writer":  kinds["writer behind a writer"],
	"permits": kinds["permits"],
}

// Recorded clients and the library are in one queue, are served in order, and have fences that rise.
func TestOneQueue(t *testing.T) {
	t.Parallel()
	for name, k := range both {
		t.Run(name, func(t *testing.T) {
			each(t, func(t testing.TB, s site) {
				first := k.old(recorded(t, s, hf1.Options{Owner: "first"})).New(term)
				first.Try().Want("granted")
				fences := []int64{first.Fence}

				var olds []*hf1.Attempt
				var news []waiting
				for n := range 3 {
					a := k.old(recorded(t, s, hf1.Options{Owner: fmt.Sprint("old ", n)})).New(term)
					same(t, "the rank of a recorded waiter", a.Queue().Want("queued").Int("RANK"), int64(2*n+1))
					olds = append(olds, a)
					news = append(news, k.new(library(t, s, owner(fmt.Sprint("new ", n)))).wait())
					waitFor(t, first.Lock, 2*n+2)
				}
				first.Release().Want("released")
				for n, a := range olds {
					fences = append(fences, a.Granted().Fence)
					a.Renew().Want("renewed")
					a.Release().Want("released")
					lease := news[n].granted()
					fences = append(fences, lease.fence())
					lease.release()
				}
				rising(t, fences...)
				s.cleaned(t)
			})
		})
	}
}

// When the first waiter is handed the lock, the next one is told when to look, in case the first dies before it
// renews.
func TestStandBy(t *testing.T) {
	t.Parallel()
	for name, k := range both {
		t.Run(name, func(t *testing.T) {
			each(t, func(t testing.TB, s site) {
				first := k.old(recorded(t, s, hf1.Options{Owner: "first"})).New(term)
				first.Try().Want("granted")
				w := k.new(library(t, s)).queue()
				second, third := k.old(recorded(t, s, hf1.Options{Owner: "second"})).New(term), k.old(recorded(t, s, hf1.Options{Owner: "third"})).New(term)
				same(t, "the rank", second.Queue().Want("queued").Int("RANK"), 2)
				same(t, "the rank", third.Queue().Want("queued").Int("RANK"), 3)

				// The recorded scripts tell it.
				claim := first.Lock.Waiters()[0].Claim
				first.Release().Want("released")
				m := second.StandBy()
				same(t, "when to look, after the claim", m.Due-m.Now, 1000*claim)
				lease := w.granted()
				same(t, "the rank", second.Look().Want("queued").Int("RANK"), 1)

				// The library's scripts tell it.
				lease.release()
				second.Granted()
				m = third.StandBy()
				same(t, "when to look, after the claim", m.Due-m.Now, 1000*second.Claim)
				second.Release().Want("released")
				third.Granted()
				third.Release().Want("released")
				s.cleaned(t)
			})
		})
	}
}

// The library looks when a standby says so, no later: a recorded client that dies with the lock costs it no
// more than the claim.
func TestTheLibraryStandsBy(t *testing.T) {
	t.Parallel()
	for name, k := range both {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtually(t, func(t testing.TB, s site) {
				first := k.old(recorded(t, s, hf1.Options{Owner: "first"})).New(term)
				first.Try().Want("granted")
				dies := k.old(recorded(t, s, hf1.Options{Owner: "dies"})).New(term)
				dies.Claim = 500
				dies.Queue().Want("queued")
				w := k.new(library(t, s)).wait()
				waitFor(t, first.Lock, 2)
				released := time.Now()
				first.Release().Want("released")
				dies.Granted()
				w.granted().release()
				if took := time.Since(released); took < 400*time.Millisecond || took > 600*time.Millisecond {
					t.Errorf("a claim of 500 ms passes on after %s", took)
				}
				s.cleaned(t)
			})
		})
	}
}

// A waiter without a subscription is dropped by the other side's release.
func TestDeadWaitersAreDropped(t *testing.T) {
	t.Parallel()
	for name, k := range both {
		t.Run(name, func(t *testing.T) {
			each(t, func(t testing.TB, s site) {
				lease := k.new(library(t, s)).acquire()
				dead := k.old(recorded(t, s, hf1.Options{Owner: "dead"})).New(term)
				same(t, "the receivers of the channel", dead.QueueDeaf().Want("queued").Int("RECEIVERS"), 0)
				lives := k.old(recorded(t, s, hf1.Options{Owner: "lives"})).New(term)
				same(t, "the rank", lives.Queue().Want("queued").Int("RANK"), 1) // the dead do not count
				lease.release()
				lives.Granted()
				dead.Look().Want("gone")

				// It takes its place again, under a new token.
				again := dead.Lock.New(term)
				again.Place = 1
				same(t, "the place", again.Queue().Want("queued").Int("SCORE"), 1)
				w := k.new(library(t, s)).wait()
				waitFor(t, lives.Lock, 2)
				lives.Release().Want("released")
				again.Granted()
				again.Release().Want("released")
				w.granted().release()
				s.cleaned(t)
			})
		})
	}
}

// A tombstone of the recorded client outlives what the library does with the lock, and is in nobody else's way.
func TestTombstones(t *testing.T) {
	t.Parallel()
	for name, k := range both {
		t.Run(name, func(t *testing.T) {
			each(t, func(t testing.TB, s site) {
				ours := k.new(library(t, s))
				late := k.old(recorded(t, s)).New(term)
				late.Bury().Want("gone")
				lease := ours.try()
				late.Try().Want("gone")
				w := k.new(library(t, s, owner("next"))).queue()
				late.Queue().Want("gone")
				lease.release()
				w.granted().release()
				late.Try().Want("gone")

				a := late.Lock.New(term)
				a.Try().Want("granted")
				w = ours.queue()
				a.Bury().Want("released")
				w.granted().release()
				a.Try().Want("gone")
				free(t, late.Lock)
			})
		})
	}
}

// Neither side overtakes a waiter of the other: a free lock with waiters goes to the first of them.
func TestNobodyPassesAWaiter(t *testing.T) {
	t.Parallel()
	for name, k := range both {
		t.Run(name, func(t *testing.T) {
			each(t, func(t testing.TB, s site) {
				rdb := s.Redis(t)
				first := k.old(recorded(t, s, hf1.Options{Owner: "first"})).New(term)
				first.Try().Want("granted")
				w := k.new(library(t, s)).queue()
				second := k.old(recorded(t, s, hf1.Options{Owner: "second"})).New(term)
				same(t, "the rank", second.Queue().Want("queued").Int("RANK"), 2)
				rdb.Del(t.Context(), first.Lock.Key())
				same(t, "the rank", second.Look().Want("queued").Int("RANK"), 1)
				lease := w.granted()
				rising(t, first.Fence, lease.fence())

				rdb.Del(t.Context(), first.Lock.Key())
				other := k.new(library(t, s, owner("other")))
				same(t, "the holder", other.refused().owner, "second")
				second.Granted()
				rising(t, lease.fence(), second.Fence)
				lease.lost()
				second.Release().Want("released")
				s.cleaned(t)
			})
		})
	}
}
