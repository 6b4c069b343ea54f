package compatibility

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/compatibility/hf1"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// kind is a kind of lock: the recorded client's and the library's, which exclude each other.
type kind struct {
	old    func(c *hf1.Client) *hf1.Lock
	new    func(p *process) lock
	is     string // the reply of whatis
	weight int64  // of the library's hold
}

// lookEvery is the longest pause between two looks of a waiter. A queue without looks expires after a minute.
const lookEvery = 30 * time.Second

const (
	writes = 1_000_000_000
	reads  = 1
)

var kinds = map[string]kind{
	"mutex": {
		func(c *hf1.Client) *hf1.Lock { return c.Mutex("a job") },
		func(p *process) lock { return p.mutex("a job") }, "mutex", 0,
	},
	"exact key": {
		func(c *hf1.Client) *hf1.Lock { return c.Exact("orders:1") },
		func(p *process) lock { return p.exact("orders:1") }, "mutex", 0,
	},
	"exact key with a hash tag": {
		func(c *hf1.Client) *hf1.Lock { return c.Exact("{orders}:1") },
		func(p *process) lock { return p.exact("{orders}:1") }, "mutex", 0,
	},
	"exact key of a name": {
		func(c *hf1.Client) *hf1.Lock { return c.Exact("holdfast:{a job}") },
		func(p *process) lock { return p.exact("holdfast:{a job}") }, "mutex", 0,
	},
	"Redisson's": {
		func(c *hf1.Client) *hf1.Lock { return c.Redisson("orders") },
		func(p *process) lock { return p.redisson("orders") }, "redisson", 0,
	},
	"owner": {
		func(c *hf1.Client) *hf1.Lock { return c.Owned("a job", "one: 1") },
		func(p *process) lock { return p.owned("a job", "another") }, "own", 1,
	},
	"writer behind a writer": {
		func(c *hf1.Client) *hf1.Lock { return c.Writer("a file") },
		func(p *process) lock { return p.writer("a file") }, "rw", writes,
	},
	"writer behind a reader": {
		func(c *hf1.Client) *hf1.Lock { return c.Reader("a file") },
		func(p *process) lock { return p.writer("a file") }, "rw", writes,
	},
	"reader behind a writer": {
		func(c *hf1.Client) *hf1.Lock { return c.Writer("a file") },
		func(p *process) lock { return p.reader("a file") }, "rw", reads,
	},
	"permits": {
		func(c *hf1.Client) *hf1.Lock { return c.Permits("a pool", 3, 2) },
		func(p *process) lock { return p.permits("a pool", 3, 2) }, "sem", 2,
	},
}

// eachKind runs f with each kind on each server.
func eachKind(t *testing.T, f func(t testing.TB, s site, k kind)) {
	t.Parallel()
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			each(t, func(t testing.TB, s site) { f(t, s, k) })
		})
	}
}

// The recorded client holds the lock. The library is refused, learns the holder, waits, and is handed the lock.
func TestARecordedClientHandsOverToTheLibrary(t *testing.T) {
	eachKind(t, handsOverToLibrary)
}

func handsOverToLibrary(t testing.TB, s site, k kind) {
	theirs, ours := k.old(recorded(t, s)), k.new(library(t, s))
	a := theirs.New(term)
	a.Try().Want("granted")
	isOld(t, ours.refused(), a)
	isOld(t, ours.holder(), a)
	w := ours.queue()
	isOld(t, ours.holder(), a)

	waiters := theirs.Waiters()
	if len(waiters) != 1 {
		t.Fatalf("the queue has %+v; want one waiter", waiters)
	}
	next := waiters[0]
	same(t, "the waiter's weight", next.Weight, k.weight)
	ear := hearAt(t, s, next.Channel)
	a.Renew().Want("renewed")
	if k.weight == 0 {
		a.Drop().Want("kept") // for its waiter
	}
	a.Release().Want("released")

	m, gap := ear.Handed(theirs, next.Token)
	lease := w.granted()
	if !gap {
		same(t, "the fence of the lease that was handed over", lease.fence(), m.Fence)
		same(t, "the claim of the lease that was handed over", m.Claim, next.Claim)
	}
	rising(t, a.Fence, lease.fence())
	same(t, "the lock's kind", theirs.WhatIs(), k.is)
	// The claim becomes a lease.
	backend.Eventually(t, "the lease that was handed over is renewed", func() bool {
		all := theirs.Holders()
		return len(all) == 1 && all[0].TTL > time.Minute
	})
	for _, h := range theirs.Holders() {
		isNew(t, h.Value, lease.fence())
		same(t, "the weight told by the script", h.Weight, k.weight)
	}
	for _, h := range theirs.Stored() {
		isNew(t, h.Value, lease.fence())
		same(t, "the token", h.Token, next.Token)
		same(t, "the weight", h.Weight, k.weight)
	}
	isNew(t, theirs.New(term).Try().Want("held").Value(), lease.fence())
	a.Renew().Want("gone")
	a.Release().Want("gone")
	lease.release()
	free(t, theirs)
	s.cleaned(t)
}

// The library holds the lock. The recorded client is refused, learns the holder, waits, and is handed the lock.
func TestTheLibraryHandsOverToARecordedClient(t *testing.T) {
	eachKind(t, handsOverToRecorded)
}

func handsOverToRecorded(t testing.TB, s site, k kind) {
	theirs, ours := k.old(recorded(t, s)), k.new(library(t, s))
	lease := ours.try()
	isNew(t, theirs.New(term).Try().Want("held").Value(), lease.fence())
	for _, h := range theirs.Holders() {
		isNew(t, h.Value, lease.fence())
	}
	for _, h := range theirs.Stored() {
		isNew(t, h.Value, lease.fence())
		same(t, "the weight", h.Weight, k.weight)
	}
	same(t, "the lock's kind", theirs.WhatIs(), k.is)

	a := theirs.New(term)
	queued := a.Queue().Want("queued")
	same(t, "the rank", queued.Int("RANK"), 1)
	same(t, "the receivers of the channel", queued.Int("RECEIVERS"), 1)
	same(t, "whose lock it is", queued.Text("WHOSE"), "ours")
	same(t, "the place of the same request", a.Queue().Want("queued").Int("SCORE"), queued.Int("SCORE"))
	a.Look().Want("queued")
	ours.waiters(1)
	// A lease whose lock was marked can be extended like any other.
	lease.extend(2 * term)
	for _, h := range theirs.Holders() {
		if h.TTL < term {
			t.Errorf("the lease that was extended lasts for %s", h.TTL)
		}
	}
	lease.release()

	a.Handed()
	rising(t, lease.fence(), a.Fence)
	same(t, "the fence that a look tells", a.Look().Want("granted").Int("FENCE"), a.Fence)
	a.Renew().Want("renewed")
	isOld(t, ours.refused(), a)
	isOld(t, ours.holder(), a)
	if all := ours.holders(); len(all) != 1 {
		t.Errorf("the library tells the holders %+v; want one", all)
	}
	a.Release().Want("released")
	free(t, theirs)
	s.cleaned(t)
}

// A waiter that gives up leaves no entry that the other side would serve.
func TestAWaiterThatGivesUpLeavesTheQueue(t *testing.T) {
	eachKind(t, func(t testing.TB, s site, k kind) {
		c := recorded(t, s)
		theirs, ours := k.old(c), k.new(library(t, s))
		a := theirs.New(term)
		a.Try().Want("granted")
		ours.queue().giveUp()
		backend.Eventually(t, "the library leaves the queue", func() bool { return len(theirs.Waiters()) == 0 })
		a.Release().Want("released")

		lease := ours.acquire()
		gone := theirs.New(term)
		gone.Queue().Want("queued")
		ours.waiters(1)
		gone.Release().Want("left")
		ours.waiters(0)
		lease.release()
		s.cleaned(t)
	})
}

// A holder whose lock the other side took learns that, and its requests change nothing.
func TestATakenLockIsLost(t *testing.T) {
	eachKind(t, func(t testing.TB, s site, k kind) {
		theirs, ours := k.old(recorded(t, s)), k.new(library(t, s))
		rdb := s.Redis(t)
		lease := ours.acquire()
		rdb.Del(t.Context(), theirs.Key())
		a := theirs.New(term)
		a.Try().Want("granted")
		lease.lost()
		rising(t, lease.fence(), a.Fence)
		isOld(t, ours.refused(), a)
		a.Renew().Want("renewed")

		rdb.Del(t.Context(), theirs.Key())
		lease = ours.acquire()
		a.Renew().Want("gone")
		a.Release().Want("gone")
		rising(t, a.Fence, lease.fence())
		lease.extend(2 * term)
		lease.release()
		free(t, theirs)
		s.cleaned(t)
	})
}

// A lease that expires passes to the waiter of the other side; one that is renewed does not.
func TestAnExpiredLeasePassesOn(t *testing.T) {
	t.Parallel()
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtually(t, func(t testing.TB, s site) {
				theirs, ours := k.old(recorded(t, s)), k.new(library(t, s, lease(time.Minute)))
				dead := theirs.New(10 * time.Second)
				dead.Try().Want("granted")
				began := time.Now()
				lease := ours.wait().granted()
				if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
					t.Errorf("a lease of 10 s passes on after %s", took)
				}
				rising(t, dead.Fence, lease.fence())

				// The library renews its lease of a minute.
				a := theirs.New(time.Minute)
				a.Queue().Want("queued")
				for range 6 {
					time.Sleep(lookEvery)
					a.Look().Want("queued")
				}
				if !lease.isHeld() {
					t.Fatal("the lease is lost")
				}
				dead.Renew().Want("gone")
				dead.Release().Want("gone")
				lease.release()
				a.Handed()
				rising(t, lease.fence(), a.Fence)

				// The recorded client renews its own.
				w := ours.wait()
				for range 6 {
					time.Sleep(lookEvery)
					a.Renew().Want("renewed")
				}
				isOld(t, ours.holder(), a)
				a.Release().Want("released")
				w.granted().release()
				s.cleaned(t)
			})
		})
	}
}

// hearAt listens on a channel of another client.
func hearAt(tb testing.TB, s site, channel string) *hf1.Ear {
	tb.Helper()
	return recorded(tb, s).Hear(channel)
}
