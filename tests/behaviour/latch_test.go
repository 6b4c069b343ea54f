package behaviour

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// countdown returns the test's latch, with a client of its own.
func countdown(t testing.TB, b *backend.Backend, parties int, opts ...holdfast.LatchOption) *holdfast.Latch {
	return b.Client(t, nil).Latch("l", parties, append([]holdfast.LatchOption{holdfast.TTL(time.Minute)}, opts...)...)
}

// waitFor waits for a latch in a goroutine.
func waitFor(ctx context.Context, l *holdfast.Latch) <-chan error {
	over := make(chan error, 1)
	go func() { over <- l.Wait(ctx) }()
	return over
}

// within waits for a waiter's outcome. Its limit allows for a machine that stalls, and is shorter than the time
// after which a waiter that hears nothing looks.
func within(t testing.TB, over <-chan error) error {
	t.Helper()
	select {
	case err := <-over:
		return err
	case <-time.After(15 * time.Second):
		t.Fatal("the waiter was not woken")
		return nil
	}
}

// watched waits until that many processes are subscribed to changes.
func watched(t testing.TB, b *backend.Backend, name string, n int64) {
	t.Helper()
	channel, rdb := "holdfast:c:w:holdfast:{"+name+"}", b.Redis(t)
	backend.Eventually(t, "the waiters are subscribed", func() bool {
		subscribers, err := rdb.PubSubNumSub(t.Context(), channel).Result()
		return err == nil && subscribers[channel] == n
	})
}

// begun waits until somebody has looked at a latch that nobody has used before: then that waiter knows which
// count it waits for.
func begun(t testing.TB, b *backend.Backend, name string) {
	t.Helper()
	rdb := b.Redis(t)
	backend.Eventually(t, "a waiter has looked", func() bool {
		n, err := rdb.Exists(t.Context(), "holdfast:{"+name+"}").Result()
		return err == nil && n == 1
	})
}

func count(t testing.TB, l *holdfast.Latch, want int) {
	t.Helper()
	if n, err := l.Count(t.Context()); err != nil || n != want {
		t.Errorf("the count is %d, want %d; %v", n, want, err)
	}
}

func TestLatchOpens(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := countdown(t, b, 3)
		count(t, l, 3)
		one, two := waitFor(t.Context(), countdown(t, b, 3)), waitFor(t.Context(), countdown(t, b, 3))
		watched(t, b, "l", 2)
		for left := 2; left >= 0; left-- {
			select {
			case err := <-one:
				t.Fatalf("it opens with %d parties left: %v", left+1, err)
			case err := <-two:
				t.Fatalf("it opens with %d parties left: %v", left+1, err)
			case <-time.After(20 * time.Millisecond):
			}
			if err := countdown(t, b, 3).CountDown(t.Context()); err != nil {
				t.Fatal(err)
			}
			count(t, l, left)
		}
		for _, over := range []<-chan error{one, two, waitFor(t.Context(), l)} { // including one that comes late
			if err := within(t, over); err != nil {
				t.Errorf("Wait: %v", err)
			}
		}
		if err := l.CountDown(t.Context()); err != nil {
			t.Errorf("CountDown at 0: %v", err)
		}
		count(t, l, 0)
	})
}

// No waiter passes before all have counted down, and none sleeps on after that.
func TestLatchOfMany(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		const parties, waiters = 20, 6
		var clients []*holdfast.Client
		for range 4 {
			clients = append(clients, b.Client(t, nil))
		}
		for range 5 {
			var counted atomic.Int32
			var wg sync.WaitGroup
			for n := range waiters {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					if err := clients[n%4].Latch("l", parties).Wait(ctx); err != nil {
						t.Errorf("Wait: %v", err)
						return
					}
					if n := counted.Load(); n != parties {
						t.Errorf("a waiter passes after %d of %d", n, parties)
					}
				})
			}
			for n := range parties {
				wg.Go(func() {
					l := clients[n%4].Latch("l", parties)
					if n%2 == 0 {
						counted.Add(1)
						if err := l.CountDown(t.Context()); err != nil {
							t.Errorf("CountDown: %v", err)
						}
						return
					}
					party, err := l.Register(t.Context())
					if err != nil {
						t.Errorf("Join: %v", err)
						return
					}
					counted.Add(1)
					if err := party.CountDown(t.Context()); err != nil {
						t.Errorf("CountDown of a party: %v", err)
					}
				})
			}
			wg.Wait()
			if err := clients[0].Latch("l", parties).Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestLatchOfParties(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := countdown(t, b, 2)
		over := waitFor(t.Context(), l)
		one, err := countdown(t, b, 2, holdfast.Owner("one")).Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		two, err := countdown(t, b, 2, holdfast.Owner("two")).Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if two.Lease().Fence() <= one.Lease().Fence() {
			t.Errorf("fence %d follows %d", two.Lease().Fence(), one.Lease().Fence())
		}
		if _, err := l.Register(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("Join of a third of two: %v", err)
		}
		if err := l.CountDown(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("CountDown in the place of a party: %v", err)
		}
		count(t, l, 2)
		if all, err := backend.HoldersOf(t.Context(), l); err != nil || len(all) != 2 {
			t.Errorf("Parties: %+v, %v", all, err)
		}
		if err := one.CountDown(t.Context()); err != nil {
			t.Error(err)
		}
		for what, err := range map[string]error{"CountDown": one.CountDown(t.Context()), "Release": one.Leave(t.Context())} {
			if err != nil {
				t.Errorf("%s of a party that has counted down: %v", what, err)
			}
		}
		if err := one.Lease().Err(); !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("the lease of a party that has counted down: %v", err)
		}
		count(t, l, 1)
		if all, err := backend.HoldersOf(t.Context(), l); err != nil || len(all) != 1 || all[0].Owner != "two" {
			t.Errorf("Parties: %+v, %v", all, err)
		}
		if err := two.CountDown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := within(t, over); err != nil {
			t.Errorf("Wait: %v", err)
		}
		if _, err := l.Register(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("Join when it is open: %v", err)
		}
	})
}

// A party that leaves, or dies, is no longer waited for, and waiters are told.
func TestLatchOfPartiesThatEnd(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := countdown(t, b, 3)
		over := waitFor(t.Context(), l)
		leaving, err := l.Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		dying, err := countdown(t, b, 3, holdfast.TTL(6*time.Second), holdfast.NoRenew()).Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		backend.Release(t, leaving.Lease())
		if err := leaving.CountDown(t.Context()); !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("CountDown of a party that has left: %v", err)
		}
		if err := l.CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		err = within(t, over)
		var incomplete *holdfast.LatchIncompleteError
		if !errors.Is(err, holdfast.ErrLatchIncomplete) || !errors.As(err, &incomplete) || incomplete.Missing != 2 || incomplete.Parties != 3 {
			t.Errorf("Wait: %v", err)
		}
		if dying.Lease().Err() == nil {
			t.Error("the latch opens while a party holds its lease")
		}
		if err := dying.CountDown(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("CountDown of a party that has died: %v", err)
		}
		if err := l.Wait(t.Context()); !errors.Is(err, holdfast.ErrLatchIncomplete) {
			t.Errorf("a late Wait: %v", err)
		}
		count(t, l, 0)
	})
}

// A party whose latch was reset is told so however often it counts down, even if it is the first to ask the
// server.
func TestCountDownOfAPartyAfterAReset(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := countdown(t, b, 2, holdfast.TTL(time.Hour))
		party, err := l.Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := party.CountDown(t.Context()); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("CountDown: %v", err)
			}
		}
		if err := party.Leave(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
		count(t, l, 2)
	})
}

// A deleted latch leaves nothing behind for long, and its name is free for a latch with any count.
func TestLatchDelete(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := countdown(t, b, 2, holdfast.TTL(time.Hour))
		over := waitFor(t.Context(), l)
		watched(t, b, "l", 1)
		begun(t, b, "l")
		party, err := l.Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := l.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := within(t, over); !errors.Is(err, holdfast.ErrLatchReset) {
			t.Errorf("the waiter is told %v", err)
		}
		if err := party.CountDown(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("CountDown of a party: %v", err)
		}
		for _, key := range b.Redis(t).Keys(t.Context(), "*").Val() {
			if left := b.Redis(t).PTTL(t.Context(), key).Val(); left > time.Minute && strings.Contains(key, "{l}") {
				t.Errorf("%s stays for %v", key, left)
			}
		}
		three := countdown(t, b, 3)
		count(t, three, 3)
		for range 3 {
			if err := three.CountDown(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := three.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestLatchReset(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := countdown(t, b, 2)
		over := waitFor(t.Context(), l)
		watched(t, b, "l", 1)
		begun(t, b, "l")
		if err := l.CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		party, err := countdown(t, b, 2, holdfast.TTL(6*time.Second)).Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		three := countdown(t, b, 3)
		for what, err := range map[string]error{"Wait": three.Wait(t.Context()), "CountDown": three.CountDown(t.Context())} {
			if !errors.Is(err, holdfast.ErrMismatch) {
				t.Errorf("%s with another number of parties: %v", what, err)
			}
		}
		if _, err := three.Register(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("Join with another number of parties: %v", err)
		}
		if err := three.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := within(t, over); !errors.Is(err, holdfast.ErrLatchReset) {
			t.Errorf("Wait for a count that was begun anew: %v", err)
		}
		<-party.Lease().Done()
		if err := party.CountDown(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("CountDown of an earlier party: %v", err)
		}
		count(t, three, 3)
		for range 3 {
			if err := three.CountDown(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := three.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if err := three.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		count(t, three, 3)
	})
}

// If the server loses a latch, its waiters are told; they do not wait for a full count again.
func TestLatchThatIsLost(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := countdown(t, b, 2)
		over := waitFor(t.Context(), l)
		watched(t, b, "l", 1)
		begun(t, b, "l")
		count(t, l, 2)
		time.Sleep(time.Millisecond) // the time of its beginning, in µs, tells a count from the next
		b.Redis(t).Del(t.Context(), "holdfast:{l}")
		if err := l.Reset(t.Context()); err != nil { // anything that makes waiters look would do
			t.Fatal(err)
		}
		if err := within(t, over); !errors.Is(err, holdfast.ErrLatchReset) {
			t.Errorf("Wait: %v", err)
		}
	})
}

// A waiter leaves no trace; a latch lasts for a day after its last use.
func TestLatchWaitersThatGiveUp(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		one, two := waitFor(ctx, c.Latch("l", 2)), waitFor(t.Context(), c.Latch("l", 2))
		watched(t, b, "l", 1)
		begun(t, b, "l")
		cancel()
		if err := within(t, one); err != context.Canceled {
			t.Errorf("Wait: %v", err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := within(t, two); !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("Wait of a client that closes: %v", err)
		}
		watched(t, b, "l", 0)
		if keys := b.Keys(t); len(keys) != 1 || keys[0] != "holdfast:{l}" {
			t.Errorf("keys: %q", keys)
		}
		if ttl := b.Redis(t).PTTL(t.Context(), "holdfast:{l}").Val(); ttl <= 23*time.Hour || ttl > 24*time.Hour {
			t.Errorf("it is kept for %s", ttl)
		}
	})
}

// A name has one kind of lock.
func TestLatchesAndBarriersAreNoOtherLocks(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		if err := c.Latch("l", 2).CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Barrier("b", 2).Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		backend.Acquire(t, c.Mutex("m"))
		for what, l := range map[string]*holdfast.Lock{
			"a mutex on a latch": c.Mutex("l"), "a semaphore on a latch": c.Semaphore("l", 2).Permits(1), "a reader on a latch": c.RWMutex("l").Reader(),
			"a mutex on a barrier": c.Mutex("b"), "a semaphore on a barrier": c.Semaphore("b", 2).Permits(1), "a writer on a barrier": c.RWMutex("b").Writer(),
		} {
			if _, err := l.TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, name := range []string{"b", "m"} {
			l := c.Latch(name, 2)
			_, joined := l.Register(t.Context())
			for what, err := range map[string]error{"Wait": l.Wait(t.Context()), "CountDown": l.CountDown(t.Context()), "Reset": l.Reset(t.Context()), "Join": joined} {
				if !errors.Is(err, holdfast.ErrMismatch) {
					t.Errorf("%s of a latch on %s: %v", what, name, err)
				}
			}
		}
		for _, name := range []string{"l", "m"} {
			if _, err := c.Barrier(name, 2).Join(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
				t.Errorf("a barrier on %s: %v", name, err)
			}
		}
	})
}

func TestLatchesAndBarriersRefuse(t *testing.T) {
	t.Parallel()
	c := unreachable(t)
	options := map[string]holdfast.Option{"TTL": holdfast.TTL(0), "MaxHold": holdfast.MaxHold(-1), "Owner": holdfast.Owner("")}
	latches := map[string]*holdfast.Latch{"no name": c.Latch("", 1), "no parties": c.Latch("l", 0), "too many": c.Latch("l", 1_000_001)}
	barriers := map[string]*holdfast.Barrier{"no name": c.Barrier("", 1), "no parties": c.Barrier("b", -1), "too many": c.Barrier("b", 10_001)}
	for what, o := range options {
		latches[what], barriers[what] = c.Latch("l", 3, o), c.Barrier("b", 3, o)
	}
	for what, l := range latches {
		_, joined := l.Register(t.Context())
		_, counted := l.Count(t.Context())
		_, asked := backend.HoldersOf(t.Context(), l)
		for _, err := range []error{joined, counted, asked, l.Wait(t.Context()), l.CountDown(t.Context()), l.Reset(t.Context())} {
			if !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("a latch with %s: %v", what, err)
			}
		}
	}
	for what, b := range barriers {
		_, joined := b.Join(t.Context())
		_, tried := b.TryJoin(t.Context())
		_, asked := backend.HoldersOf(t.Context(), b)
		for _, err := range []error{joined, tried, asked} {
			if !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("a barrier with %s: %v", what, err)
			}
		}
	}
}
