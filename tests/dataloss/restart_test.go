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

// Fault: A Strict server restarts with all its data, from an RDB or an AOF file. It grants nothing for a while, since
// it cannot know that they are complete; a holder keeps its lock, and a waiter gets it in the end.
func TestStrictLeasesOutliveARestartThatKeepsThem(t *testing.T) {
	t.Parallel()
	for how, opts := range map[string][]server.Option{
		"RDB": {server.Conf("save", "3600 1")},
		"AOF": {server.Conf("appendonly", "yes"), server.Conf("appendfsync", "everysec")},
	} {
		for _, bin := range server.Binaries(t) {
			t.Run(how+" of "+bin.Name, func(t *testing.T) {
				t.Parallel()
				b := backend.Real(t, bin, opts...)
				holder, other := b.Client(t, strict(2*term)), b.Client(t, strict(2*term))
				initialise(t, holder)
				held := map[string]*holdfast.Lease{"a mutex": backend.Acquire(t, holder.Mutex("m"))}
				waiting := map[string]<-chan *holdfast.Lease{"a mutex": backend.Start(t, other.Mutex("m"))}
				for what, pair := range backend.Pairs() {
					held[what] = backend.Acquire(t, pair.Held(holder))
					waiting[what] = backend.Start(t, pair.Wanted(other))
				}
				backend.Waiters(t, holder.Mutex("m"), 1)
				losing := time.Now()
				b.Server.Stop() // it saves its data
				b.Server.Restart()
				_, err := other.Mutex("free").TryAcquire(t.Context())
				quarantined(t, err)
				for what, lease := range held {
					backend.Eventually(t, what+" is renewed", func() bool {
						return lease.Err() != nil || lease.Deadline().After(losing.Add(2*term+time.Second))
					})
					if err := lease.Err(); err != nil {
						t.Errorf("%s: the earlier lease: %v", what, err)
					}
				}
				for what, lease := range held {
					backend.Release(t, lease)
					next := backend.Receive(t, waiting[what])
					if d := time.UnixMicro(int64(next.Fence())).Sub(losing.Truncate(time.Millisecond)); d < 2*term {
						t.Errorf("%s: granted %s after the restart", what, d)
					}
					if next.Fence() <= lease.Fence() {
						t.Errorf("%s: fence %d follows %d", what, next.Fence(), lease.Fence())
					}
					backend.Release(t, next)
				}
			})
		}
	}
}

// Fault: DEBUG RELOAD saves a Strict server's data and loads them again. Nothing is lost, and there is no quarantine.
func TestStrictLeasesOutliveAReload(t *testing.T) {
	t.Parallel()
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			b := backend.Real(t, bin, server.Conf("enable-debug-command", "yes"), server.Conf("appendonly", "yes"))
			holder, other := b.Client(t, strict(term)), b.Client(t, strict(term))
			initialise(t, holder)
			for _, command := range [][]any{{"DEBUG", "RELOAD"}, {"DEBUG", "LOADAOF"}} {
				held := map[string]*holdfast.Lease{}
				waiting := map[string]<-chan *holdfast.Lease{}
				for what, pair := range backend.Pairs() {
					held[what] = backend.Acquire(t, pair.Held(holder))
					waiting[what] = backend.Start(t, pair.Wanted(other))
				}
				do(t, b.Server, command...)
				backend.Release(t, backend.Acquire(t, other.Mutex("free")))
				for what, lease := range held {
					if err := lease.Err(); err != nil {
						t.Errorf("%s: the earlier lease: %v", what, err)
					}
					backend.Release(t, lease)
					next := backend.Receive(t, waiting[what])
					if next.Fence() <= lease.Fence() {
						t.Errorf("%s: fence %d follows %d", what, next.Fence(), lease.Fence())
					}
					backend.Release(t, next)
				}
			}
		})
	}
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
