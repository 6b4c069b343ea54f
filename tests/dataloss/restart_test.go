package dataloss

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

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
		if err := lease.Err(); err != nil {
			t.Errorf("%s: the earlier lease: %v", what, err)
		}
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
			eachServer(t, func(t *testing.T, bin server.Binary) {
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
	t.Parallel()
	eachServer(t, func(t *testing.T, bin server.Binary) {
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
	t.Parallel()
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
		if _, err := c.Mutex("free").TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrDenied) {
			t.Errorf("TryAcquire: %v", err)
		}
		if err := kept.Extend(t.Context(), term); !errors.Is(err, holdfast.ErrDenied) {
			t.Errorf("Extend: %v", err)
		}
		for what, lease := range held {
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("%s: Release: %v", what, err)
			}
			next, err := wanted[what].TryAcquire(t.Context())
			if err != nil {
				t.Errorf("%s, after its release: %v", what, err)
				continue
			}
			backend.Release(t, next)
		}
		// A client that does not know whether data was lost cannot hand the lock over: the waiter gets it by
		// looking.
		if err := handed.Release(t.Context()); err != nil {
			t.Errorf("Release of what another waits for: %v", err)
		}
		backend.Release(t, backend.Receive(t, waiter))
		lost(t, "a lease that cannot be renewed", kept)
		var l *holdfast.LostError
		if err := kept.Err(); !errors.As(err, &l) || l.Reason != holdfast.LossUnreachable || !errors.Is(err, holdfast.ErrDenied) {
			t.Errorf("the end of a lease that could not be renewed: %v", err)
		}
	})
}
