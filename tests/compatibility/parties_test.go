package compatibility

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/compatibility/hf1"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// waitAt makes the library wait for a latch, and returns when it has looked at the present count: a look makes
// the latch last for a day.
func waitAt(tb testing.TB, s site, ours latch, l *hf1.Lock) (ended <-chan string) {
	tb.Helper()
	const less = 23 * time.Hour
	rdb := s.Redis(tb)
	same(tb, "the count", ours.count() > 0, true)
	rdb.PExpire(tb.Context(), l.Key(), less)
	ended = ours.wait()
	backend.Eventually(tb, "the library looks", func() bool { return rdb.PTTL(tb.Context(), l.Key()).Val() > less })
	return ended
}

// arrived waits until a party has arrived at a barrier.
func arrived(tb testing.TB, s site, l *hf1.Lock) {
	tb.Helper()
	rdb := s.Redis(tb)
	backend.Eventually(tb, "a party arrives", func() bool { return rdb.HGet(tb.Context(), l.Key(), "arrived").Val() == "1" })
}

// Parties of both sides count a latch down, joined or not, and either side wakes the other's waiters.
func TestALatchOfBoth(t *testing.T) { each(t, shareALatch) }

func shareALatch(t testing.TB, s site) {
	ours, theirs := library(t, s).latch("ready", 4), recorded(t, s).Latch("ready", 4)
	// The recorded client is last.
	ended := waitAt(t, s, ours, theirs)
	id := hf1.NewToken()
	theirs.CountDown(id).Want("counted")
	same(t, "the count that the library tells", ours.count(), 3)
	ours.countDown()
	same(t, "the count after a copy", theirs.CountDown(id).Want("counted").Int("COUNT"), 2)
	a := theirs.New(term)
	a.Try().Want("granted")
	party := ours.join()
	theirs.CountDown(hf1.NewToken()).Want("taken")
	same(t, "the parties that have joined", len(ours.parties()), 2)
	same(t, "the parties in the key", len(theirs.Stored()), 2)
	same(t, "the waiters in the queue", len(theirs.Waiters()), 0)
	party.countDown()
	r := theirs.LookAt(0).Want("count")
	same(t, "the count that is told to the recorded client", r.Int("COUNT"), 1)
	same(t, "the missing parties", r.Int("MISSING"), 0)
	a.Renew().Want("renewed")
	a.Arrive().Want("released")
	a.Arrive().Want("released") // a copy
	same(t, "how the library waited", receive(t, "the end of a wait", ended), "open")
	same(t, "how the library finds it", <-ours.wait(), "open")

	// The library is last.
	ear := theirs.Watch()
	theirs.Reset(4).Want("reset")
	ear.Changed()
	theirs.LookAt(r.Int("SINCE")).Want("opened")
	same(t, "the count that the library tells", ours.count(), 4)
	for range 3 {
		theirs.CountDown(hf1.NewToken()).Want("counted")
	}
	ours.countDown()
	ear.Changed()
	same(t, "the count", theirs.LookAt(0).Want("count").Int("COUNT"), 0)

	// A reset by either side ends the other's wait.
	ours.reset()
	ear.Changed()
	since := theirs.LookAt(0).Want("count").Int("SINCE")
	ended = waitAt(t, s, ours, theirs)
	theirs.Reset(4).Want("reset")
	same(t, "how the library waited", receive(t, "the end of a wait", ended), "reset")
	theirs.LookAt(since).Want("reset")

	// Parties that leave are missing, whichever side they are on.
	ended = waitAt(t, s, ours, theirs)
	a = theirs.New(term)
	a.Try().Want("granted")
	party = ours.join()
	theirs.CountDown(hf1.NewToken()).Want("counted")
	theirs.CountDown(hf1.NewToken()).Want("counted")
	a.Release().Want("released")
	party.release()
	same(t, "how the library waited", receive(t, "the end of a wait", ended), "missing 2")
	same(t, "the missing parties", theirs.LookAt(0).Want("count").Int("MISSING"), 2)

	// Both refuse another number of parties; either deletes a latch.
	recorded(t, s).Latch("ready", 3).LookAt(0).WantError("BADPARTIES")
	theirs.Reset(0).Want("reset")
	same(t, "the count of a latch that was deleted", ours.count(), 4)
}

// Parties of both sides arrive at a barrier, phase after phase. Each learns when a phase ends and which party broke it.
func TestABarrierOfBoth(t *testing.T) { each(t, shareABarrier) }

func shareABarrier(t testing.TB, s site) {
	ours, theirs := library(t, s).barrier("step", 2), recorded(t, s).Barrier("step", 2)
	ear := theirs.Watch()
	a := theirs.New(term)
	a.Try().Want("granted")
	party := receive(t, "a place", ours.join())
	same(t, "the parties that have joined", len(theirs.Stored()), 2)
	ours.refused()
	theirs.New(term).Try().Want("held")

	// The library arrives last.
	a.Await(1, 0, 0).Want("waiting")
	ended := party.await()
	same(t, "how the library waited", receive(t, "the end of a phase", ended), "phase 1")
	ear.Changed()
	same(t, "the phase", a.Await(1, 0, 0).Want("tripped").Int("PHASE"), 1)

	// The recorded client does. Earlier it takes an arrival back.
	a.Await(2, 2, 1).Want("waiting")
	a.Withdraw(2).Want("withdrawn")
	a.Await(2, 2, 1).Want("stale")
	ended = party.await()
	arrived(t, s, theirs)
	same(t, "the phase", a.Await(3, 2, 1).Want("tripped").Int("PHASE"), 2)
	same(t, "how the library waited", receive(t, "the end of a phase", ended), "phase 2")
	ear.Changed()

	// The recorded client breaks a phase, and the library's next party waits for its place.
	ended = party.await()
	arrived(t, s, theirs)
	same(t, "the parties that have joined", len(theirs.Stored()), 2)
	joined := library(t, s).barrier("step", 2).join()
	waitFor(t, theirs, 1)
	a.Release().Want("released")
	same(t, "how the library waited", receive(t, "the end of a phase", ended), "broken at 3 by old")
	ear.Changed()
	another := receive(t, "a place", joined)

	// The library breaks one, and the recorded client waits for the place.
	b1 := theirs.New(term)
	b1.Queue().Want("queued")
	another.release()
	b1.Granted()
	b1.Renew().Want("renewed")
	ear.Changed()
	same(t, "how the library waited", receive(t, "the end of a phase", party.await()), "broken at 4 by new")
	ended = party.await()
	arrived(t, s, theirs)
	same(t, "the phase", b1.Await(1, 0, 0).Want("tripped").Int("PHASE"), 5)
	same(t, "how the library waited", receive(t, "the end of a phase", ended), "phase 5")
	ear.Changed()
	same(t, "the phase", b1.Await(2, 6, 5).Want("waiting").Int("PHASE"), 6)
	party.release()
	ear.Changed()
	r := b1.Await(2, 6, 5).Want("broken")
	same(t, "the phase that was broken", r.Int("PHASE"), 6)
	same(t, "how it was broken", r.Text("HOW"), "left")
	same(t, "the party that broke it", r.Info().Owner, "new")
	b1.Release().Want("released")
	s.cleaned(t)
}

// Leaders of both sides succeed each other, and either side announces its own to the other's watchers.
func TestAnElectionOfBoth(t *testing.T) { each(t, shareAnElection) }

func shareAnElection(t testing.TB, s site) {
	theirs := recorded(t, s).Mutex("leader")
	next := library(t, s).watch("leader")
	same(t, "the leader", next(), "")
	a := theirs.New(term)
	a.Try().Want("granted")
	// The library also looks when its subscription has begun.
	backend.Eventually(t, "the library hears of leaders", func() bool { return theirs.Announce().Want("told").Int("RECEIVERS") == 1 })
	same(t, "the leader", next(), "old")
	candidate := library(t, s)
	ear := theirs.Watch()
	elected := make(chan granted, 1)
	resign := make(chan func(), 1)
	go func() {
		term, f := candidate.lead("leader")
		elected <- term
		resign <- f
	}()
	waitFor(t, theirs, 1)
	a.Release().Want("released")
	term := receive(t, "a term", elected)
	rising(t, a.Fence, term.fence())
	same(t, "the leader", next(), "new")
	ear.Changed()
	isNew(t, theirs.Holder().Want("held").Value(), term.fence())
	receive(t, "a term", resign)()
	ear.Changed()
	same(t, "the leader", next(), "")
	s.cleaned(t)
}
