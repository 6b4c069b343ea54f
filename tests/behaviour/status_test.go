package behaviour

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// candidate is somebody who wants a lock.
type candidate struct {
	owner string
	// enter acquires the lock, and returns once it has it and ctx has ended.
	enter   func(ctx context.Context, c *holdfast.Client) error
	mode    holdfast.Mode
	permits int
}

// acquires returns the enter function of a lock.
func acquires(lock func(c *holdfast.Client) *holdfast.Lock) func(context.Context, *holdfast.Client) error {
	return func(ctx context.Context, c *holdfast.Client) error {
		return lock(c).Do(ctx, func(context.Context, *holdfast.Lease) error {
			<-ctx.Done()
			return nil
		})
	}
}

// Status names who holds a lock and who waits for it, in the order in which they came.
func TestStatusNamesWaitersInTheirOrder(t *testing.T) {
	names := []string{"zoe", "max", "ada", "pip"} // in no order of their own
	const hour, note = time.Hour, "note"
	type contest struct {
		kind       holdfast.Kind
		candidates []candidate // the first gets the lock
		limit      int
		// seen is the lock as another program sees it, which may have another idea of it.
		seen func(c *holdfast.Client) backend.Locked
	}
	exclusive := func(kind holdfast.Kind, seen func(*holdfast.Client) backend.Locked, enter ...func(context.Context, *holdfast.Client) error) contest {
		all := contest{kind: kind, seen: seen}
		for i, name := range names {
			all.candidates = append(all.candidates, candidate{owner: name, enter: enter[i%len(enter)], mode: holdfast.ModeExclusive})
		}
		return all
	}
	mutex := func(kind holdfast.Kind, of func(c *holdfast.Client) *holdfast.Lock) contest {
		return exclusive(kind, func(c *holdfast.Client) backend.Locked { return of(c) }, acquires(of))
	}
	permits := func(n, of int) func(c *holdfast.Client) *holdfast.Lock {
		return func(c *holdfast.Client) *holdfast.Lock { return c.Semaphore("s", of, holdfast.TTL(hour)).Permits(n) }
	}
	reader := acquires(func(c *holdfast.Client) *holdfast.Lock { return c.RWMutex("rw", holdfast.TTL(hour)).Reader() })
	writer := acquires(func(c *holdfast.Client) *holdfast.Lock { return c.RWMutex("rw", holdfast.TTL(hour)).Writer() })
	join := func(ctx context.Context, c *holdfast.Client) error {
		party, err := barrier.New(c, "b", 1, holdfast.TTL(hour)).Join(ctx)
		if err == nil {
			<-ctx.Done()
			err = party.Leave(context.Background())
		}
		return err
	}
	contests := map[string]contest{
		"mutex": mutex(holdfast.KindMutex, func(c *holdfast.Client) *holdfast.Lock {
			return c.Mutex("m", holdfast.TTL(hour), holdfast.Meta(note, "a:b\nc+"))
		}),
		"exact key": mutex(holdfast.KindMutex, func(c *holdfast.Client) *holdfast.Lock { return c.MutexKey("k", holdfast.TTL(hour)) }),
		"Redisson":  mutex(holdfast.KindRedisson, func(c *holdfast.Client) *holdfast.Lock { return c.RedissonMutex("r", holdfast.TTL(hour)) }),
		"once": exclusive(holdfast.KindMutex, func(c *holdfast.Client) backend.Locked { return once.New(c, "o", once.Every(hour)) },
			func(ctx context.Context, c *holdfast.Client) error {
				_, err := once.New(c, "o", once.Every(hour), holdfast.TTL(hour)).Do(ctx, func(context.Context, *holdfast.Lease) (string, error) {
					<-ctx.Done()
					return "", nil
				})
				return err
			}),
		// Whoever looks can tell an election from a mutex.
		"election": exclusive(holdfast.KindElection, func(c *holdfast.Client) backend.Locked { return c.Mutex("e") },
			func(ctx context.Context, c *holdfast.Client) error {
				return election.New(c.Mutex("e", holdfast.TTL(hour))).Run(ctx, func(context.Context, *holdfast.Lease) error {
					<-ctx.Done()
					return nil
				})
			}),
		"read-write lock": {
			kind: holdfast.KindRWMutex, seen: func(c *holdfast.Client) backend.Locked { return c.RWMutex("rw") },
			candidates: []candidate{
				{"zoe", reader, holdfast.ModeReader, 0}, {"max", writer, holdfast.ModeWriter, 0},
				{"ada", reader, holdfast.ModeReader, 0}, {"pip", writer, holdfast.ModeWriter, 0},
			},
		},
		"semaphore": {
			kind: holdfast.KindSemaphore, limit: 5, seen: func(c *holdfast.Client) backend.Locked { return c.Semaphore("s", 99) },
			candidates: []candidate{
				{"zoe", acquires(permits(3, 5)), holdfast.ModePermits, 3}, {"max", acquires(permits(5, 5)), holdfast.ModePermits, 5},
				{"ada", acquires(permits(1, 5)), holdfast.ModePermits, 1},
			},
		},
		"barrier": {
			kind: holdfast.KindBarrier, limit: 1, seen: func(c *holdfast.Client) backend.Locked { return barrier.New(c, "b", 99) },
			candidates: []candidate{{"zoe", join, holdfast.ModeParty, 0}, {"max", join, holdfast.ModeParty, 0}, {"ada", join, holdfast.ModeParty, 0}},
		},
	}
	owners := contest{kind: holdfast.KindOwner, seen: func(c *holdfast.Client) backend.Locked { return c.OwnerMutex("own", "nobody") }}
	for _, name := range names {
		owners.candidates = append(owners.candidates, candidate{owner: name, mode: holdfast.ModeExclusive, enter: acquires(func(c *holdfast.Client) *holdfast.Lock {
			return c.OwnerMutex("own", name, holdfast.TTL(hour))
		})})
	}
	contests["owner"] = owners

	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		for what, test := range contests {
			watch := test.seen(b.Client(t, nil))
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan error, len(test.candidates))
			for i, w := range test.candidates {
				c := b.Client(t, &holdfast.Config{Identity: w.owner})
				go func() {
					err := w.enter(ctx, c)
					for errors.Is(err, holdfast.ErrUnavailable) { // the server answers too late on a slow machine
						err = w.enter(ctx, c)
					}
					over <- err
				}()
				backend.Eventually(t, fmt.Sprintf("%s: %s waits or holds", what, w.owner), func() bool {
					s, err := watch.Status(ctx)
					return err == nil && s.Held() && s.Waiting == i
				})
			}
			s, err := watch.Status(ctx)
			if err != nil || s.Kind != test.kind || s.Limit != test.limit || s.Waiting != len(test.candidates)-1 || len(s.Waiters) != s.Waiting || len(s.Holders) != 1 {
				t.Fatalf("%s: the status is %+v, %v", what, s, err)
			}
			h, first := s.Holders[0], test.candidates[0]
			if h.PID != os.Getpid() || h.Host == "" || h.Foreign || what == "mutex" && h.Meta[note] != "a:b\nc+" {
				t.Errorf("%s: the holder is %+v", what, h)
			}
			if h.Identity != first.owner || h.Mode != first.mode || h.Permits != first.permits || h.Fence != s.Fence || h.Since.After(s.Time) || h.TTL <= 0 {
				t.Errorf("%s: the holder is %+v", what, h)
			}
			for i, w := range s.Waiters {
				want := test.candidates[i+1]
				if w.Identity != want.owner || w.Mode != want.mode || w.Permits != want.permits || w.PID != os.Getpid() || w.Host == "" {
					t.Errorf("%s: waiter %d is %+v, want %s", what, i, w, want.owner)
				}
				if w.Since.After(s.Time) || w.Since.Before(h.Since) || i > 0 && w.Since.Before(s.Waiters[i-1].Since) {
					t.Errorf("%s: %s waits since %s, and it is %s", what, w.Identity, w.Since, s.Time)
				}
				if what == "mutex" && w.Meta[note] != "a:b\nc+" {
					t.Errorf("%s: waiter %d is %+v", what, i, w)
				}
			}
			again, err := watch.Status(ctx) // asking has changed nothing
			for i := range again.Waiters {
				if i < len(s.Waiters) && again.Waiters[i].Identity != s.Waiters[i].Identity {
					t.Errorf("%s: waiter %d was %+v, and is %+v", what, i, s.Waiters[i], again.Waiters[i])
				}
			}
			isSame := again.Fence == s.Fence || s.Fence == 0 // which the first renewal makes known
			if err != nil || !isSame || again.Waiting != s.Waiting {
				t.Errorf("%s: the status was %+v, and is %+v, %v", what, s, again, err)
			}
			cancel()
			for range test.candidates {
				<-over
			}
		}
	})
}

func TestStatusTellsTheServersLimit(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		mine, other := c.Semaphore("s", 3), c.Semaphore("s", 8)
		limits := func(want int, of *holdfast.Semaphore) {
			t.Helper()
			if s, err := of.Status(t.Context()); err != nil || s.Limit != want {
				t.Errorf("the status is %+v, %v; want the limit %d", s, err, want)
			}
		}
		limits(3, mine)
		limits(8, other)
		lease := backend.Acquire(t, mine.Permits(1))
		limits(3, other)
		expect.OK(t, mine.Resize(t.Context(), 5))
		limits(5, mine)
		limits(5, other)
		backend.Release(t, lease)
		limits(5, other)

		theLatch, bigger := latch.New(c, "l", 2), latch.New(c, "l", 9)
		counts := func(limit, count int, of *latch.Latch) {
			t.Helper()
			if s, err := of.Status(t.Context()); err != nil || s.Limit != limit || s.Count != count {
				t.Errorf("the status is %+v, %v; want %d of %d", s, err, count, limit)
			}
		}
		counts(9, 9, bigger) // and this has begun no count
		counts(2, 2, theLatch)
		for left := 1; left >= 0; left-- {
			expect.OK(t, theLatch.CountDown(t.Context()))
			counts(2, left, bigger)
		}
	})
}

// A handle returns its lock's status, which changes nothing.
func TestStatusOfEachKind(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, &holdfast.Config{Identity: "me"})
		theLatch := latch.New(c, "l", 7)
		type locked interface {
			backend.Locked
			Name() string
		}
		for l, want := range map[locked]holdfast.Status{
			c.Mutex("m"):                            {Name: "m", Key: "holdfast:{m}", Kind: holdfast.KindMutex},
			c.RWMutex("rw"):                         {Name: "rw", Key: "holdfast:{rw}", Kind: holdfast.KindRWMutex},
			c.Semaphore("s", 5):                     {Name: "s", Key: "holdfast:{s}", Kind: holdfast.KindSemaphore, Limit: 5},
			theLatch:                                {Name: "l", Key: "holdfast:{l}", Kind: holdfast.KindLatch, Limit: 7, Count: 7},
			barrier.New(c, "b", 3):                  {Name: "b", Key: "holdfast:{b}", Kind: holdfast.KindBarrier, Limit: 3},
			once.New(c, "o", once.Every(time.Hour)): {Name: "o", Key: "holdfast:{o}", Kind: holdfast.KindMutex},
			election.New(c.Mutex("e")):              {Name: "e", Key: "holdfast:{e}", Kind: holdfast.KindElection},
			c.OwnerMutex("own", "somebody"):         {Name: "own", Key: "holdfast:{own}", Kind: holdfast.KindOwner},
			c.RedissonMutex("r"):                    {Name: "r", Key: "r", Kind: holdfast.KindRedisson},
			c.MutexKey("k"):                         {Name: "k", Key: "k", Kind: holdfast.KindMutex},
		} {
			got, err := l.Status(t.Context())
			if err != nil || l.Name() != want.Name || time.Since(got.Time).Abs() > time.Minute {
				t.Errorf("%s: %+v, %v", want.Name, got, err)
			}
			got.Time = time.Time{}
			expect.Equal(t, "Status", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
		}
		party := expect.Of(theLatch.Register(t.Context())).OK(t)
		got, err := theLatch.Status(t.Context())
		if h, held := got.Holder(); err != nil || !held || h.Name != "l" || h.Identity != "me" || h.Mode != holdfast.ModeParty || h.TTL <= 0 ||
			got.Limit != 7 || got.Count != 7 {
			t.Errorf("Status of a latch is %+v, %v", got, err)
		}
		expect.OK(t, party.Leave(t.Context()))
		if got, err := theLatch.Status(t.Context()); err != nil || got.Count != 6 || got.Held() {
			t.Errorf("Status of a latch whose party has left is %+v, %v", got, err)
		}
		several := c.Multi([]string{"m", "n"})
		lease := backend.Acquire(t, several)
		got, err = several.Status(t.Context())
		if err != nil || len(got.Holders) != 2 || got.Name != "m, n" || got.Key != "" || got.Holders[0].Fence != lease.Fences()[got.Holders[0].Name] {
			t.Errorf("Status of several is %+v, %v", got, err)
		}
		backend.Release(t, lease)
	})
}

// census is a driver that counts the holders that its server lists.
type census struct {
	drivertest.Driver
	told atomic.Int64
}

func (d *census) Run(ctx context.Context, call driver.Call) (string, error) {
	reply, err := d.Driver.Run(ctx, call)
	if call.Script.Name == "status" {
		d.told.Add(int64(strings.Count(reply, "\n")))
	}
	return reply, err
}

// To find one holder, the client asks the server for a few, however many there are.
func TestOneOfManyHoldersIsFoundAmongAFew(t *testing.T) {
	soak.Nightly(t) // the caller does not wait for a server that takes longer than a second
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		const n, few = 300, 100 // about ten are asked for at first
		d := &census{Driver: b.Hearing(t, "no channel")}
		c := backend.New(t, &holdfast.Config{MaxLocalHandovers: -1}, d) // readers of one process are several holders
		soon := holdfast.Wait(time.Millisecond)
		for kind, locks := range map[string][2]*holdfast.Lock{ // one that is held, and one that is wanted
			// With these TTLs nobody has to renew them.
			"semaphore":       {c.Semaphore("s", n, holdfast.TTL(time.Hour)).Permits(1), c.Semaphore("s", n).Permits(1, soon)},
			"read-write lock": {c.RWMutex("rw", holdfast.TTL(time.Hour)).Reader(), c.RWMutex("rw").Writer(soon)},
		} {
			l := locks[0]
			for range n {
				lease := expect.Of(l.TryAcquire(t.Context())).OK(t)
				t.Cleanup(func() { backend.Release(t, lease) })
			}
			machine.Undisturbed(t, func() error {
				d.told.Store(0)
				_, err := locks[1].Acquire(t.Context())
				var held *holdfast.HeldError
				if told := d.told.Swap(0); !errors.As(err, &held) || held.Holder.Identity == "" || told < 1 || told > few {
					return fmt.Errorf("%s: the caller whose time is up has %w; the server told of %d of %d holders, want 1 to %d", kind, err, told, n, few)
				}
				return nil
			})
			if holders, err := backend.HoldersOf(t.Context(), l); err != nil || len(holders) != n {
				t.Errorf("%s: Holders returned %d, %v, want %d", kind, len(holders), err, n)
			}
			d.told.Store(0)
		}
	})
}
