package dataloss

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// succession is a lock with its holder and a waiter, which gets the lock after the server has lost it.
type succession struct {
	resource backend.Resource
	holder   *holdfast.Lease
	next     chan *holdfast.Lease // nil after an error
	overlap  bool                 // the holder had not been told yet; set before next is sent
}

// successions begins that many, each on a lock of its own.
func successions(t *testing.T, holders, waiters *holdfast.Client, ttl time.Duration, n int) []*succession {
	t.Helper()
	var all []*succession
	for i := range n {
		name := strconv.Itoa(i)
		s := &succession{holder: backend.Acquire(t, holders.Mutex(name, holdfast.TTL(ttl))), next: make(chan *holdfast.Lease, 1)}
		s.resource.Write(s.holder.Fence())
		go func() {
			lease, err := waiters.Mutex(name).Acquire(t.Context())
			if err == nil {
				s.overlap = s.resource.Succeed(t, s.holder, lease)
			} else if t.Context().Err() == nil {
				t.Errorf("Acquire: %v", err)
			}
			s.next <- lease
		}()
		backend.Waiters(t, holders.Mutex(name), 1)
		all = append(all, s)
	}
	return all
}

// settle waits until every waiter has taken over and every holder has been told, or has renewed its lease if
// the server came back soon enough. It returns how many holders overlapped, and adds the fences to those seen
// so far. It asks c who holds the locks.
func settle(t *testing.T, c *holdfast.Client, all []*succession, outage, ttl time.Duration, seen map[uint64]bool) (overlaps int) {
	t.Helper()
	for _, s := range all {
		var next *holdfast.Lease
		again := false
		backend.Eventually(t, "one of them has the lock", func() bool {
			select {
			case next = <-s.next:
				if next == nil {
					t.Fatal("no lease")
				}
				return true
			default:
			}
			h, err := backend.HolderOf(t.Context(), c.Mutex(s.holder.Name()))
			again = err == nil && h.Fence == s.holder.Fence()
			return again
		})
		if again {
			// The holder came back before the waiter, and took its lock again.
			backend.Release(t, s.holder)
			backend.Release(t, backend.Receive(t, s.next))
			continue
		}
		if s.overlap {
			overlaps++
		}
		select {
		case <-s.holder.Done():
		case <-time.After(30 * time.Second):
			t.Fatalf("the holder is not told within 30s")
		}
		var lost *holdfast.LostError
		// A renewal can find the lock free before the waiter has taken it. If others have raised the shared counter
		// by then, the holder learns only that its lock is gone.
		if !errors.As(s.holder.Err(), &lost) || outage < ttl/4 && lost.Reason != holdfast.LossTaken && lost.Reason != holdfast.LossDeleted {
			t.Errorf("the lease ended, %s after the server: %v", outage, s.holder.Err())
		}
		for _, fence := range []uint64{s.holder.Fence(), next.Fence()} {
			if seen[fence] {
				t.Errorf("fence %d was issued twice", fence)
			}
			seen[fence] = true
		}
		backend.Release(t, next)
	}
	return overlaps
}

// Fault: The server comes back without its data or with older data, or its successor is a replica that missed the locks, without Strict
// mode. Leases may overlap, which are counted, and locks that were released may be held again; fences rise and none is repeated,
// nobody hangs, holders are told, and late writes are refused.
//
// Bug: An unsynced replica is promoted, and nobody can tell the two holders apart.
func TestLocksThatTheServerHasLost(t *testing.T) {
	long(t)
	eachLoss(t, outages, func(t *testing.T, l loss) {
		const ttl = 10 * time.Second
		early, holders, waiters := l.client(nil), l.client(nil), l.client(nil)
		// Both may be held again after the loss; the first keeps a waiter out until it expires.
		old, other := backend.Acquire(t, early.Mutex("0", holdfast.TTL(4*time.Second))), backend.Acquire(t, early.Mutex("old", holdfast.TTL(time.Minute)))
		kept := backend.Acquire(t, early.Mutex("kept", holdfast.TTL(time.Minute)))
		l.before()
		backend.Release(t, old)
		backend.Release(t, other)
		// A holder that does not renew is not told.
		untold := backend.Acquire(t, holders.Mutex("untold", holdfast.TTL(time.Minute), holdfast.NoRenew()))
		all := successions(t, holders, waiters, ttl, 5)

		begun := time.Now()
		l.lose()
		seen := map[uint64]bool{}
		outage := time.Since(begun)
		if h, err := backend.HolderOf(t.Context(), waiters.Mutex("old")); l.keeps && (err != nil || !backend.IsShown(h.Fence, other.Fence())) {
			t.Errorf("what was released after the last data that are left is not held again: %+v, %v", h, err)
		}
		overlaps := settle(t, waiters, all, outage, ttl, seen)
		t.Logf("%d overlaps of %d; every late write was refused", overlaps, len(all))
		for _, released := range []*holdfast.Lease{old, other} {
			if err := released.Err(); err != holdfast.ErrReleased || seen[released.Fence()] {
				t.Errorf("%v, which was released: %v; its fence was issued twice: %t", released, err, seen[released.Fence()])
			}
		}
		if err := kept.Err(); l.keeps && err != nil {
			t.Errorf("a lock that the server has not lost: %v", err)
		}
		next := backend.Acquire(t, waiters.Mutex(untold.Name()))
		var r backend.Resource
		if !r.Succeed(t, untold, next) {
			t.Errorf("the leases do not overlap, so these tests cannot show what Strict does: %v, %v", untold.Err(), next.Err())
		}
		backend.Release(t, next)
		expect.Err(t, "Release of the lost lease", untold.Release(t.Context()), holdfast.ErrLost)
	})
}

// passage is a lock of every kind, held by one client and wanted by another.
type passage struct {
	held    map[string]*holdfast.Lease
	waiting map[string]<-chan *holdfast.Lease
}

func startPassage(t *testing.T, holder, other *holdfast.Client) passage {
	t.Helper()
	p := passage{map[string]*holdfast.Lease{}, map[string]<-chan *holdfast.Lease{}}
	for what, pair := range everyPair() {
		p.held[what] = backend.Acquire(t, pair.Held(holder))
		p.waiting[what] = backend.Start(t, pair.Wanted(other))
	}
	return p
}

// ends requires that the leases have been kept, and that the waiters have the locks: not before that time.
func (p passage) ends(t *testing.T, earliest time.Time) {
	t.Helper()
	for what, lease := range p.held {
		expect.Err(t, what+": the earlier lease", lease.Err(), nil)
		backend.Release(t, lease)
		next := backend.Receive(t, p.waiting[what])
		if at := time.UnixMicro(int64(next.Fence())); at.Before(earliest) {
			t.Errorf("%s: granted %s too early", what, earliest.Sub(at))
		}
		if next.Fence() <= lease.Fence() {
			t.Errorf("%s: fence %d follows %d", what, next.Fence(), lease.Fence())
		}
		backend.Release(t, next)
	}
}

// Fault: A Strict server restarts with all its data, from an RDB or an AOF file. It grants nothing for a while, since
// it cannot know that they are complete; a holder keeps its lock, and a waiter gets it in the end.
func TestStrictLeasesOutliveARestartThatKeepsThem(t *testing.T) {
	t.Parallel()
	for how, opts := range map[string][]server.Option{
		"RDB": {server.Conf("save", "3600 1")},
		"AOF": {server.Conf("appendonly", "yes"), server.Conf("appendfsync", "everysec")},
	} {
		t.Run(how, func(t *testing.T) {
			server.Each(t, func(t *testing.T, bin server.Binary) {
				b := backend.Real(t, bin, opts...)
				holder, other := b.Client(t, strict(2*term)), b.Client(t, strict(2*term))
				initialise(t, holder)
				p := startPassage(t, holder, other)
				backend.Waiters(t, holder.Mutex("m"), 1)
				losing := time.Now()
				b.Server.Stop() // it saves its data
				b.Server.Restart()
				_, err := other.Mutex("free").TryAcquire(t.Context())
				quarantined(t, err)
				for what, lease := range p.held {
					backend.Eventually(t, what+" is renewed", func() bool {
						return lease.Err() != nil || lease.Deadline().After(losing.Add(2*term+time.Second))
					})
				}
				p.ends(t, losing.Truncate(time.Millisecond).Add(2*term))
			})
		})
	}
}

// Fault: DEBUG RELOAD saves a Strict server's data and loads them again. Nothing is lost, and there is no quarantine.
func TestStrictLeasesOutliveAReload(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		b := backend.Real(t, bin, server.Conf("enable-debug-command", "yes"), server.Conf("appendonly", "yes"))
		holder, other := b.Client(t, strict(term)), b.Client(t, strict(term))
		initialise(t, holder)
		for _, command := range [][]any{{"DEBUG", "RELOAD"}, {"DEBUG", "LOADAOF"}} {
			p := startPassage(t, holder, other)
			do(t, b.Server, command...)
			backend.Release(t, backend.Acquire(t, other.Mutex("free")))
			p.ends(t, time.Time{})
		}
	})
}

// Fault: A user loses the right to INFO, in Strict mode. It gets no more locks, keeps none past its deadline, and is
// told why; locks can still be released.
func TestStrictWithoutInfoFromNowOn(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		do(t, b.Server, "ACL", "SETUSER", "u", "on", ">x", "~*", "&*", "+@all")
		// Renewals, which keep failing, are rare with these settings.
		long := &holdfast.Config{Strict: true, MaxTTL: time.Minute, TTL: time.Minute, CommandTimeout: 6 * time.Second}
		c := b.Client(t, long, func(o *redis.Options) { o.Username, o.Password = "u", "x" })
		other := b.Client(t, long)
		initialise(t, c)
		held, wanted := map[string]*holdfast.Lease{}, map[string]*holdfast.Lock{}
		for what, pair := range backend.Pairs() {
			held[what], wanted[what] = backend.Acquire(t, pair.Held(c)), pair.Wanted(other)
		}
		handed := backend.Acquire(t, c.Mutex("handed", holdfast.TTL(3*term)))
		waiter := backend.Start(t, other.Mutex("handed"))
		backend.Waiters(t, other.Mutex("handed"), 1)
		kept := backend.Acquire(t, c.Mutex("kept", holdfast.TTL(term)))

		do(t, b.Server, "ACL", "SETUSER", "u", "-info")
		expect.Err(t, "TryAcquire", expect.ErrOf(c.Mutex("free").TryAcquire(t.Context())), holdfast.ErrDenied)
		expect.Err(t, "Extend", kept.Extend(t.Context(), term), holdfast.ErrDenied)
		for what, lease := range held {
			expect.Err(t, what+": Release", lease.Release(t.Context()), nil)
			next, err := wanted[what].TryAcquire(t.Context())
			if err != nil {
				t.Errorf("%s, after its release: %v", what, err)
				continue
			}
			backend.Release(t, next)
		}
		// A client that does not know whether data was lost cannot hand the lock over: the waiter gets it by
		// looking.
		expect.Err(t, "Release of what another waits for", handed.Release(t.Context()), nil)
		backend.Release(t, backend.Receive(t, waiter))
		lost(t, "a lease that cannot be renewed", kept)
		var l *holdfast.LostError
		if err := kept.Err(); !errors.As(err, &l) || l.Reason != holdfast.LossUnreachable || !errors.Is(err, holdfast.ErrDenied) {
			t.Errorf("the end of a lease that could not be renewed: %v", err)
		}
	})
}
