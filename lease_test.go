package holdfast_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestReleaseEndsALease(t *testing.T) {
	s := inParallel(t)
	l := s.client().Mutex("m")
	lease := acquire(t, l)
	if fences := lease.Fences(); len(fences) != 1 || fences["m"] != lease.Fence() || lease.IsShared() {
		t.Errorf("the fences are %v, shared: %t; want %d", fences, lease.IsShared(), lease.Fence())
	}
	select {
	case <-lease.Done():
		t.Error("Done is closed while the lease is held")
	default:
	}
	release(t, lease)
	receive(t, lease.Done())
	want(t, "Err", lease.Err(), holdfast.ErrReleased)
	want(t, "Extend", lease.Extend(t.Context(), time.Hour), holdfast.ErrReleased)
	release(t, lease) // a second release does nothing
	next := acquire(t, l)
	release(t, lease)
	want(t, "a late release ends the next lease", next.Err(), nil)
	release(t, next)
}

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

// Without any call a lease is renewed.
func TestALeaseIsRenewed(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	type held struct {
		lease *holdfast.Lease
		until time.Time
	}
	var all []held
	for _, l := range []*holdfast.Lock{
		c.Mutex("m", holdfast.TTL(6*time.Second)), c.Mutex("bounded", holdfast.TTL(6*time.Second), holdfast.MaxHold(time.Hour)),
		c.RWMutex("rw", holdfast.TTL(6*time.Second)).Reader(), c.Multi([]string{"a", "b"}, holdfast.TTL(6*time.Second)),
	} {
		lease := acquire(t, l)
		all = append(all, held{lease, lease.Deadline()})
	}
	for _, h := range all {
		eventually(t, h.lease.String()+" is renewed", func() bool {
			must(t, h.lease.Err())
			return h.lease.Deadline().After(h.until)
		})
		release(t, h.lease)
	}
}
