package voting

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/inspector"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// Inspector reports who holds locks on a majority of nodes.
type Inspector struct {
	q      *Quorum
	nodes  []*inspector.Inspector
	absent atomic.Pointer[[]error] // by the latest List
}

func (q *Quorum) NewInspector() *Inspector {
	in := &Inspector{q: q}
	for _, c := range q.clients {
		// Nodes' clients may have identities of their own.
		in.nodes = append(in.nodes, inspector.New(&c.Keyspace, q.clients[0].Config.Owner))
	}
	return in
}

// Lookup calls yield with the status of the lock of that name, or an error. A quorum has no exact keys. The status of a lock that nobody
// holds has no Form.
func (in *Inspector) Lookup(ctx context.Context, name string, yield func(lock.Status, error) bool) {
	s, err := in.q.Mutex(name).Status(ctx)
	if err == nil && len(s.Holders) == 0 {
		s.Form = ""
	}
	yield(s, err)
}

// List calls yield with each matching lock that a majority of nodes says is held, or with the error of a lock about which the nodes do not
// agree, until yield returns false. An error without a name ends the list: too few nodes have answered. If enough have, Absent returns the
// errors of the others.
func (in *Inspector) List(ctx context.Context, p inspector.Pattern, yield func(lock.Status, error) bool) {
	q, seen := in.q, inspector.NewSeen()
	// Every set of left nodes has at least one of the majority that holds a lock.
	left := len(in.nodes) - q.need + 1
	errs := make([]error, len(in.nodes)) // of nodes that have failed and are not asked again
	defer func() {
		if ctx.Err() == nil {
			var absent []error
			for _, n := range in.q.tooFew("list", p.Text, errs).Nodes {
				absent = append(absent, exec.InTask(p.Task, n.Err))
			}
			in.absent.Store(&absent)
		}
	}()
	for i, node := range in.nodes {
		if left == 0 {
			return
		}
		if errs[i] != nil {
			continue
		}
		stopped := false
		err := node.Find(ctx, p, seen, func(batch []inspector.Found) (bool, error) {
			all, open := in.verdicts(ctx, batch, errs)
			for i, s := range all {
				if open[i] == nil && len(s.Holders) == 0 || !seen.Add(s.Key) {
					continue
				}
				if stopped = !yield(s, open[i]); stopped {
					return false, nil
				}
			}
			return !in.areTooFew(errs), nil
		})
		switch {
		case stopped:
			return
		case err != nil:
			errs[i] = err
		case !in.areTooFew(errs):
			left--
		}
		if ctx.Err() != nil {
			yield(lock.Status{}, ctx.Err())
			return
		}
		if in.areTooFew(errs) {
			break
		}
	}
	if left > 0 {
		yield(lock.Status{}, InTask(p.Task, q.tooFew("list", p.Text, errs)))
	}
}

// Absent returns the errors of the nodes that failed during the latest List. It omits nodes that List did not have to ask because no lock
// is held.
func (in *Inspector) Absent() []error {
	if absent := in.absent.Load(); absent != nil {
		return *absent
	}
	return nil
}

// areTooFew reports whether the nodes that have not failed are no majority.
func (in *Inspector) areTooFew(errs []error) bool {
	there := 0
	for _, err := range errs {
		if err == nil {
			there++
		}
	}
	return there < in.q.need
}

// verdicts asks all nodes about these locks, and returns for each what a majority says, or why they do not agree. It notes in down which
// nodes cannot be asked.
func (in *Inspector) verdicts(ctx context.Context, batch []inspector.Found, down []error) ([]lock.Status, []error) {
	answers, refusals := make([][]lock.Status, len(in.nodes)), make([][]error, len(in.nodes))
	copy(down, together(in.nodes, func(i int) (err error) {
		if err = down[i]; err == nil {
			answers[i], refusals[i], err = in.nodes[i].GetAll(ctx, batch)
		}
		return err
	}))
	all, open := make([]lock.Status, len(batch)), make([]error, len(batch))
	for n, found := range batch {
		named, errs := make([]*lock.Holder, len(in.nodes)), make([]error, len(in.nodes))
		for i := range in.nodes {
			switch errs[i] = down[i]; {
			case errs[i] != nil:
			case refusals[i][n] != nil:
				errs[i] = refusals[i][n]
			default:
				if s := &answers[i][n]; len(s.Holders) > 0 && slices.Contains([]string{codec.HoldsMutex, kind.SeenAsElection, codec.HoldsForeign}, s.Form) {
					named[i] = &s.Holders[0]
				}
			}
		}
		var agreed []lock.Holder
		agreed, open[n] = in.q.majority(found.Name, named, errs)
		all[n] = in.q.status(found.Name, found.Key(), agreed)
	}
	return all, open
}

// Break takes the lock from the grant with that id, on all nodes where the grant holds it.
func (in *Inspector) Break(ctx context.Context, name, grant, reason, _ string) (broken inspector.Broken, err error) {
	var mu sync.Mutex
	whole := rand.Text()
	err = in.onGrant(ctx, "break", name, func(node *inspector.Inspector) error {
		b, err := node.Break(ctx, name, grant, reason, whole)
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
func (in *Inspector) Revoke(ctx context.Context, name, grant, reason, _ string) error {
	whole := rand.Text()
	return in.onGrant(ctx, "revoke", name, func(node *inspector.Inspector) error {
		return node.Revoke(ctx, name, grant, reason, whole)
	})
}

// onGrant calls f, which does something to a grant, for each node. A node without the grant counts as done if another node has it.
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
		yield(inspector.Broken{}, InTask(lock.TaskBreaks, in.q.tooFew(lock.TaskBreaks, "", errs)))
	}
}

// Deadlocks returns an error: the nodes do not know who waits.
func (in *Inspector) Deadlocks(context.Context, inspector.Pattern) ([]*lock.DeadlockError, error) {
	return nil, fmt.Errorf("%w: it is not known who waits for a lock of a quorum", lock.ErrInvalid)
}
