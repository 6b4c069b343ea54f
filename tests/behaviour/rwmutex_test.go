package behaviour

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
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
	if !errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("TryAcquire: %v, %v; want ErrHeld", lease, err)
	}
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

func TestReadersShareAndWritersDoNot(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		r1, r2, w := readers(t, b), readers(t, b), writers(t, b)
		one, two := backend.Acquire(t, r1), backend.Acquire(t, r2)
		wantHeld(t, w)
		all, err := backend.HoldersOf(t.Context(), w)
		if err != nil || len(all) != 2 || all[0].Mode != holdfast.ModeReader || all[0].TTL <= 0 || all[0].Owner == all[1].Owner {
			t.Errorf("Holders: %+v, %v; want two readers", all, err)
		}
		backend.Release(t, one)
		wantHeld(t, w)
		backend.Release(t, two)
		writer := backend.Acquire(t, w)
		if writer.Fence() <= one.Fence() {
			t.Errorf("the writer's fence %d is not above the reader's, %d", writer.Fence(), one.Fence())
		}
		wantHeld(t, r1)
		wantHeld(t, writers(t, b))
		backend.Release(t, writer)
		again := backend.Acquire(t, r1)
		if again.Fence() < writer.Fence() {
			t.Errorf("a reader's fence %d is below that of the writer before it, %d", again.Fence(), writer.Fence())
		}
		backend.Release(t, again)
		b.Cleaned(t)
	})
}

// Neither side starves: all are served in the order in which they came, adjacent readers together.
func TestReadersAndWritersTakeTurns(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		w := writers(t, b)
		first := backend.Acquire(t, w)
		start := func(l *holdfast.Lock, n int) <-chan *holdfast.Lease {
			leases := backend.Start(t, l)
			backend.Waiters(t, w, n)
			return leases
		}
		r1, r2 := start(readers(t, b), 1), start(readers(t, b), 2)
		w1, r3 := start(writers(t, b), 3), start(readers(t, b), 4)

		backend.Release(t, first)
		one, two := backend.Receive(t, r1), backend.Receive(t, r2)
		wantAsleep(t, "a writer behind readers", w1)
		wantAsleep(t, "a reader behind a writer", r3)
		wantHeld(t, readers(t, b)) // nobody overtakes a waiter
		backend.Release(t, one)
		wantAsleep(t, "a writer behind readers", w1)
		backend.Release(t, two)
		second := backend.Receive(t, w1)
		wantAsleep(t, "a reader behind a writer", r3)
		backend.Release(t, second)
		backend.Release(t, backend.Receive(t, r3))
		b.Cleaned(t)
	})
}

func TestReadersGoInWhenTheWriterBeforeThemGivesUp(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		held := backend.Acquire(t, readers(t, b))
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		w := writers(t, b)
		go func() {
			_, err := w.Acquire(ctx)
			gone <- err
		}()
		backend.Waiters(t, w, 1)
		next := backend.Start(t, readers(t, b))
		backend.Waiters(t, w, 2)
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire: %v; want that it was cancelled", err)
		}
		backend.Release(t, backend.Receive(t, next))
		backend.Release(t, held)
		b.Cleaned(t)
	})
}

// Fault: A reader dies. It is in the way for its own TTL, whatever others do meanwhile.
func TestADeadReaderIsGoneAfterItsTTL(t *testing.T) {
	t.Parallel()
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
		if err := live.Err(); err != nil {
			t.Errorf("the live reader: %v", err)
		}
		if err := dead.Err(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("the dead reader: %v; want ErrLost", err)
		}
		backend.Release(t, live)
		backend.Release(t, backend.Receive(t, next))
		b.Cleaned(t)
	})
}

func TestAWriterGetsInWhenTheLastReaderDies(t *testing.T) {
	t.Parallel()
	backend.Virtual(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 10 * time.Second
		for _, ttl := range []time.Duration{ttl * 3 / 5, ttl} {
			backend.Acquire(t, readers(t, b, holdfast.TTL(ttl), holdfast.NoRenew()))
		}
		begun := time.Now()
		lease := backend.Acquire(t, writers(t, b))
		if took := time.Since(begun); took > ttl+time.Second {
			t.Errorf("the writer waited for %s behind readers that were dead after %s", took, ttl)
		}
		backend.Release(t, lease)
		b.Cleaned(t)
	})
}

// Fault: Readers come and go without a pause. A writer gets the lock before all readers that come after it.
func TestAWriterWaitsForTheReadersBeforeItOnly(t *testing.T) {
	t.Parallel()
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
			if fence <= lease.Fence() {
				t.Errorf("a reader that came after the writer, which has fence %d, got in before it, with %d", lease.Fence(), fence)
			}
		}
		b.Cleaned(t)
	})
}

func TestDowngradeLeavesNoGap(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		rw := b.Client(t, nil).RWMutex("a")
		writer := backend.Acquire(t, rw.Writer())
		reader := backend.Start(t, readers(t, b))
		backend.Waiters(t, rw.Writer(), 1)
		other := backend.Start(t, writers(t, b))
		backend.Waiters(t, rw.Writer(), 2)

		own, err := rw.Downgrade(t.Context(), writer)
		if err != nil {
			t.Fatal(err)
		}
		if own.Fence() != writer.Fence() {
			t.Errorf("the reader's fence is %d, the writer's was %d", own.Fence(), writer.Fence())
		}
		if err := writer.Err(); !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("the writer's lease after its downgrade: %v; want ErrReleased", err)
		}
		backend.Release(t, writer) // changes nothing
		second := backend.Receive(t, reader)
		wantAsleep(t, "the other writer", other)
		backend.Release(t, second)
		wantAsleep(t, "the other writer", other)
		if err := own.Extend(t.Context(), time.Second); err != nil {
			t.Errorf("Extend after a downgrade: %v", err)
		}
		backend.Release(t, own)
		backend.Release(t, backend.Receive(t, other))
		b.Cleaned(t)
	})
}

// A writer to which the lock was passed on within the process has a later fence than the grant. Readers that
// join it get that fence.
func TestDowngradeOfAWriterThatTheLockWasPassedOnTo(t *testing.T) {
	t.Parallel()
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
		own, err := rw.Downgrade(t.Context(), writer)
		if err != nil {
			t.Fatal(err)
		}
		other := backend.Acquire(t, readers(t, b))
		neighbour := backend.Acquire(t, rw.Reader())
		for who, l := range map[string]*holdfast.Lease{"own": own, "other process's": other, "neighbour's": neighbour} {
			if l.Fence() != writer.Fence() {
				t.Errorf("the %s reader has fence %d, and the writer had %d", who, l.Fence(), writer.Fence())
			}
			if err := l.Extend(t.Context(), time.Minute); err != nil {
				t.Errorf("Extend by the %s reader: %v", who, err)
			}
			backend.Release(t, l)
		}
		b.Cleaned(t)
	})
}

func TestUpgradeOfALoneReader(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		rw, bad := c.RWMutex("a"), c.RWMutex("a", holdfast.TTL(0))
		reader := backend.Acquire(t, rw.Reader())
		other := backend.Acquire(t, readers(t, b))
		if _, err := rw.TryUpgrade(t.Context(), reader); !errors.Is(err, holdfast.ErrHeld) {
			t.Fatalf("TryUpgrade beside another reader: %v; want ErrHeld", err)
		}
		if err := reader.Err(); err != nil {
			t.Fatalf("the reader after an upgrade that was refused: %v", err)
		}
		backend.Release(t, other)
		writer, err := rw.TryUpgrade(t.Context(), reader)
		if err != nil {
			t.Fatal(err)
		}
		if writer.Fence() <= reader.Fence() {
			t.Errorf("the writer's fence %d is not above the reader's, %d", writer.Fence(), reader.Fence())
		}
		if err := reader.Err(); !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("the reader's lease after its upgrade: %v; want ErrReleased", err)
		}
		wantHeld(t, readers(t, b))
		if _, err := bad.Downgrade(t.Context(), writer); !errors.Is(err, holdfast.ErrInvalid) || writer.Err() != nil {
			t.Errorf("Downgrade to a TTL of 0: %v, and the writer: %v; want ErrInvalid", err, writer.Err())
		}
		if err := writer.Extend(t.Context(), time.Second); err != nil {
			t.Errorf("Extend after an upgrade: %v", err)
		}
		backend.Release(t, writer)

		if _, err := rw.TryUpgrade(t.Context(), reader); !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("TryUpgrade of a lease that is over: %v; want ErrReleased", err)
		}
		mutex := backend.Acquire(t, b.Client(t, nil).Mutex("b"))
		for what, weigh := range map[string]func(context.Context, *holdfast.Lease) (*holdfast.Lease, error){
			"TryUpgrade": rw.TryUpgrade, "Downgrade": rw.Downgrade,
		} {
			if _, err := weigh(t.Context(), mutex); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%s of a mutex's lease: %v; want ErrInvalid", what, err)
			}
		}
		backend.Release(t, mutex)
		b.Cleaned(t)
	})
}

// Readers of one process that come together are one holder to the server. The lock is held until the last of
// them is done.
func TestReadersOfAProcessShareALease(t *testing.T) {
	t.Parallel()
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
		for i, l := range leases {
			wantHeld(t, writers(t, b))
			if err := l.Err(); err != nil {
				t.Errorf("reader %d: %v", i, err)
			}
			backend.Release(t, l)
			if err := l.Err(); !errors.Is(err, holdfast.ErrReleased) {
				t.Errorf("reader %d after its release: %v; want ErrReleased", i, err)
			}
			backend.Release(t, l)
		}
		b.Cleaned(t)
	})
}

// Close does not release a shared lease until all of its readers are done: some of them may still be working.
func TestCloseWaitsForAllReadersThatShareALease(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		r := c.RWMutex("a").Reader()
		one, two := backend.Acquire(t, r), backend.Acquire(t, r)
		three := backend.Acquire(t, r)
		if all, err := backend.HoldersOf(t.Context(), r); err != nil || len(all) != 1 {
			t.Logf("no shared lease: Holders: %+v, %v", all, err) // it took more than 100 ms
		}
		closed := make(chan error, 1)
		go func() { closed <- c.Close(t.Context()) }()
		<-three.Done()
		for i, l := range []*holdfast.Lease{two, one, three} {
			wantHeld(t, writers(t, b))
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("Release of reader %d: %v", i, err)
			}
		}
		select {
		case err := <-closed:
			if err != nil {
				t.Errorf("Close: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("Close does not return")
		}
		b.Cleaned(t)
	})
}

func TestKindsOfLocksAreNotMixedUp(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		kinds := map[string]*holdfast.Lock{
			"mutex": c.Mutex("a"), "readers": c.RWMutex("a").Reader(),
			"writers": c.RWMutex("a").Writer(), "semaphore": c.Semaphore("a", 5).Permits(1),
		}
		for have, l := range kinds {
			lease := backend.Acquire(t, l)
			for other, m := range kinds {
				if other == have || other+have == "readerswriters" || other+have == "writersreaders" {
					continue
				}
				if _, err := m.TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
					t.Errorf("%s where a %s is held: %v; want ErrWrongType", other, have, err)
				}
				if _, err := m.Acquire(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
					t.Errorf("%s where a %s is held: Acquire: %v; want ErrWrongType", other, have, err)
				}
			}
			if err := lease.Err(); err != nil {
				t.Errorf("%s: %v", have, err)
			}
			backend.Release(t, lease)
			b.Cleaned(t)
		}
		rdb := b.Redis(t)
		rdb.HSet(t.Context(), "holdfast:{a}", "some", "thing")
		if _, err := kinds["readers"].TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("readers where a stranger's hash is: %v; want ErrWrongType", err)
		}
		if got := rdb.HGetAll(t.Context(), "holdfast:{a}").Val(); len(got) != 1 {
			t.Errorf("the stranger's hash became %v", got)
		}
		rdb.Del(t.Context(), "holdfast:{a}")
	})
}

// In a storm of readers and writers of several processes there are never two writers, or a writer and a reader,
// and every reader sees what the last writer wrote.
func TestReadersAndWritersInAStorm(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		if err := storm(t, b); err != nil {
			t.Error(err)
		}
		b.Cleaned(t)
	})
}

// storm returns the violations, unless a lease was lost while it was in use.
func storm(t testing.TB, b *backend.Backend) error {
	var mu sync.Mutex // guards wrong
	var wrong []error
	complain := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		wrong = append(wrong, fmt.Errorf(format, args...))
	}
	var reading, writing, reads, writes atomic.Int64
	var last atomic.Uint64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 3 {
		rw := b.Client(t, nil).RWMutex("a")
		for j := range 6 {
			wg.Go(func() {
				dice := random(10*i + j)
				for ctx.Err() == nil {
					if dice.IntN(4) > 0 {
						lease, err := rw.Reader().Acquire(ctx)
						if err != nil {
							continue
						}
						reads.Add(1)
						reading.Add(1)
						if n := writing.Load(); n != 0 && lease.Err() == nil {
							complain("%d writers beside a reader", n)
						}
						if f := last.Load(); lease.Fence() < f && lease.Err() == nil {
							t.Errorf("a reader has fence %d, and the writer before it had %d", lease.Fence(), f)
						}
						time.Sleep(upTo(2*time.Millisecond, dice))
						reading.Add(-1)
						_ = lease.Release(ctx)
						continue
					}
					lease, err := rw.Writer().Acquire(ctx)
					if err != nil {
						continue
					}
					if writes.Add(1) == 100 {
						cancel()
					}
					if w, r := writing.Add(1), reading.Load(); (w != 1 || r != 0) && lease.Err() == nil {
						complain("%d writers and %d readers at once", w, r)
					}
					if f := last.Swap(lease.Fence()); f >= lease.Fence() && lease.Err() == nil {
						t.Errorf("a writer has fence %d, and the one before it had %d", lease.Fence(), f)
					}
					time.Sleep(upTo(2*time.Millisecond, dice))
					writing.Add(-1)
					_ = lease.Release(ctx)
				}
			})
		}
	}
	wg.Wait()
	if reads.Load() == 0 || writes.Load() < 100 {
		complain("%d reads and %d writes", reads.Load(), writes.Load())
	}
	t.Logf("%d reads, %d writes", reads.Load(), writes.Load())
	return errors.Join(wrong...)
}
