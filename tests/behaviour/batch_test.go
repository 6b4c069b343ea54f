package behaviour

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

// through returns a client whose commands go through a proxy. It has acquired and released a lock, so the
// server has its scripts.
func through(t testing.TB, b *backend.Backend, cfg *holdfast.Config) (*holdfast.Client, *proxy.Proxy) {
	t.Helper()
	p := proxy.New(t, b.Server.Addr())
	c := b.Client(t, cfg, func(o *redis.Options) { o.Addr = p.Addr() })
	backend.Release(t, backend.Acquire(t, c.Mutex("warm")))
	backend.Release(t, backend.Acquire(t, c.Mutex("warm")))
	return c, p
}

// crowd runs do in n goroutines, and returns when all are done.
func crowd(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// many acquires n locks at once, and releases them at once. It returns their fences.
func many(t testing.TB, c *holdfast.Client, n int, opts ...holdfast.MutexOption) []uint64 {
	t.Helper()
	leases, fences := make([]*holdfast.Lease, n), make([]uint64, n)
	crowd(n, func(i int) {
		lease, err := c.Mutex(fmt.Sprint("m", i), opts...).Acquire(t.Context())
		if err != nil {
			t.Errorf("m%d: %v", i, err)
			return
		}
		leases[i], fences[i] = lease, lease.Fence()
	})
	crowd(n, func(i int) {
		if leases[i] == nil {
			return
		}
		if err := leases[i].Release(t.Context()); err != nil {
			t.Errorf("m%d: %v", i, err)
		}
	})
	return fences
}

// rise requires that each name's fence is above the one before, and that all fences differ. It ignores locks that were not
// acquired, whose fence is 0.
func rise(t testing.TB, before, after []uint64) {
	t.Helper()
	of := map[uint64]int{}
	for i, fence := range after {
		if fence == 0 {
			continue
		}
		if other, twice := of[fence]; twice {
			t.Errorf("m%d and m%d have the fence %d", other, i, fence)
		}
		if of[fence] = i; before != nil && fence <= before[i] {
			t.Errorf("m%d: fence %d follows %d", i, fence, before[i])
		}
	}
}

// distant is a driver of a server that is far away. It counts calls.
type distant struct {
	drivertest.Driver
	calls atomic.Int64
	delay time.Duration // of every call

	key  string        // of a call whose reply is lost, once
	lost chan struct{} // closed when the server has carried that call out
}

func (d *distant) Run(ctx context.Context, call driver.Call) (string, error) {
	d.calls.Add(1)
	time.Sleep(d.delay)
	reply, err := d.Driver.Run(ctx, call)
	if d.key != "" && slices.Contains(call.Keys, d.key) {
		d.key = ""
		close(d.lost)
		<-ctx.Done()
		return "", ctx.Err()
	}
	return reply, err
}

// Locks that many goroutines acquire at the same time are requested together, and so are releases. They ask at
// the same time because a round trip to the server takes longer than it takes all of them to ask.
func TestManyLocksTakeFewCommands(t *testing.T) {
	t.Parallel()
	backend.Virtual(t, func(t *testing.T, b *backend.Backend) {
		d := &distant{Driver: b.Hearing(t, "no channel")}
		c := backend.New(t, nil, d)
		backend.Release(t, backend.Acquire(t, c.Mutex("warm")))
		d.delay = 10 * time.Millisecond
		const goroutines = 300
		var fences []uint64
		for range 3 {
			before := d.calls.Load()
			next := many(t, c, goroutines)
			if n := d.calls.Load() - before; n > 2*goroutines/4 {
				t.Errorf("%d calls for %d acquires and as many releases", n, goroutines)
			}
			rise(t, fences, next)
			fences = next
		}
		b.Cleaned(t)
	})
}

// With batches of one, or without batches, only the number of commands differs.
func TestBatchesOfOneAndNone(t *testing.T) {
	for _, size := range []int{-1, 1, 2, 1000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			backend.EachLong(t, func(t *testing.T, b *backend.Backend) {
				c := b.Client(t, &holdfast.Config{MaxBatch: size})
				first := many(t, c, 60)
				rise(t, nil, first)
				rise(t, first, many(t, c, 60))
				const ttl = 5 * time.Second
				lease := backend.Acquire(t, c.Mutex("m0", holdfast.TTL(ttl)))
				granted := lease.Deadline()
				if _, err := c.Mutex("m0").TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
					t.Errorf("Batch %d: a lock that is held: %v", size, err)
				}
				next := queue(t, b.Client(t, &holdfast.Config{MaxBatch: size}).Mutex("m0"), 1)
				backend.Eventually(t, "it outlives its TTL", func() bool { return lease.Err() != nil || time.Now().After(granted.Add(ttl/3)) })
				if err := lease.Err(); err != nil {
					t.Errorf("Batch %d: a lease that should be renewed: %v", size, err)
				}
				backend.Release(t, lease)
				after := backend.Receive(t, next)
				if after.Fence() <= lease.Fence() {
					t.Errorf("Batch %d: fence %d follows %d", size, after.Fence(), lease.Fence())
				}
				backend.Release(t, after)
				b.Cleaned(t)
			})
		})
	}
}

// Either way each lock has one command to itself.
func TestBatchesOfOneAndNoneCostTheSame(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		for _, size := range []int{-1, 1} {
			c, sent := b.Counted(t, &holdfast.Config{MaxBatch: size})
			const cycles = 20
			many(t, c, cycles)
			if n := sent(); n != 2*cycles {
				t.Errorf("Batch %d: %d calls for %d cycles", size, n, cycles)
			}
		}
	})
}

// A lock that a batch has left is requested alone from then on, until such a request finds it free. That costs
// one further command, once.
func TestAContendedLockIsLeftOnce(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c, sent := b.Counted(t, nil)
		held := func(name string) {
			t.Helper()
			if _, err := c.Mutex(name).TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("a lock that is held: %v", err)
			}
		}
		lease := backend.Acquire(t, c.Mutex("m"))
		cost := func(want int64, do func()) {
			t.Helper()
			before := sent()
			do()
			if n := sent() - before; n != want {
				t.Errorf("%d calls; want %d", n, want)
			}
		}
		const tries = 20
		cost(1+tries, func() {
			for range tries {
				held("m")
			}
		})
		backend.Release(t, lease)
		for range 2 {
			cost(2, func() { backend.Release(t, backend.Acquire(t, c.Mutex("m"))) })
		}
		// Now the client has forgotten the contention: a lock that a batch leaves costs two commands again.
		lease = backend.Acquire(t, c.Mutex("m"))
		cost(2, func() { held("m") })
		backend.Release(t, lease)
	})
}

// Fault: A caller's context ends while its batch is under way. It returns at once; its lock is given back if the
// batch is granted it, and the other callers get theirs.
func TestCancelledInABatch(t *testing.T) {
	t.Parallel()
	backend.Virtual(t, func(t *testing.T, b *backend.Backend) {
		// The reply that is lost is the one for left0, which is requested last.
		d := &distant{Driver: b.Hearing(t, "no channel"), key: "holdfast:{left0}", lost: make(chan struct{})}
		c := backend.New(t, nil, d)
		backend.Release(t, backend.Acquire(t, c.Mutex("warm")))
		d.delay = 10 * time.Millisecond
		const goroutines = 20
		before := d.calls.Load()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		leaving, staying := make(chan error, goroutines), make(chan error, goroutines)
		use := func(ctx context.Context, name string, result chan<- error) {
			lease, err := c.Mutex(name, holdfast.TTL(2*time.Minute)).Acquire(ctx)
			if err == nil {
				err = lease.Release(t.Context())
			}
			result <- err
		}
		for i := range goroutines {
			go use(t.Context(), fmt.Sprint("kept", i), staying)
			go use(ctx, fmt.Sprint("left", goroutines-1-i), leaving)
		}
		<-d.lost
		if n := d.calls.Load() - before; n > goroutines {
			t.Errorf("%d calls: they have not gone together", n)
		}
		cancel()
		began, cancelled := time.Now(), 0
		for range goroutines {
			switch err := <-leaving; {
			case errors.Is(err, context.Canceled):
				cancelled++
			case err != nil:
				t.Errorf("a caller that has left: %v", err)
			}
		}
		if took := time.Since(began); cancelled == 0 || took > time.Second { // a call is given up after 6 s

			t.Errorf("%d were let go, after %v", cancelled, took)
		}
		another := b.Client(t, nil)
		for i := range goroutines {
			soon, stop := context.WithTimeout(t.Context(), 30*time.Second) // the TTL is longer
			lease, err := another.Mutex(fmt.Sprint("left", i)).Acquire(soon)
			stop()
			if err != nil {
				t.Errorf("a lock that was left: %v", err)
				continue
			}
			backend.Release(t, lease)
		}
		for range goroutines {
			if err := <-staying; err != nil {
				t.Errorf("a caller that stays: %v", err)
			}
		}
	})
}

// Fault: A batch is refused as a whole because the user may not access one of its keys. The other locks are served
// all the same: acquires, renewals and releases.
func TestABatchWithAForbiddenLock(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: part of make nightly")
	}
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		ctx, operator := t.Context(), b.Redis(t)
		allow := func(keys ...string) {
			t.Helper()
			rules := append([]string{"resetkeys", "~holdfast:fences"}, keys...)
			if err := operator.ACLSetUser(ctx, "u", rules...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := operator.ACLSetUser(ctx, "u", "on", ">secret", "+@all", "allchannels").Err(); err != nil {
			t.Fatal(err)
		}
		allow("~holdfast:*")
		p := proxy.New(t, b.Server.Addr())
		c := b.Client(t, nil, func(o *redis.Options) { o.Addr, o.Username, o.Password = p.Addr(), "u", "secret" })
		backend.Release(t, backend.Acquire(t, c.Mutex("warm")))
		allow("~holdfast:{m*")
		p.DelayReplies(10 * time.Millisecond)
		const goroutines = 40
		leases := make([]*holdfast.Lease, goroutines)
		crowd(goroutines, func(i int) {
			name := fmt.Sprint("m", i)
			if i%10 == 5 {
				name = fmt.Sprint("forbidden", i)
			}
			lease, err := c.Mutex(name, holdfast.TTL(10*time.Second)).Acquire(ctx)
			switch {
			case i%10 == 5 && !errors.Is(err, holdfast.ErrDenied):
				t.Errorf("%s: %v", name, err)
			case i%10 != 5 && err != nil:
				t.Errorf("%s: %v", name, err)
			}
			leases[i] = lease
		})
		// Access to a held lock is withdrawn: the others are still renewed, and released.
		allow("~holdfast:{m1*", "~holdfast:{m2*", "~holdfast:{m3*", "~holdfast:{m4}*")
		mine := func(i int) bool { return i%10 != 5 && (i == 4 || i == 1 || i == 2 || i == 3 || i >= 10) }
		time.Sleep(20 * time.Second) // two TTLs
		crowd(goroutines, func(i int) {
			if leases[i] == nil {
				return
			}
			if err := leases[i].Err(); mine(i) && err != nil || !mine(i) && !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("m%d: %v", i, err)
			}
			if err := leases[i].Release(ctx); mine(i) && err != nil {
				t.Errorf("m%d: %v", i, err)
			}
		})
	})
}

// Fault: A client is closed while a batch is under way and others wait behind it. No locks are left.
func TestCloseWithBatchesUnderWay(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c, p := through(t, b, &holdfast.Config{CommandTimeout: 2 * time.Minute, RetryTimeout: 4 * time.Minute})
		held := p.Hold(proxy.Containing(script.BatchAcquire().SHA1), proxy.Cut)
		const goroutines = 50
		results := make(chan error, goroutines)
		for i := range goroutines {
			go func() {
				lease, err := c.Mutex(fmt.Sprint("m", i)).Acquire(t.Context())
				if err == nil {
					err = lease.Release(t.Context())
				}
				results <- err
			}()
		}
		held.Wait(t)
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		for range goroutines {
			if err := <-results; err != nil && !errors.Is(err, holdfast.ErrClosed) {
				t.Errorf("an acquire under way: %v", err)
			}
		}
		held.Forward(t) // late: a copy of a request that failed
		backend.Eventually(t, "locks are left behind", func() bool {
			return len(b.Redis(t).Keys(t.Context(), "holdfast:{m*}").Val()) == 0
		})
	})
}
