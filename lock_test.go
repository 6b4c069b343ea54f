package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// doing is Do or TryDo of a lock.
type doing func(context.Context, func(context.Context, *holdfast.Lease) error) error

func TestDoReturnsWhatTheFunctionReturns(t *testing.T) {
	s := inParallel(t)
	l := s.client().Mutex("m")
	failure := errors.New("no luck")
	for what, do := range map[string]doing{"Do": l.Do, "TryDo": l.TryDo} {
		for _, result := range []error{nil, failure} {
			var work context.Context
			err := do(t.Context(), func(ctx context.Context, lease *holdfast.Lease) error {
				work = ctx
				wantHeld(t, s.client().Mutex("m"))
				if ctx.Err() != nil || lease.Err() != nil {
					t.Errorf("%s: the context of work has ended: %v; the lease: %v", what, ctx.Err(), lease.Err())
				}
				return result
			})
			equal(t, what, err, result)
			equal(t, what+": afterwards its context's cause", context.Cause(work), holdfast.ErrReleased)
		}
		err := do(t.Context(), func(context.Context, *holdfast.Lease) error {
			s.steal("m")
			return failure
		})
		if !errors.Is(err, failure) || !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("%s, whose lock was lost: %v; want both errors", what, err)
		}
		s.give("m")
	}
}

func TestDoReleasesWhenTheFunctionPanics(t *testing.T) {
	s := inParallel(t)
	l := s.client().Mutex("m")
	func() {
		defer func() {
			equal(t, "the panic", recover(), "no luck")
		}()
		_ = l.Do(t.Context(), func(context.Context, *holdfast.Lease) error { panic("no luck") })
	}()
	release(t, acquire(t, s.client().Mutex("m")))
}

func TestDoDoesNotCallTheFunctionWithoutTheLock(t *testing.T) {
	s := inParallel(t)
	lease := acquire(t, s.client().Mutex("m"))
	l := s.client().Mutex("m", holdfast.Wait(0))
	for what, do := range map[string]doing{"Do": l.Do, "TryDo": l.TryDo} {
		err := answered(t, func() error {
			return do(t.Context(), func(context.Context, *holdfast.Lease) error {
				t.Errorf("%s calls its function", what)
				return nil
			})
		})
		want(t, what, err, holdfast.ErrHeld)
	}
	release(t, lease)
}

// HeldError.Name does not tell whether f was called if f wants a lock of the same name elsewhere.
func TestDoReturnsHeldOfTheSameName(t *testing.T) {
	t.Parallel()
	s, elsewhere := newSpace(t), newSpace(t)
	lease := acquire(t, elsewhere.client().Mutex("m"))
	other, called := elsewhere.client().Mutex("m"), false
	var own error
	err := s.client().Mutex("m").Do(t.Context(), func(ctx context.Context, _ *holdfast.Lease) error {
		called = true
		_, own = other.TryAcquire(ctx)
		return own
	})
	var held *holdfast.HeldError
	if !called || err != own || !errors.As(err, &held) || held.Name != "m" {
		t.Errorf("called: %t; Do: %#v; the function's error: %#v", called, err, own)
	}
	release(t, lease)
}

// The function's context ends when the lease is lost, and says why. What the function then returns is not said twice.
func TestDoEndsTheContextWithTheLease(t *testing.T) {
	s := inParallel(t)
	err := s.client().Mutex("m").Do(t.Context(), func(ctx context.Context, lease *holdfast.Lease) error {
		s.steal("m")
		want(t, "Extend", lease.Extend(ctx, time.Hour), holdfast.ErrLost)
		<-ctx.Done()
		return fmt.Errorf("halfway: %w", context.Cause(ctx))
	})
	want(t, "Do", err, holdfast.ErrLost)
	if text := err.Error(); strings.Count(text, "lost") != 1 || !strings.HasPrefix(text, "halfway: ") {
		t.Errorf("Do: %s", text)
	}
}

// What ends a reentrant lock ends all its leases.
func TestReentrantLeasesAreLostTogether(t *testing.T) {
	s := inParallel(t)
	l := s.client().Mutex("m", holdfast.Reentrant())
	outer := acquire(t, l)
	inner, err := l.Acquire(outer.Context(t.Context()))
	must(t, err)
	s.steal("m")
	want(t, "Extend", inner.Extend(t.Context(), time.Hour), holdfast.ErrLost)
	for _, lease := range []*holdfast.Lease{outer, inner} {
		want(t, "Err", lease.Err(), holdfast.ErrLost)
		want(t, "Release", lease.Release(t.Context()), holdfast.ErrLost)
	}
}

// Options makes one option of several, for locks of all kinds.
func TestOptionsCombinesOptions(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	both := holdfast.Options(holdfast.Identity("me"), holdfast.Meta("k", "first"), holdfast.Options(holdfast.Meta("k", "later")))
	for _, l := range []*holdfast.Lock{c.Mutex("m", both), c.RWMutex("rw", both).Reader(), c.Semaphore("s", 2).Permits(1, both), c.Multi([]string{"a", "b"}, both)} {
		lease := acquire(t, l)
		if h, _ := status(t, l).Holder(); h.Identity != "me" || h.Meta["k"] != "later" {
			t.Errorf("the holder of %s is %+v", l, h)
		}
		release(t, lease)
	}
	want(t, "a bad option among others", tryAcquire(t, c.Mutex("m", holdfast.Options(holdfast.Identity("me"), holdfast.TTL(0)))), holdfast.ErrInvalid)
}

// isFenceOf reports whether a fence that the server shows is a lease's. It shows 0 before it has been told.
func isFenceOf(shown uint64, lease *holdfast.Lease) bool { return shown == 0 || shown == lease.Fence() }

// A context made from a lease ends with its parent or with the lease, whichever is first, and says why.
func TestContextOfALease(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	type key struct{}
	for what, l := range map[string]*holdfast.Lock{"a mutex": c.Mutex("m"), "several": c.Multi([]string{"a", "b"})} {
		lease := acquire(t, l)
		parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
		first, second := lease.Context(parent), lease.Context(context.Background())
		equal(t, what+": its parent's value", first.Value(key{}), "value")
		cancel(errBroken)
		receive(t, first.Done())
		if context.Cause(first) != errBroken || second.Err() != nil || lease.Err() != nil {
			t.Errorf("%s: with its parent it ends with %v; the other context: %v; the lease: %v", what, context.Cause(first), second.Err(), lease.Err())
		}
		release(t, lease)
		receive(t, second.Done())
		for _, ctx := range []context.Context{second, lease.Context(t.Context())} {
			if ctx.Err() == nil || context.Cause(ctx) != holdfast.ErrReleased {
				t.Errorf("%s: with its lease it ends with %v", what, context.Cause(ctx))
			}
		}
	}
}

// A Holder of which anything is known is not zero.
func TestIsZeroLooksAtEveryField(t *testing.T) {
	t.Parallel()
	if !(holdfast.Holder{}).IsZero() {
		t.Error("the zero Holder is not zero")
	}
	some := reflect.ValueOf(holdfast.Holder{
		Name: "m", Identity: "me", Host: "host", PID: 1, Meta: map[string]string{}, Mode: holdfast.ModeReader, Permits: 1, Grant: "k3v9x2ab", Fence: 1,
		Since: time.Now(), TTL: -1, Foreign: true,
	})
	for i := range some.NumField() {
		var h holdfast.Holder
		if some.Field(i).IsZero() {
			t.Fatalf("this test knows nothing of %s", some.Type().Field(i).Name)
		}
		reflect.ValueOf(&h).Elem().Field(i).Set(some.Field(i))
		if h.IsZero() {
			t.Errorf("a Holder of which only %s is known is zero", some.Type().Field(i).Name)
		}
	}
}
