package behaviour

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// breakable are the locks that can be broken, by what they are called.
var breakable = map[string]func(c *holdfast.Client, o holdfast.Option) *holdfast.Lock{
	"mutex":    func(c *holdfast.Client, o holdfast.Option) *holdfast.Lock { return c.Mutex("a", o) },
	"key":      func(c *holdfast.Client, o holdfast.Option) *holdfast.Lock { return c.MutexKey("{a}:key", o) },
	"redisson": func(c *holdfast.Client, o holdfast.Option) *holdfast.Lock { return c.RedissonMutex("java", o) },
	"owner": func(c *holdfast.Client, o holdfast.Option) *holdfast.Lock {
		return c.OwnerMutex("own", fmt.Sprintf("%p", c), o)
	},
	"reader":    func(c *holdfast.Client, o holdfast.Option) *holdfast.Lock { return c.RWMutex("rw", o).Reader() },
	"writer":    func(c *holdfast.Client, o holdfast.Option) *holdfast.Lock { return c.RWMutex("rw", o).Writer() },
	"semaphore": func(c *holdfast.Client, o holdfast.Option) *holdfast.Lock { return c.Semaphore("sem", 2, o).Permits(2) },
}

// next is the lock that a waiter wants while a lock is held.
func next(kind string, c *holdfast.Client, o holdfast.Option) *holdfast.Lock {
	if kind == "reader" {
		kind = "writer"
	}
	return breakable[kind](c, o)
}

func recorded(t testing.TB, in *inspect.Inspector, name string) (all []inspect.Broken) {
	t.Helper()
	for b, err := range in.History(t.Context()) {
		expect.OK(t, err)
		if b.Name == name {
			all = append(all, b)
		}
	}
	return all
}

// The holder that an operator has seen loses the lock, the first waiter gets it, and the holder is told at once.
func TestBreak(t *testing.T) {
	t.Parallel()
	for kind, lock := range breakable {
		eachOf(t, kind, func(t *testing.T, b *backend.Backend) {
			ttl := holdfast.TTL(time.Hour)
			c, other := b.Client(t, &holdfast.Config{Identity: "hung"}), b.Client(t, &holdfast.Config{Identity: "next"})
			in := inspect.New(b.Client(t, &holdfast.Config{Identity: "operator"}))
			l := lock(c, ttl)
			lease := backend.Acquire(t, l)
			got := make(chan *holdfast.Lease, 1)
			go func() {
				lease, err := next(kind, other, ttl).Acquire(t.Context())
				expect.Err(t, "the waiter", err, nil)
				got <- lease
			}()
			backend.Eventually(t, "somebody waits", func() bool {
				s, err := l.Status(t.Context())
				return err == nil && s.Waiting == 1
			})
			was := backend.Seen(t, in, l.Name(), lease.Fence())
			another := was
			another.Grant = "k3v9x2ab"
			expect.ErrSays(t, "Break of another grant", expect.ErrOf(in.Break(t.Context(), another, "test")), inspect.ErrChanged, was.Grant+", not k3v9x2ab")
			time.Sleep(1100 * time.Millisecond) // until the holder listens
			broken := expect.Of(in.Break(t.Context(), was, "it hung")).OK(t)
			if broken.Name != l.Name() || broken.By != "operator" || broken.Reason != "it hung" || broken.Fence <= lease.Fence() {
				t.Errorf("Broken is %+v", broken)
			}
			if h := broken.Holder; h.Identity != was.Identity || h.Grant != was.Grant || !backend.IsShown(was.Fence, h.Fence) || h.Mode != was.Mode || h.Permits != was.Permits || !h.Since.Equal(was.Since) || h.PID != was.PID {
				t.Errorf("Broken.Holder is %+v, want %+v", h, was)
			}
			backend.Told(t, "the holder is told of the loss", lease.Done())
			wantLoss(t, "the holder", lease.Err(), holdfast.LossBroken, "operator")
			var lost *holdfast.LostError
			if errors.As(lease.Err(), &lost) && lost.Note != "it hung" {
				t.Errorf("the holder was told why: %q", lost.Note)
			}
			second := <-got
			if second == nil {
				t.FailNow()
			}
			expect.Rises(t, broken.Fence, second.Fence())
			expect.Err(t, "Release of what was broken", lease.Release(t.Context()), holdfast.ErrLost)
			expect.Err(t, "a second Break", expect.ErrOf(in.Break(t.Context(), was, "again")), inspect.ErrChanged)
			expect.Err(t, "the next holder", second.Err(), nil)
			backend.Release(t, second)
			expect.Err(t, "Break of a free lock", expect.ErrOf(in.Break(t.Context(), was, "again")), holdfast.ErrNotHeld)
			if all := recorded(t, in, l.Name()); len(all) != 1 || all[0].Fence != broken.Fence || all[0].Holder.Identity != was.Identity || all[0].Holder.Grant != was.Grant || !all[0].Time.Equal(broken.Time) {
				t.Errorf("on record are %+v, want %+v", all, broken)
			}
		})
	}
}

// Of readers and of an owner's leases, which share a fence, and of permits, only the one that is meant is broken.
func TestBreakOfOneOfThoseThatShareAFence(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		in := inspect.New(b.Client(t, &holdfast.Config{Identity: "operator"}))
		for _, lock := range []func(c *holdfast.Client, o ...holdfast.Option) *holdfast.Lock{
			func(c *holdfast.Client, o ...holdfast.Option) *holdfast.Lock {
				return c.RWMutex("rw", o[0], o[1]).Reader()
			},
			func(c *holdfast.Client, o ...holdfast.Option) *holdfast.Lock {
				return c.OwnerMutex("own", "we", o[0], o[1])
			},
			func(c *holdfast.Client, o ...holdfast.Option) *holdfast.Lock {
				return c.Semaphore("sem", 3, o[0], o[1]).Permits(1)
			},
		} {
			var leases []*holdfast.Lease
			for i := range 3 {
				leases = append(leases, backend.Acquire(t, lock(b.Client(t, nil), holdfast.Meta("number", fmt.Sprint(i)), holdfast.TTL(time.Hour))))
			}
			s, err := in.Get(t.Context(), leases[0].Name())
			meant := slices.IndexFunc(s.Holders, func(h holdfast.Holder) bool { return h.Meta["number"] == "1" })
			if err != nil || len(s.Holders) != 3 || meant < 0 || (leases[1].Fence() == leases[0].Fence()) != (s.Kind != holdfast.KindSemaphore) {
				t.Fatalf("Get: %+v, %v", s, err)
			}
			time.Sleep(1100 * time.Millisecond)
			expect.OK(t, expect.ErrOf(in.Break(t.Context(), s.Holders[meant], "")))
			backend.Told(t, "the holder is told of the loss", leases[1].Done())
			wantLoss(t, "the holder", leases[1].Err(), holdfast.LossBroken, "operator")
			later := backend.Acquire(t, lock(b.Client(t, nil), holdfast.Meta("number", "later"), holdfast.TTL(time.Hour)))
			for _, l := range []*holdfast.Lease{leases[0], leases[2], later} {
				if err := l.Err(); err != nil || l.Fence() != leases[0].Fence() && s.Kind != holdfast.KindSemaphore {
					t.Errorf("another, with fence %d: %v", l.Fence(), err)
				}
				backend.Release(t, l)
			}
		}
	})
}

// A party that is broken has died: its latch opens without it, and its barrier's phase breaks.
func TestBreakOfAParty(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c, in := b.Client(t, nil), inspect.New(b.Client(t, nil))
		theLatch := latch.New(c, "latch", 1, holdfast.TTL(time.Hour))
		party := expect.Of(theLatch.Register(t.Context())).OK(t)
		expect.OK(t, expect.ErrOf(in.Break(t.Context(), backend.Seen(t, in, "latch", party.Lease().Fence()), "")))
		ctx := lasting(t, time.Minute) // otherwise it would wait for the lease's end
		expect.Err(t, "Wait", theLatch.Wait(ctx), latch.ErrIncomplete)
		theBarrier := barrier.New(c, "barrier", 2, holdfast.TTL(time.Hour))
		one := expect.Of(theBarrier.Join(t.Context())).OK(t)
		two := expect.Of(barrier.New(b.Client(t, nil), "barrier", 2, holdfast.TTL(time.Hour)).Join(t.Context())).OK(t)
		expect.OK(t, expect.ErrOf(in.Break(t.Context(), backend.Seen(t, in, "barrier", one.Lease().Fence()), "")))
		expect.Err(t, "Await", expect.ErrOf(two.Await(ctx)), barrier.ErrBroken)
		noError(t, two.Leave(t.Context()))
	})
}

// A holder that is asked to let go learns of it, once, and goes on until it releases the lock.
func TestRevoke(t *testing.T) {
	t.Parallel()
	for kind, lock := range breakable {
		eachOf(t, kind, func(t *testing.T, b *backend.Backend) {
			var mu sync.Mutex
			var told []holdfast.LeaseEvent
			c := b.Client(t, &holdfast.Config{Observers: []*holdfast.Observer{{Revoked: func(_ context.Context, e holdfast.LeaseEvent) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, e)
			}}}})
			in := inspect.New(b.Client(t, &holdfast.Config{Identity: "operator"}))
			l := lock(c, holdfast.TTL(time.Hour))
			lease := backend.Acquire(t, l)
			early := lease.Revoked()
			seen := backend.Seen(t, in, l.Name(), lease.Fence())
			for grant, want := range map[string]error{
				"k3v9x2ab": inspect.ErrChanged, "": holdfast.ErrInvalid, seen.Grant[:7]: holdfast.ErrInvalid, seen.Grant + "A": holdfast.ErrInvalid, "1234 678": holdfast.ErrInvalid,
			} {
				another := seen
				another.Grant = grant
				expect.Err(t, "Revoke of the grant "+grant, in.Revoke(t.Context(), another, ""), want)
			}
			for range 2 {
				// The first time before the client listens.
				expect.OK(t, in.Revoke(t.Context(), seen, "your turn is over"))
				backend.Told(t, "the holder is asked", early)
				backend.Told(t, "the holder is asked", lease.Revoked())
			}
			expect.Err(t, "after Revoke", lease.Err(), nil)
			backend.Release(t, lease)
			onRecord := recorded(t, in, l.Name())
			expect.Equal(t, "revocations on record", len(onRecord), 2)
			for _, r := range onRecord {
				if !r.Revoked || r.Holder.Name != l.Name() || r.Holder.Grant != seen.Grant || !backend.IsShown(r.Holder.Fence, lease.Fence()) || r.By != "operator" || r.Reason != "your turn is over" || r.Fence != 0 {
					t.Errorf("on record: %+v", r)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if len(told) != 1 || told[0].By != "operator" || told[0].Note != "your turn is over" || told[0].Fence != lease.Fence() {
				t.Errorf("the observer was told %+v", told)
			}
			expect.Err(t, "Revoke of a free lock", in.Revoke(t.Context(), seen, ""), holdfast.ErrNotHeld)
		})
	}
}

// A message that anybody may have sent ends no lease.
func TestANoticeAloneEndsNoLease(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		rdb := b.Redis(t)
		c := b.Client(t, nil)
		lease := backend.Acquire(t, c.Mutex("m", holdfast.TTL(time.Hour)))
		backend.Eventually(t, "the holder listens", func() bool {
			n, err := rdb.PubSubNumSub(t.Context(), "holdfast:c:h").Result()
			return err == nil && n["holdfast:c:h"] == 1
		})
		in := inspect.New(c)
		seen := backend.Seen(t, in, "m", lease.Fence())
		for _, what := range []string{"broken", "revoked"} {
			for _, text := range []string{"", "\n", "\n{\"b\":\"stranger\"}", "\n\x00{"} {
				rdb.Publish(t.Context(), "holdfast:c:h", fmt.Sprintf("hf2 %s %d %s %d holdfast:{m}%s", what, time.Now().UnixMicro(), seen.Grant, lease.Fence(), text))
			}
		}
		// What the client reads after that tells it of a true one.
		expect.OK(t, in.Revoke(t.Context(), seen, ""))
		backend.Told(t, "the holder is asked", lease.Revoked())
		expect.Err(t, "after notices that are not true", lease.Err(), nil)
		backend.Release(t, lease)
	})
}

// Whoever is told of a holder is told the same grant id: the beginning of the token in the lock's value. The next grant has another.
func TestGrantID(t *testing.T) {
	t.Parallel()
	for kind, lock := range breakable {
		eachOf(t, kind, func(t *testing.T, b *backend.Backend) {
			queued := make(chan holdfast.Holder, 2)
			observer := &holdfast.Observer{AcquireQueued: func(_ context.Context, e holdfast.AcquireEvent) { queued <- e.Holder }}
			ttl := holdfast.TTL(time.Hour)
			own := make(chan string, 2)
			holders := &holdfast.Observer{
				AcquireQueued: observer.AcquireQueued,
				AcquireEnd: func(_ context.Context, e holdfast.AcquireEvent) {
					if e.Err == nil {
						own <- e.Grant
					}
				},
				Released: func(_ context.Context, e holdfast.LeaseEvent) { own <- e.Grant },
			}
			c, other := b.Client(t, &holdfast.Config{Observers: []*holdfast.Observer{holders}}), b.Client(t, &holdfast.Config{Observers: []*holdfast.Observer{observer}})
			lease := backend.Acquire(t, lock(c, ttl))
			seen := backend.Seen(t, inspect.New(other), lease.Name(), lease.Fence())
			expect.Equal(t, "the length of the grant id", len(seen.Grant), 8)
			same := func(who string, h holdfast.Holder) {
				t.Helper()
				expect.Equal(t, "the grant that "+who+" is told of", h.Grant, seen.Grant)
			}
			s, err := lock(other, ttl).Status(t.Context())
			expect.OK(t, err)
			h, _ := s.Holder()
			same("who asks for the status", h)
			_, err = next(kind, other, ttl).TryAcquire(t.Context())
			var held *holdfast.HeldError
			if !errors.As(err, &held) {
				t.Fatalf("TryAcquire: %v", err)
			}
			same("who tries", held.Holder)
			leases := backend.Start(t, next(kind, other, ttl))
			same("a waiter's observer", <-queued)
			if kind == "mutex" {
				expect.Begins(t, "the value", b.Redis(t).Get(t.Context(), "holdfast:{a}").Val(), "hf2:"+seen.Grant)
				ctx, cancel := context.WithCancel(t.Context())
				ended := async(func() error { return expect.ErrOf(lock(c, ttl).Acquire(ctx)) })
				same("an observer in the holder's process", <-queued)
				cancel()
				expect.Err(t, "an acquire that was given up", <-ended, context.Canceled)
			}
			backend.Release(t, lease)
			for _, when := range []string{"acquired", "released"} {
				expect.Equal(t, "the grant that the holder's observer is told was "+when, <-own, seen.Grant)
			}
			got := backend.Receive(t, leases)
			if after := backend.Seen(t, inspect.New(other), got.Name(), got.Fence()); len(after.Grant) != 8 || after.Grant == seen.Grant {
				t.Errorf("the grant id %q follows %q", after.Grant, seen.Grant)
			}
			backend.Release(t, got)
		})
	}
}

// A grant whose fence is not known at first is the same when it is: nothing has happened to the lock.
func TestAFenceThatBecomesKnownIsNoChange(t *testing.T) {
	backend.Virtual(t, func(t *testing.T, b *backend.Backend) {
		rdb := b.Redis(t)
		hold := func(fence string) {
			rdb.Set(t.Context(), "holdfast:{young}", "hf2:k3v9x2abQEFBgcICQoLDA0:"+fence+`:1700000000000:0:{"o":"ann"}`, time.Hour)
		}
		hold("0")
		in := inspect.New(b.Client(t, nil))
		var seen []string
		for e, err := range in.Watch(t.Context(), "young") {
			expect.OK(t, err)
			h, _ := e.Status.Holder()
			seen = append(seen, fmt.Sprintf("%s %s %d", e.Type, h.Grant, h.Fence))
			if len(seen) == 2 {
				break
			}
			go func() {
				hold("17")
				time.Sleep(4500 * time.Millisecond) // there are looks meanwhile, but none just then
				rdb.ZAdd(t.Context(), "holdfast:{young}:q", redis.Z{Score: float64(time.Now().UnixMicro()), Member: "token\n30000\nnowhere\n{}"})
			}()
		}
		expect.Same(t, "Watch tells of", seen, []string{"present k3v9x2ab 0", "queued k3v9x2ab 17"})
	})
}
