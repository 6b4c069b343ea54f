package compatibility

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// After a loss of data either side claims its lock again, with the same fence, unless the other has held the
// lock since.
func TestLocksAreAssertedAgain(t *testing.T) {
	each(t, func(t testing.TB, s site) {
		theirs := recorded(t, s).Mutex("a job")
		ours := library(t, s, lease(6*time.Second)).mutex("a job")
		rdb := s.Redis(t)
		lose := func() {
			rdb.FlushAll(t.Context())
			time.Sleep(time.Millisecond) // otherwise virtual time would stand still, and fences with it
		}

		kept := ours.acquire()
		lose()
		backend.Eventually(t, "the library's next renewal", func() bool { return len(theirs.Stored()) == 1 })
		isNew(t, theirs.New(term).Try().Want("held").Value(), kept.fence())
		kept.release()

		a := theirs.New(term)
		a.Try().Want("granted")
		rising(t, kept.fence(), a.Fence)
		lose()
		a.Renew().Want("absent")
		a.Reassert().Want("renewed")
		isOld(t, ours.refused(), a)
		a.Renew().Want("renewed")

		lose()
		later := ours.acquire()
		rising(t, a.Fence, later.fence())
		later.release()
		a.Reassert().Want("gone")

		lost := ours.acquire()
		lose()
		a = theirs.New(term)
		a.Try().Want("granted")
		rising(t, lost.fence(), a.Fence)
		a.Release().Want("released")
		lost.lost()
		free(t, theirs)
	})
}
