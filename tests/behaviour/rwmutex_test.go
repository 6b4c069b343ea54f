package behaviour

import (
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

// Fault: Readers keep coming while a writer waits. The writer gets the lock before all readers that came after it.
func TestAWriterWaitsForTheReadersBeforeItOnly(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		reading := backend.Acquire(t, readers(t, b))
		writer := queue(t, writers(t, b), 1)
		third, fourth := queue(t, readers(t, b), 2), queue(t, readers(t, b), 3)
		wantHeld(t, readers(t, b))
		backend.Release(t, reading)
		writing := backend.Receive(t, writer)
		wantAsleep(t, "a reader", third)
		backend.Release(t, writing)
		one, two := backend.Receive(t, third), backend.Receive(t, fourth) // together
		expect.Equal(t, "the fence of readers at one time", two.Fence(), one.Fence())
		expect.Rises(t, writing.Fence(), one.Fence())
		backend.Release(t, one)
		backend.Release(t, two)
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

// Close does not release a shared lease until all of its readers are done: some of them may still be working.
func TestCloseWaitsForAllReadersThatShareALease(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		r := c.RWMutex("a").Reader()
		one, two := backend.Acquire(t, r), backend.Acquire(t, r)
		three := backend.Acquire(t, r)
		// Readers join each other for 100 ms, which on a real server may be over before all have come.
		if all, err := backend.HoldersOf(t.Context(), r); err != nil || len(all) != 1 && b.Server == nil && !backend.Pipelines(t) {
			t.Errorf("Holders: %+v, %v; want one for three readers of one process", all, err)
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
			wantHeld(t, b.Client(t, nil).Semaphore("s", 3).Permits(1)) // though two are free
			expect.OK(t, s.Resize(t.Context(), 2))
			backend.Release(t, backend.Receive(t, next))
			backend.Release(t, one)
			expect.Err(t, "the heavy one, before one "+behind, <-failed, holdfast.ErrMismatch)
			expect.OK(t, s.Resize(t.Context(), 0))
			b.Cleaned(t)
		}
	})
}
