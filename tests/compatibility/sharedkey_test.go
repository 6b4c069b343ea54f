package compatibility

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/compatibility/hf1"
)

// sharedKeys are the forms of a mutex whose key other programs may use, too.
var sharedKeys = []string{"exact key", "exact key with a hash tag", "exact key of a name", "Redisson's"}

// Both sides count successive hand-overs: after eight there is a gap, and the next waiter is told to look at
// its end. In virtual time hand-overs take no time.
func TestTheChainIsCountedByBoth(t *testing.T) {
	t.Parallel()
	for _, name := range sharedKeys {
		k := kinds[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtually(t, func(t testing.TB, s site) {
				c := recorded(t, s)
				theirs, ours := k.old(c), k.new(library(t, s))
				chain := func(want string) {
					t.Helper()
					for _, h := range theirs.Stored() {
						if n, _, _ := strings.Cut(h.Chain, "@"); n != want {
							t.Errorf("after %s hand-overs the chain is %q", want, h.Chain)
						}
					}
				}
				a := theirs.New(term)
				a.Queue().Want("granted")
				chain("0")
				for _, n := range []string{"1", "3", "5", "7"} {
					w := ours.wait()
					waitFor(t, theirs, 1)
					a.Release().Want("released")
					lease := w.granted()
					chain(n)
					a = theirs.New(term)
					a.Queue().Want("queued")
					lease.release()
					a.Granted()
					chain(string(n[0] + 1))
				}

				// The ninth hand-over is by the recorded scripts.
				w := ours.wait()
				waitFor(t, theirs, 1)
				released := time.Now()
				a.Release().Want("released")
				free(t, theirs)
				same(t, "the holder in the gap", a.Lock.New(term).Try().Want("held").Text("VALUE"), "")
				lease := w.granted()
				if took := time.Since(released); took < 10*time.Millisecond || took > 40*time.Millisecond {
					t.Errorf("after a gap the library has the lock in %s", took)
				}
				chain("0")

				// The ninth is by the library, after 50 ms.
				a = theirs.New(term)
				a.Queue().Want("queued")
				time.Sleep(100 * time.Millisecond)
				lease.release()
				m := a.StandBy()
				same(t, "when to look, after the gap", m.Due-m.Now, 10_000)
				free(t, theirs)
				time.Sleep(10 * time.Millisecond)
				a.Look().Want("granted")
				a.Release().Want("released")
				time.Sleep(10 * time.Millisecond)
				s.cleaned(t)
			})
		})
	}
}

// Clients with different prefixes share an exact key. Each side knows that the other has its own queue.
func TestAnotherPrefixKeepsOutAndIsKeptOut(t *testing.T) {
	t.Parallel()
	for _, name := range sharedKeys {
		k := kinds[name]
		t.Run(name, func(t *testing.T) {
			each(t, func(t testing.TB, s site) {
				theirs := k.old(recorded(t, s, hf1.Options{Prefix: "another:"}))
				ours := k.new(library(t, s))
				lease := ours.acquire()
				isNew(t, theirs.New(term).Try().Want("held").Value(), lease.fence())
				a := theirs.New(term)
				same(t, "whose lock it is", a.Queue().Want("queued").Text("WHOSE"), "foreign")
				lease.release()
				a.Look().Want("granted")
				isOld(t, ours.refused(), a)
				w := ours.wait()
				a.Release().Want("released")
				w.granted().release()
				free(t, theirs)
				s.cleaned(t)
			})
		})
	}
}
