package behaviour

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// A context that is made from a lease ends with its parent or with the lease, whichever comes first, says why,
// and has the parent's values.
func TestContextsOfALease(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		for kind, l := range map[string]*holdfast.Lock{"mutex": c.Mutex("a"), "several": c.Multi([]string{"b", "c"})} {
			type key struct{}
			cause := errors.New("enough")
			parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
			lease := backend.Acquire(t, l)
			first, second := lease.Context(parent), lease.Context(t.Context())
			if first.Value(key{}) != "value" || first.Err() != nil || second.Err() != nil {
				t.Errorf("%s: the context has the value %v, and has ended with %v", kind, first.Value(key{}), first.Err())
			}
			cancel(cause)
			if first.Err() == nil || context.Cause(first) != cause || second.Err() != nil || lease.Err() != nil {
				t.Errorf("%s: with its parent it ends with %v; the lease: %v", kind, context.Cause(first), lease.Err())
			}
			backend.Release(t, lease)
			if second.Err() == nil || context.Cause(second) != holdfast.ErrReleased {
				t.Errorf("%s: with the release it ends with %v", kind, context.Cause(second))
			}
			if late := lease.Context(t.Context()); late.Err() == nil || context.Cause(late) != holdfast.ErrReleased {
				t.Errorf("%s: after the release it ends with %v", kind, context.Cause(late))
			}
			<-lease.Done()

			lease = backend.Acquire(t, l)
			work := lease.Context(t.Context())
			b.Redis(t).Del(t.Context(), "holdfast:{a}", "holdfast:{c}")
			if err := lease.Extend(t.Context(), time.Minute); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("%s: Extend: %v", kind, err)
			}
			<-work.Done()
			<-lease.Done()
			var lost *holdfast.LostError
			if !errors.As(context.Cause(work), &lost) || lost.Fence == 0 || lost.Fence != lease.Fences()[lost.Name] || lost.Reason != holdfast.LossDeleted {
				t.Errorf("%s: with the loss it ends with %v, %+v; the fences are %v", kind, context.Cause(work), lost, lease.Fences())
			}
			if err := lease.Err(); err.Error() != lost.Error() {
				t.Errorf("%s: Err: %v", kind, err)
			}
			_ = lease.Release(t.Context())
		}
	})
}

// Do returns the function's own error unchanged, or joined with the error of a failed release.
func TestDoReturnsWhatTheFunctionDoes(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := b.Client(t, nil).Mutex("a")
		failure := errors.New("no luck")
		for what, do := range map[string]func(context.Context, func(context.Context, *holdfast.Lease) error) error{"Do": l.Do, "TryDo": l.TryDo} {
			if err := do(t.Context(), func(context.Context, *holdfast.Lease) error { return failure }); err != failure {
				t.Errorf("%s: %v", what, err)
			}
			err := do(t.Context(), func(ctx context.Context, _ *holdfast.Lease) error {
				b.Redis(t).Del(ctx, "holdfast:{a}")
				return failure
			})
			if !errors.Is(err, failure) || !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("%s, with a lease that is lost: %v", what, err)
			}
			// If the function fails to acquire another lock, the caller can tell its ErrHeld from one of Do's
			// own lock.
			other := backend.Acquire(t, b.Client(t, nil).Mutex("b"))
			err = do(t.Context(), func(ctx context.Context, _ *holdfast.Lease) error {
				return b.Client(t, nil).Mutex("b").TryDo(ctx, nil)
			})
			if held, is := err.(*holdfast.HeldError); !is || held.Name != "b" {
				t.Errorf("%s, around another lock that is held: %v", what, err)
			}
			backend.Release(t, other)
		}
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("a"))
		if err := l.TryDo(t.Context(), nil); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("TryDo of a lock that is held: %v", err)
		}
		backend.Release(t, lease)
	})
}

// Each handle has its name, and returns its status, which changes nothing.
func TestStatusOfEachKind(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, &holdfast.Config{Owner: "me"})
		mutex, rw, semaphore := c.Mutex("m"), c.RWMutex("rw"), c.Semaphore("s", 5)
		latch, barrier := c.Latch("l", 7), c.Barrier("b", 3)
		once, election := c.Once("o", holdfast.Every(time.Hour)), c.Election("e")
		owner, redisson, key := c.OwnerMutex("own", "somebody"), c.RedissonMutex("r"), c.MutexKey("k")
		type locked interface {
			backend.Locked
			Name() string
		}
		kinds := map[locked]holdfast.Status{
			mutex:     {Name: "m", Key: "holdfast:{m}", Kind: holdfast.KindMutex},
			rw:        {Name: "rw", Key: "holdfast:{rw}", Kind: holdfast.KindRWMutex},
			semaphore: {Name: "s", Key: "holdfast:{s}", Kind: holdfast.KindSemaphore, Limit: 5},
			latch:     {Name: "l", Key: "holdfast:{l}", Kind: holdfast.KindLatch, Limit: 7, Count: 7},
			barrier:   {Name: "b", Key: "holdfast:{b}", Kind: holdfast.KindBarrier, Limit: 3},
			once:      {Name: "o", Key: "holdfast:{o}", Kind: holdfast.KindMutex},
			election:  {Name: "e", Key: "holdfast:{e}", Kind: holdfast.KindElection},
			owner:     {Name: "own", Key: "holdfast:{own}", Kind: holdfast.KindOwner},
			redisson:  {Name: "r", Key: "r", Kind: holdfast.KindRedisson},
			key:       {Name: "k", Key: "k", Kind: holdfast.KindMutex},
		}
		check := func(l locked, want holdfast.Status) {
			t.Helper()
			got, err := l.Status(t.Context())
			if err != nil || l.Name() != want.Name || time.Since(got.Time).Abs() > time.Minute {
				t.Errorf("%s: %+v, %v", want.Name, got, err)
			}
			got.Time = time.Time{}
			if got, want := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); got != want {
				t.Errorf("Status is\n%s, want\n%s", got, want)
			}
		}
		for l, want := range kinds {
			check(l, want)
		}
		holder := func(l locked, lease *holdfast.Lease, mode holdfast.Mode, permits int) {
			t.Helper()
			got, err := l.Status(t.Context())
			h, held := got.Holder()
			if err != nil || !held || !got.Held() || len(got.Holders) != 1 || h.Name != l.Name() || h.Owner != lease.Owner() ||
				h.Mode != mode || h.Permits != permits || !backend.IsShown(h.Fence, lease.Fence()) || got.Fence != h.Fence || h.TTL <= 0 || h.Foreign {
				t.Errorf("Status of %s is %+v, %v", l.Name(), got, err)
			}
			backend.Release(t, lease)
		}
		holder(mutex, backend.Acquire(t, mutex), holdfast.ModeExclusive, 0)
		holder(key, backend.Acquire(t, key), holdfast.ModeExclusive, 0)
		holder(redisson, backend.Acquire(t, redisson), holdfast.ModeExclusive, 0)
		holder(owner, backend.Acquire(t, owner), holdfast.ModeExclusive, 0)
		holder(rw, backend.Acquire(t, rw.Reader()), holdfast.ModeReader, 0)
		holder(rw, backend.Acquire(t, rw.Writer()), holdfast.ModeWriter, 0)
		holder(semaphore, backend.Acquire(t, semaphore.Permits(3)), holdfast.ModePermits, 3)
		party, err := latch.Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		holder(latch, party.Lease(), holdfast.ModeParty, 0)
		guest, err := barrier.Join(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		holder(barrier, guest.Lease(), holdfast.ModeParty, 0)
		several := c.Multi([]string{"m", "n"})
		lease := backend.Acquire(t, several)
		got, err := several.Status(t.Context())
		if err != nil || len(got.Holders) != 2 || got.Name != "m, n" || got.Key != "" || got.Holders[0].Fence != lease.Fences()[got.Holders[0].Name] {
			t.Errorf("Status of several is %+v, %v", got, err)
		}
		backend.Release(t, lease)
	})
}

// Nothing that fmt prints of a client's values contains a token.
func TestWhatIsPrintedIsNoSecret(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		lease := backend.Acquire(t, c.Mutex("a"))
		value := b.Redis(t).Get(t.Context(), "holdfast:{a}").Val()
		token := strings.Split(value, ":")[1]
		if len(token) < 20 {
			t.Fatalf("the value is %q", value)
		}
		for _, v := range []any{c, lease, c.Mutex("a"), *c.Mutex("a"), c.Semaphore("s", 1), c.Once("o", holdfast.Every(time.Hour)), c.Election("e"), c.RWMutex("rw")} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
				if text := fmt.Sprintf(verb, v); strings.Contains(text, token) {
					t.Errorf("%s of a %T shows the token: %s", verb, v, text)
				}
			}
		}
		if got := fmt.Sprint(lease); got != fmt.Sprintf("holdfast.Lease(%q, fence %d)", "a", lease.Fence()) {
			t.Errorf("a lease is printed as %s", got)
		}
		if got := fmt.Sprint(c.Mutex("a")); got != `holdfast.Lock("a")` {
			t.Errorf("a lock is printed as %s", got)
		}
		backend.Release(t, lease)
	})
}
