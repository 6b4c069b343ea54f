package voting

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/inspector"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// Break takes the lock from the grant with that id, on all nodes where the grant holds it.
func (in *Inspector) Break(ctx context.Context, name, grant, reason string) (broken inspector.Broken, err error) {
	var mu sync.Mutex
	whole := rand.Text()
	err = in.onGrant(ctx, "break", name, func(node *inspector.Inspector) error {
		b, err := node.BreakPart(ctx, name, grant, reason, whole)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			broken = b
		}
		return err
	})
	return broken, err
}

// Revoke asks the holder with that grant id to let go of the lock.
func (in *Inspector) Revoke(ctx context.Context, name, grant, reason string) error {
	whole := rand.Text()
	return in.onGrant(ctx, "revoke", name, func(node *inspector.Inspector) error {
		return node.RevokePart(ctx, name, grant, reason, whole)
	})
}

// onGrant calls f for each node. f does something to a grant of a lock. A node that, according to f, does not have that grant counts as
// done if another node has it.
func (in *Inspector) onGrant(ctx context.Context, op, name string, f func(node *inspector.Inspector) error) error {
	errs := together(in.nodes, func(i int) error { return f(in.nodes[i]) })
	var done bool
	var otherwise error // of nodes without the grant; preferably that of one that names another holder
	for i, err := range errs {
		switch {
		case err == nil:
			done = true
		case errors.Is(err, lock.ErrInvalid):
			return err
		case errors.Is(err, inspector.ErrChanged):
			otherwise, errs[i] = err, nil
		case errors.Is(err, lock.ErrNotHeld):
			otherwise, errs[i] = cmp.Or(otherwise, err), nil
		}
	}
	switch {
	case in.areTooFew(errs):
		return in.q.tooFew(op, name, errs)
	case !done:
		return otherwise
	}
	return nil
}

// History calls yield with each break and revocation that some node has on record, latest first, until yield returns false. If too few
// nodes have answered, the last call has an error.
func (in *Inspector) History(ctx context.Context, yield func(inspector.Broken, error) bool) {
	found := make([][]inspector.Broken, len(in.nodes))
	errs := together(in.nodes, func(i int) (failed error) {
		in.nodes[i].History(ctx, func(b inspector.Broken, err error) bool {
			if failed = err; err == nil {
				found[i] = append(found[i], b)
			}
			return true
		})
		return failed
	})
	all := slices.Concat(found...)
	slices.SortStableFunc(all, func(a, b inspector.Broken) int { return b.Time.Compare(a.Time) })
	known := map[string]bool{}
	for _, b := range all {
		if known[b.ID] {
			continue
		}
		known[b.ID] = true
		if !yield(b, nil) {
			return
		}
	}
	if in.areTooFew(errs) {
		yield(inspector.Broken{}, inTask(lock.TaskBreaks, in.q.tooFew(lock.TaskBreaks, "", errs)))
	}
}
