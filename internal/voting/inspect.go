package voting

import (
	"context"
	"slices"
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

// Init is inspect.Inspector.Admit or, with force, ForceAdmit.
func (in *Inspector) Init(ctx context.Context, force bool) error { return in.q.Init(ctx, force) }

func (q *Quorum) NewInspector() *Inspector {
	in := &Inspector{q: q}
	for _, c := range q.clients {
		node := inspector.New(&c.Keyspace)
		node.ActAs(q.clients[0].Config.Owner) // nodes' clients may have identities of their own
		in.nodes = append(in.nodes, node)
	}
	return in
}

// Get returns the status of the lock of that name. Its Form is "" if nobody holds the lock.
func (in *Inspector) Get(ctx context.Context, name string) (lock.Status, error) {
	s, err := in.q.Mutex(name).Status(ctx)
	if err == nil && len(s.Holders) == 0 {
		s.Form = ""
	}
	return s, err
}

// Lookup calls yield with the status of the lock of that name, or an error. A quorum has no exact keys.
func (in *Inspector) Lookup(ctx context.Context, name string, yield func(lock.Status, error) bool) {
	yield(in.Get(ctx, name))
}

// Reach asks about any lock, to learn whether a majority answers. Its error names the pattern's task.
func (in *Inspector) Reach(ctx context.Context, p inspector.Pattern) error {
	_, err := in.Get(ctx, "any")
	return inTask(p.Task, err)
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
			for _, s := range in.verdicts(ctx, batch, errs) {
				if s.err == nil && len(s.Holders) == 0 || !seen.Add(s.Key) {
					continue
				}
				if stopped = !yield(s.Status, s.err); stopped {
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
		yield(lock.Status{}, inTask(p.Task, q.tooFew("list", p.Text, errs)))
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

// verdict is what the nodes say about a lock, or why they do not agree.
type verdict struct {
	lock.Status
	err error
}

// verdicts asks all nodes about these locks. It notes in down which nodes cannot be asked.
func (in *Inspector) verdicts(ctx context.Context, batch []inspector.Found, down []error) []verdict {
	answers, refusals := make([][]lock.Status, len(in.nodes)), make([][]error, len(in.nodes))
	copy(down, together(in.nodes, func(i int) (err error) {
		if err = down[i]; err == nil {
			answers[i], refusals[i], err = in.nodes[i].GetAll(ctx, batch)
		}
		return err
	}))
	all := make([]verdict, len(batch))
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
		agreed, err := in.q.majority(found.Name, named, errs)
		all[n] = verdict{in.q.status(found.Name, found.Key(), agreed), err}
	}
	return all
}
