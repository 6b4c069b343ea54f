package holdfast_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
)

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
