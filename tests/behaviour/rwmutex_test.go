package behaviour

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// readers and writers return a side of one lock, with a client of its own.
func readers(t testing.TB, b *backend.Backend, opts ...holdfast.RWMutexOption) *holdfast.Lock {
	return b.Client(t, nil).RWMutex("a", opts...).Reader()
}

func writers(t testing.TB, b *backend.Backend, opts ...holdfast.RWMutexOption) *holdfast.Lock {
	return b.Client(t, nil).RWMutex("a", opts...).Writer()
}

// wantHeld requires that TryAcquire fails because the lock is held.
func wantHeld(t testing.TB, l *holdfast.Lock) {
	t.Helper()
	lease, err := l.TryAcquire(t.Context())
	expect.Err(t, "TryAcquire", err, holdfast.ErrHeld)
	if err == nil {
		backend.Release(t, lease)
	}
}

// wantAsleep requires that the waiter has not been served.
func wantAsleep(t testing.TB, who string, leases <-chan *holdfast.Lease) {
	t.Helper()
	select {
	case l := <-leases:
		t.Fatalf("%s was served (%v), too early", who, l)
	case <-time.After(30 * time.Millisecond):
	}
}

// Fault: A reader dies. It is in the way for its own TTL, whatever others do meanwhile.
func TestADeadReaderIsGoneAfterItsTTL(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		live := backend.Acquire(t, readers(t, b, holdfast.TTL(time.Minute)))
		dead := backend.Acquire(t, readers(t, b, holdfast.TTL(5*time.Second), holdfast.NoRenew()))
		w := writers(t, b)
		backend.Eventually(t, "only the reader is left that renews", func() bool {
			all, err := backend.HoldersOf(t.Context(), w)
			return err == nil && len(all) == 1
		})
		next := backend.Start(t, w)
		backend.Waiters(t, w, 1)
		expect.Err(t, "the live reader", live.Err(), nil)
		expect.Err(t, "the dead reader", dead.Err(), holdfast.ErrLost)
		backend.Release(t, live)
		backend.Release(t, backend.Receive(t, next))
		b.Cleaned(t)
	})
}

func TestAWriterGetsInWhenTheLastReaderDies(t *testing.T) {
	virtually(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 10 * time.Second
		for _, ttl := range []time.Duration{ttl * 3 / 5, ttl} {
			backend.Acquire(t, readers(t, b, holdfast.TTL(ttl), holdfast.NoRenew()))
		}
		begun := time.Now()
		lease := backend.Acquire(t, writers(t, b))
		expect.AtMost(t, "the writer's wait for readers that are dead", time.Since(begun), ttl+time.Second)
		backend.Release(t, lease)
		b.Cleaned(t)
	})
}

// Fault: Readers come and go without a pause. A writer gets the lock before all readers that come after it.
func TestAWriterWaitsForTheReadersBeforeItOnly(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		const hold = 50 * time.Millisecond
		var queued, over atomic.Bool // the writer is queued; the stream is over
		defer over.Store(true)
		var mu sync.Mutex
		var after []uint64 // fences of readers that came after the writer was queued
		var reading, read atomic.Int64
		var wg sync.WaitGroup
		for i := range 4 {
			// Readers of one process that share a lease overtake writers for 100 ms.
			l := b.Client(t, &holdfast.Config{MaxLocalHandovers: -1}).RWMutex("a").Reader()
			for j := range 2 {
				wg.Go(func() {
					dice := random(10*i + j)
					for !over.Load() {
						late := queued.Load()
						lease, err := l.Acquire(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						if late {
							mu.Lock()
							after = append(after, lease.Fence())
							mu.Unlock()
						}
						reading.Add(1)
						time.Sleep(hold/2 + upTo(hold/2, dice))
						reading.Add(-1)
						read.Add(1)
						_ = lease.Release(context.Background())
					}
				})
			}
		}
		backend.Eventually(t, "the stream flows", func() bool { return read.Load() > 8 })
		w := writers(t, b)
		leases := backend.Start(t, w)
		backend.Eventually(t, "the writer is queued", func() bool {
			waiting, err := backend.Waiting(t.Context(), w)
			return err == nil && waiting > 0
		})
		queued.Store(true)
		lease := backend.Receive(t, leases)
		if n := reading.Load(); n != 0 && lease.Err() == nil {
			t.Errorf("%d readers beside a writer", n)
		}
		backend.Release(t, lease)
		backend.Eventually(t, "the stream flows again", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(after) > 8
		})
		over.Store(true)
		wg.Wait()
		for _, fence := range after {
			expect.Rises(t, lease.Fence(), fence)
		}
		b.Cleaned(t)
	})
}

// A writer to which the lock was passed on within the process has a later fence than the grant. Readers that
// join it get that fence.
func TestDowngradeOfAWriterThatTheLockWasPassedOnTo(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		rw := b.Client(t, nil).RWMutex("a")
		blocked := backend.Acquire(t, writers(t, b))
		first, second := backend.Start(t, rw.Writer()), backend.Start(t, rw.Writer())
		backend.Waiters(t, rw.Writer(), 1)
		time.Sleep(20 * time.Millisecond) // so that they are queued in this order
		backend.Release(t, blocked)
		var before, writer *holdfast.Lease
		select {
		case before = <-first:
			backend.Release(t, before)
			writer = backend.Receive(t, second)
		case before = <-second:
			backend.Release(t, before)
			writer = backend.Receive(t, first)
		}
		all, err := backend.HoldersOf(t.Context(), rw.Writer())
		if err != nil || len(all) != 1 {
			t.Fatalf("Holders: %+v, %v", all, err)
		}
		t.Logf("passed on: %v", all[0].Fence == before.Fence())
		own := expect.Of(rw.Downgrade(t.Context(), writer)).OK(t)
		other := backend.Acquire(t, readers(t, b))
		neighbour := backend.Acquire(t, rw.Reader())
		for who, l := range map[string]*holdfast.Lease{"own": own, "other process's": other, "neighbour's": neighbour} {
			expect.Equal(t, "the fence of the "+who+" reader", l.Fence(), writer.Fence())
			expect.Err(t, "Extend by the "+who+" reader", l.Extend(t.Context(), time.Minute), nil)
			backend.Release(t, l)
		}
		b.Cleaned(t)
	})
}

// Readers of one process that come together are one holder to the server. The lock is held until the last of
// them is done.
func TestReadersOfAProcessShareALease(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		rw := b.Client(t, nil).RWMutex("a")
		blocked := backend.Acquire(t, writers(t, b))
		var waiting []<-chan *holdfast.Lease
		for range 5 {
			waiting = append(waiting, backend.Start(t, rw.Reader()))
		}
		backend.Waiters(t, rw.Writer(), 1)
		time.Sleep(20 * time.Millisecond) // so that the others are queued behind the first
		backend.Release(t, blocked)
		var leases []*holdfast.Lease
		for _, w := range waiting {
			leases = append(leases, backend.Receive(t, w))
		}
		// Readers join each other for 100 ms, which on a slow machine may be over before all have come.
		exact := b.Server == nil && !backend.Pipelines(t)
		if all, err := backend.HoldersOf(t.Context(), rw.Reader()); err != nil || len(all) == 0 || exact && len(all) != 1 {
			t.Errorf("Holders: %+v, %v; want one for five readers of one process", all, err)
		}
		for _, l := range leases {
			wantHeld(t, writers(t, b))
			expect.Err(t, "a reader", l.Err(), nil)
			backend.Release(t, l)
			expect.Err(t, "a reader after its release", l.Err(), holdfast.ErrReleased)
			backend.Release(t, l)
		}
		b.Cleaned(t)
	})
}

// Close does not release a shared lease until all of its readers are done: some of them may still be working.
func TestCloseWaitsForAllReadersThatShareALease(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		r := c.RWMutex("a").Reader()
		one, two := backend.Acquire(t, r), backend.Acquire(t, r)
		three := backend.Acquire(t, r)
		if all, err := backend.HoldersOf(t.Context(), r); err != nil || len(all) != 1 {
			t.Logf("no shared lease: Holders: %+v, %v", all, err) // it took more than 100 ms
		}
		closed := async(func() error { return c.Close(t.Context()) })
		<-three.Done()
		for _, l := range []*holdfast.Lease{two, one, three} {
			wantHeld(t, writers(t, b))
			expect.Err(t, "Release of a reader", l.Release(t.Context()), nil)
		}
		select {
		case err := <-closed:
			expect.Err(t, "Close", err, nil)
		case <-time.After(time.Minute):
			t.Error("Close does not return")
		}
		b.Cleaned(t)
	})
}

// A waiter that wants more permits than there are after a resize is told so, and does not block those behind it, be they of
// another process or of its own.
func TestResizeBelowWhatAWaiterWants(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		s := c.Semaphore("s", 3)
		for behind, light := range map[string]*holdfast.Lock{"of another process": b.Client(t, nil).Semaphore("s", 3).Permits(1), "of its own process": s.Permits(1)} {
			one := backend.Acquire(t, b.Client(t, nil).Semaphore("s", 3).Permits(1))
			failed := async(func() error {
				return expect.ErrOf(c.Semaphore("s", 3).Permits(3, holdfast.TTL(5*time.Second)).Acquire(t.Context()))
			})
			backend.Waiters(t, s.Permits(1), 1)
			next := backend.Start(t, light)
			if behind == "of another process" {
				backend.Waiters(t, s.Permits(1), 2)
			}
			wantAsleep(t, "the light one behind the heavy one", next)
			expect.OK(t, s.Resize(t.Context(), 2))
			backend.Release(t, backend.Receive(t, next))
			backend.Release(t, one)
			expect.Err(t, "the heavy one, before one "+behind, <-failed, holdfast.ErrMismatch)
			expect.OK(t, s.Resize(t.Context(), 0))
			b.Cleaned(t)
		}
	})
}
