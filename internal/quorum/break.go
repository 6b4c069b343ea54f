package quorum

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Break takes the lock, on all nodes, from the process that has it with that fence on one of them.
func (in *Inspector) Break(ctx context.Context, name string, fence uint64, reason string) (broken engine.Broken, err error) {
	var mu sync.Mutex
	whole := rand.Text()
	err = in.onHolder(ctx, "break", name, fence, func(node *engine.Inspector, h engine.Holder) error {
		b, err := node.BreakPart(ctx, name, h.Fence, reason, whole)
		mu.Lock()
		defer mu.Unlock()
		if err == nil && (broken.Name == "" || h.Fence == fence) {
			broken = b
		}
		return err
	})
	if err == nil && broken.Name == "" {
		err = fmt.Errorf("%w: nobody holds %.64q", engine.ErrNotHeld, name)
	}
	return broken, err
}

// Revoke asks the process that has the lock with that fence on some node to let go.
func (in *Inspector) Revoke(ctx context.Context, name string, fence uint64, reason string) error {
	whole := rand.Text()
	return in.onHolder(ctx, "revoke", name, fence, func(node *engine.Inspector, h engine.Holder) error {
		return node.RevokePart(ctx, name, h.Fence, reason, whole)
	})
}

// onHolder finds the process that has the lock with that fence on some node, and calls f for each node on which it has the
// lock, with the grant there. A node on which the grant has ended meanwhile counts as done.
func (in *Inspector) onHolder(ctx context.Context, op, name string, fence uint64, f func(node *engine.Inspector, h engine.Holder) error) error {
	grants, errs := in.grants(ctx, name)
	var meant *engine.Holder
	others := 0
	for _, h := range grants {
		switch {
		case h == nil:
		case h.Fence == fence && !h.Foreign:
			meant = h
		default:
			others++
		}
	}
	switch {
	case meant != nil:
	case in.areTooFew(errs):
		return in.q.tooFew(op, name, errs)
	case others > 0:
		return fmt.Errorf("%w: no node has granted %.64q with fence %d", engine.ErrChanged, name, fence)
	default:
		return fmt.Errorf("%w: nobody holds %.64q", engine.ErrNotHeld, name)
	}
	var doing sync.WaitGroup
	for i, h := range grants {
		if h != nil && isSameProcess(h, meant) {
			doing.Go(func() {
				if err := f(in.nodes[i], *h); err != nil && !errors.Is(err, engine.ErrChanged) && !errors.Is(err, engine.ErrNotHeld) {
					errs[i] = err
				}
			})
		}
	}
	doing.Wait()
	if in.areTooFew(errs) {
		return in.q.tooFew(op, name, errs)
	}
	return nil
}

// grants returns the lock's holder on each node, nil if it has none, or the node's error. What has that name as its exact key
// is no lock of a quorum.
func (in *Inspector) grants(ctx context.Context, name string) ([]*engine.Holder, []error) {
	grants, errs := make([]*engine.Holder, len(in.nodes)), make([]error, len(in.nodes))
	var asking sync.WaitGroup
	for i, node := range in.nodes {
		asking.Go(func() {
			node.Lookup(ctx, name, func(s engine.Status, err error) bool {
				if errs[i] = err; err == nil && len(s.Holders) > 0 {
					grants[i] = &s.Holders[0]
				}
				return false
			})
		})
	}
	asking.Wait()
	return grants, errs
}

// History calls yield with each break and revocation that some node has on record, the latest first, until yield returns false. If
// too few nodes have answered, the last call is with an error.
func (in *Inspector) History(ctx context.Context, yield func(engine.Broken, error) bool) {
	found, errs := make([][]engine.Broken, len(in.nodes)), make([]error, len(in.nodes))
	var asking sync.WaitGroup
	for i, node := range in.nodes {
		asking.Go(func() {
			node.History(ctx, func(b engine.Broken, err error) bool {
				if errs[i] = err; err == nil {
					found[i] = append(found[i], b)
				}
				return true
			})
		})
	}
	asking.Wait()
	all := slices.Concat(found...)
	slices.SortStableFunc(all, func(a, b engine.Broken) int { return b.Time.Compare(a.Time) })
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
		yield(engine.Broken{}, inTask(engine.TaskBreaks, in.q.tooFew(engine.TaskBreaks, "", errs)))
	}
}
