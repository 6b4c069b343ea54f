package compatibility

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/compatibility/hf1"
)

// Readers of both sides hold the lock together with one fence, and either side lists all of them.
func TestReadersOfBoth(t *testing.T) { each(t, readTogether) }

func readTogether(t testing.TB, s site) {
	p, c := library(t, s), recorded(t, s)
	reader := p.reader("a file").acquire()
	a := c.Reader("a file").New(term)
	a.Try().Want("granted")
	same(t, "the fence of a recorded reader", a.Fence, reader.fence())
	another := library(t, s).reader("a file").acquire()
	same(t, "the fence of another reader", another.fence(), reader.fence())
	same(t, "the holders that the library tells", len(p.reader("a file").holders()), 3)
	same(t, "the holders that are told to the recorded client", len(a.Lock.Holders()), 3)
	same(t, "the holders that are stored", len(a.Lock.Stored()), 3)

	// Readers queued behind a writer go in after it.
	writer := c.Writer("a file").New(term)
	writer.Queue().Want("queued")
	late := library(t, s).reader("a file").wait()
	waitFor(t, writer.Lock, 2)
	reader.release()
	a.Release().Want("released")
	another.release()
	writer.Granted()
	rising(t, reader.fence(), writer.Fence)
	late2 := c.Reader("a file").New(term)
	late2.Queue().Want("queued")
	writer.Release().Want("released")
	lease := late.granted()
	same(t, "the fence of readers that go in together", late2.Granted().Fence, lease.fence())
	rising(t, writer.Fence, lease.fence())
	lease.release()
	late2.Release().Want("released")
	s.cleaned(t)
}

// A writer of either side becomes a reader without a gap, and the other's readers go in. A reader becomes a writer only
// if it is alone.
func TestHoldsChangeTheirWeight(t *testing.T) { each(t, changeWeights) }

func changeWeights(t testing.TB, s site) {
	p, c := library(t, s), recorded(t, s)
	w := c.Writer("a file").New(term)
	w.Try().Want("granted")
	before := w.Fence
	wait := p.reader("a file").queue()
	w.BecomeReader().Want("weighed")
	same(t, "the fence after a downgrade", w.Fence, before)
	reader := wait.granted()
	same(t, "the fence of the reader that goes in", reader.fence(), w.Fence)
	w.BecomeWriter().Want("held")
	if _, ok := p.upgrade("a file", reader); ok {
		t.Fatal("a reader became a writer beside another")
	}
	w.Release().Want("released")
	writer, ok := p.upgrade("a file", reader)
	if !ok {
		t.Fatal("a reader that is alone does not become a writer")
	}
	rising(t, reader.fence(), writer.fence())
	for _, h := range w.Lock.Stored() {
		isNew(t, h.Value, writer.fence())
		same(t, "the weight", h.Weight, writes)
	}
	a := c.Reader("a file").New(term)
	a.Queue().Want("queued")
	reader = p.downgrade("a file", writer)
	same(t, "the fence after a downgrade", reader.fence(), writer.fence())
	same(t, "the fence of the reader that goes in", a.Granted().Fence, reader.fence())
	reader.release()
	a.BecomeWriter().Want("weighed")
	rising(t, reader.fence(), a.Fence)
	isOld(t, p.reader("a file").refused(), a)
	a.Release().Want("released")
	s.cleaned(t)
}

// Both sides count the permits of a semaphore, and either sets their number.
func TestPermitsOfBoth(t *testing.T) { each(t, sharePermits) }

func sharePermits(t testing.TB, s site) {
	p, c := library(t, s), recorded(t, s)
	two := p.permits("a pool", 3, 2).acquire()
	one := c.Permits("a pool", 3, 1).New(term)
	one.Try().Want("granted")
	rising(t, two.fence(), one.Fence)
	p.permits("a pool", 3, 1).refused()
	// Both refuse another number of permits.
	p.permits("a pool", 4, 1).mismatched()
	c.Permits("a pool", 4, 1).New(term).Try().WantError("BADLIMIT")

	// A waiter for one permit does not overtake one for three.
	many := p.permits("a pool", 3, 3).queue()
	few := c.Permits("a pool", 3, 1).New(term)
	same(t, "the rank", few.Queue().Want("queued").Int("RANK"), 2)
	one.Release().Want("released")
	same(t, "the waiters in the queue", len(few.Lock.Waiters()), 2)
	two.release()
	three := many.granted()
	same(t, "the rank", few.Look().Want("queued").Int("RANK"), 1)
	three.release()
	few.Granted()
	rising(t, one.Fence, three.fence(), few.Fence)

	// Once either side has set the number of permits, the numbers that clients give are ignored.
	few.Lock.Resize(1).Want("resized")
	p.permits("a pool", 3, 1).refused()
	p.resize("a pool", 3, 2)
	same(t, "the limit that the library has set", few.Lock.Resize(2).Want("resized").Int("LIMIT"), 2)
	second := p.permits("a pool", 5, 1).acquire()
	c.Permits("a pool", 5, 1).New(term).Try().Want("held")
	second.release()
	few.Release().Want("released")
	few.Lock.Resize(0).Want("resized")
	s.cleaned(t)
}

// Processes of one owner on both sides hold the lock together, ahead of other waiters, and either side can end
// a hold of the other.
func TestAnOwnerInBoth(t *testing.T) { each(t, shareAnOwner) }

func shareAnOwner(t testing.TB, s site) {
	p, c := library(t, s), recorded(t, s)
	ours, theirs := p.owned("a job", "step 1"), c.Owned("a job", "step 1")
	lease := ours.acquire()
	stranger := c.Owned("a job", "another").New(term)
	stranger.Queue().Want("queued")
	a := theirs.New(term)
	a.Try().Want("granted")
	same(t, "the fence of one owner", a.Fence, lease.fence())
	same(t, "the holders that the library tells", len(ours.holders()), 2)
	c.Owned("a job", "another").Disown("another").Want("held")

	late := theirs.New(term)
	late.Bury().Want("gone")

	// The library's step ends the recorded hold, and the other way round: always the hold with the least time
	// left.
	short := theirs.New(term / 2)
	short.Try().Want("granted")
	same(t, "the holds that are left", ours.disown(), 2)
	short.Renew().Want("gone")
	a.TTL *= 2 // so that the library's ends first
	a.Renew().Want("renewed")
	a.Lock.New(2 * term).Try().Want("granted")
	a.Lock.New(2 * term).Try().Want("granted")
	same(t, "the holds that are left", theirs.Disown("step 1").Want("released").Int("LEFT"), 3)
	lease.lost()
	for left := 2; left >= 0; left-- {
		same(t, "the holds that are left", ours.disown(), left)
	}
	stranger.Granted()
	rising(t, a.Fence, stranger.Fence)

	// The recorded client ends its hold without the token, and the library is handed the lock.
	w := ours.queue()
	same(t, "the holds that are left", stranger.Lock.Disown("another").Want("released").Int("LEFT"), 0)
	last := w.granted()
	rising(t, stranger.Fence, last.fence())
	last.release()
	// Tombstones stay for a while.
	free(t, theirs)
	same(t, "the waiters in the queue", len(theirs.Waiters()), 0)
	late.Try().Want("gone")
}

// For both, a name has one kind of lock at a time.
func TestOneKindAtATime(t *testing.T) {
	each(t, func(t testing.TB, s site) {
		p, c := library(t, s), recorded(t, s)
		locks := map[string]struct {
			old *hf1.Lock
			new lock
		}{
			"a mutex":        {c.Mutex("a"), p.mutex("a")},
			"a file":         {c.Writer("a"), p.writer("a")},
			"a pool":         {c.Permits("a", 2, 1), p.permits("a", 2, 1)},
			"an owner's job": {c.Owned("a", "one"), p.owned("a", "one")},
		}
		for held, l := range locks {
			a := l.old.New(term)
			a.Try().Want("granted")
			for wanted, other := range locks {
				if wanted != held {
					other.new.mismatched()
				}
			}
			a.Release().Want("released")
			lease := l.new.acquire()
			for wanted, other := range locks {
				switch {
				case wanted == held:
				case wanted == "a mutex", held == "a mutex":
					other.old.New(term).Try().WantError("WRONGTYPE")
				default:
					other.old.New(term).Try().WantError("BADKIND")
				}
			}
			lease.release()
		}
		s.cleaned(t)
	})
}
