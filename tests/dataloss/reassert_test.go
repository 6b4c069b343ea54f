package dataloss

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/clockshim"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// renewed waits until a lease has been renewed once more.
func renewed(t *testing.T, lease *holdfast.Lease) {
	t.Helper()
	before := lease.Deadline()
	backend.Eventually(t, "a renewal", func() bool { return lease.Deadline().After(before) || lease.Err() != nil })
	expect.OK(t, lease.Err())
}

// lost waits until the lease has ended, and requires that it was lost.
func lost(t *testing.T, what string, lease *holdfast.Lease) {
	t.Helper()
	select {
	case <-lease.Done():
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: the holder is not told", what)
	}
	expect.Err(t, what, lease.Err(), holdfast.ErrLost)
}

// Fault: The server loses everything under a holder. The holder takes its lock again, with the same fence.
func TestAHolderAssertsItsLockAgain(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 10 * time.Second
		wipes := map[string]func(){"FLUSHALL": func() { b.Redis(t).FlushAll(t.Context()) }}
		if b.Server != nil {
			wipes["restart"] = func() { b.Server.Kill(); b.Server.Restart() }
		}
		for what, wipe := range wipes {
			c := b.Client(t, nil)
			lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(ttl)))
			other := backend.Acquire(t, c.Mutex("b", holdfast.TTL(ttl)))
			wipe()
			renewed(t, lease)
			renewed(t, other)
			h, err := backend.HolderOf(t.Context(), c.Mutex("a"))
			if err != nil || h.Fence != lease.Fence() || h.Identity != lease.Identity() {
				t.Errorf("%s: held by %+v, %v; want fence %d of %s", what, h, err, lease.Fence(), lease.Identity())
			}
			next := backend.Start(t, b.Client(t, nil).Mutex("a"))
			backend.Waiters(t, c.Mutex("a"), 1)
			backend.Release(t, lease)
			later := backend.Receive(t, next)
			expect.Rises(t, lease.Fence(), later.Fence())
			backend.Release(t, later)
			backend.Release(t, other)
		}
	})
}

// Fault: The server loses everything under a holder, and another has, or may have, had the lock since, or the
// deadline is past. The lock is lost.
func TestALockThatMayHaveBeenAnothersIsLost(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 6 * time.Second
		rdb, peer := b.Redis(t), b.Client(t, nil)
		shared := peer.MutexKey("{shared}")
		// The server loses everything, and another process acquires the lock before its holder claims it.
		take := func() (lease *holdfast.Lease) {
			backend.Eventually(t, "another takes it", func() (ok bool) {
				rdb.FlushAll(t.Context())
				var err error
				lease, err = peer.Mutex("a").TryAcquire(t.Context())
				return err == nil
			})
			return lease
		}
		for what, spoil := range map[string]func() (taken []*holdfast.Lease){
			"deleted by hand": func() []*holdfast.Lease {
				rdb.Del(t.Context(), "holdfast:{a}")
				return nil
			},
			"had by another since": func() []*holdfast.Lease {
				backend.Release(t, take())
				backend.Release(t, backend.Acquire(t, shared))
				return nil
			},
			"taken by another": func() []*holdfast.Lease {
				return []*holdfast.Lease{take(), backend.Acquire(t, shared)}
			},
		} {
			lease := backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(ttl)))
			taken := spoil()
			lost(t, what, lease)
			for _, l := range taken {
				backend.Release(t, l)
			}
		}
		// A foreign program may have held the key, and would have left no trace.
		lease := backend.Acquire(t, b.Client(t, nil).MutexKey("{shared}", holdfast.TTL(ttl)))
		rdb.FlushAll(t.Context())
		lost(t, "a shared key", lease)
	})
}

// Fault: A request to take a lost lock again is held back, and arrives after the lease was released. The tombstone
// answers it, and nothing comes back.
func TestALateReassertionBringsNothingBack(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		p := proxy.New(t, b.Server.Addr())
		c := b.Client(t, &holdfast.Config{CommandTimeout: 600 * time.Millisecond, RetryTimeout: 20 * time.Second}, func(o *redis.Options) { o.Addr = p.Addr() })
		lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(30*time.Second)))
		// The first such request that a server without the script receives contains its source.
		held := p.Hold(proxy.Containing(script.Reassert().SHA1), proxy.Hang)
		do(t, b.Server, "SCRIPT", "LOAD", script.Reassert().Source)
		do(t, b.Server, "DEL", "holdfast:{a}", "holdfast:fences")
		_ = lease.Extend(t.Context(), 5*time.Second)
		held.Wait(t)
		backend.Release(t, lease) // another copy has brought the lock back
		held.Forward(t)
		expect.Equal[any](t, "the late request took the lock for nobody", do(t, b.Server, "EXISTS", "holdfast:{a}"), int64(0))
	})
}

// After the server has lost its data, between makes another process acquire the lock that the first one holds,
// and release it; then the first one claims its lock again. lose loses the data.
func between(t *testing.T, clients func() *holdfast.Client, lose func()) {
	t.Helper()
	mine := backend.Acquire(t, clients().Mutex("a", holdfast.TTL(time.Minute)))
	lose()
	backend.Release(t, backend.Acquire(t, clients().Mutex("a")))
	expect.Err(t, "Extend by the holder of a lower fence", mine.Extend(t.Context(), time.Minute), holdfast.ErrLost)
}

// alone lets nobody acquire the lock meanwhile: its holder goes on, and later fences are higher.
func alone(t *testing.T, clients func() *holdfast.Client, lose func()) {
	t.Helper()
	mine := backend.Acquire(t, clients().Mutex("a", holdfast.TTL(time.Minute)))
	lose()
	expect.OK(t, mine.Extend(t.Context(), time.Minute))
	backend.Release(t, mine)
	other := backend.Acquire(t, clients().Mutex("a"))
	expect.Rises(t, mine.Fence(), other.Fence())
	backend.Release(t, other)
}

// Fault: The counter is lost, and the next fence is below the holder's because the server's clock went back. The
// holder is told if another had its lock, and goes on if nobody had.
func TestAHolderAfterWhomTheClockWentBack(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		clock := clockshim.New(t)
		b := backend.Real(t, bin, clock.Option())
		clients := func() *holdfast.Client { return b.Client(t, nil) }
		wipe := func() {
			clock.Jump(-3 * time.Second)
			do(t, b.Server, "FLUSHALL")
		}
		between(t, clients, wipe)
		do(t, b.Server, "FLUSHALL")
		between(t, clients, func() {
			do(t, b.Server, "FLUSHALL")
			clock.Jump(-3 * time.Second)
		})
		do(t, b.Server, "FLUSHALL")
		alone(t, clients, wipe)
	})
}

// Fault: The clock goes back with the data, another process acquires the lock soon after its holder did, and the
// holder's request for its lock takes far longer to arrive. The holder does not take the lock again.
func TestAReassertionThatTakesLongToArrive(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		clock := clockshim.New(t)
		b := backend.Real(t, bin, clock.Option())
		p := proxy.New(t, b.Server.Addr())
		c := b.Client(t, &holdfast.Config{CommandTimeout: 20 * time.Second, RetryTimeout: 20 * time.Second}, func(o *redis.Options) { o.Addr = p.Addr() })
		do(t, b.Server, "SCRIPT", "LOAD", script.Reassert().Source)
		mine := backend.Acquire(t, c.Mutex("a", holdfast.TTL(time.Minute)))
		began := time.Now()
		clock.Jump(-time.Hour)
		do(t, b.Server, "FLUSHALL")
		other := backend.Acquire(t, b.Client(t, nil).Mutex("a"))
		backend.Release(t, other)
		moment := time.Since(began)

		held := p.Hold(proxy.Containing(script.Reassert().SHA1), proxy.Hang)
		ctx, cancel := context.WithCancel(t.Context())
		extended := make(chan struct{})
		go func() {
			defer close(extended)
			_ = mine.Extend(ctx, time.Minute)
		}()
		held.Wait(t)
		time.Sleep(2*moment + 100*time.Millisecond) // the server's clock has to move: it is not virtual
		if reply := held.Forward(t); strings.Contains(reply, "renewed ") || !strings.Contains(reply, "absent ") {
			t.Errorf("fence %d was granted after %d, whose holder has its lock again: %q", other.Fence(), mine.Fence(), reply)
		}
		cancel()
		<-extended
	})
}

// Fault: The counter is lost, and the next fence is below the holder's, which led the server's clock. The holder is
// told if another had its lock, and goes on if nobody had.
func TestAHolderWhoseFenceLedTheClock(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		rdb := b.Redis(t)
		clients := func() *holdfast.Client { return b.Client(t, nil) }
		lose := func() { rdb.FlushAll(t.Context()) }
		for _, lead := range []time.Duration{900 * time.Millisecond, time.Hour} {
			for _, with := range []func(*testing.T, func() *holdfast.Client, func()){between, alone} {
				now := expect.Of(rdb.Time(t.Context()).Result()).OK(t)
				backend.SetCounter(t, rdb, "holdfast:fences", now.Add(lead).UnixMicro())
				with(t, clients, lose)
				lose()
			}
		}
	})
}

// Fault: A replica that lacks the lock, and whose clock is slow, is promoted. The holder is told if another had its
// lock, and goes on if nobody had.
func TestAHolderWhoseNextServersClockIsSlow(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		for what, with := range map[string]func(*testing.T, func() *holdfast.Client, func()){"between": between, "alone": alone} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				clock := clockshim.New(t)
				clock.Jump(-2 * time.Second)
				p := startPair(t, bin, clock.Option())
				p.lag()
				with(t, func() *holdfast.Client { return p.client(nil) }, p.fail)
			})
		}
	})
}
