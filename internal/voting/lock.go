package voting

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// mutex is a lock that a majority of nodes grants.
type mutex struct {
	q     *Quorum
	name  string
	c     *engine.Client   // the first node's
	parts []*engine.Target // by node
	err   error            // what is wrong with the name or options
}

func (q *Quorum) newLock(name string, opts []kind.Option) *mutex {
	l := &mutex{q: q, name: name, c: q.clients[0]}
	// All nodes get the same owner, since clients without Config.Identity would each have their own, and the same TTL.
	owner := l.c.Config.Owner
	opts = slices.Concat([]kind.Option{kind.TTL(l.c.Config.TTL)}, opts)
	for _, c := range q.clients {
		l.parts = append(l.parts, c.NodeLock(name, owner, opts))
	}
	l.err = l.first().Set.Err
	return l
}

// first returns the lock on the first node. The options are the same on all nodes.
func (l *mutex) first() *engine.Target { return l.parts[0] }

func (l *mutex) Name() string { return l.name }

func (l *mutex) String() string { return fmt.Sprintf("holdfast.Lock(%q)", l.name) }

// key returns the lock's key, which is the same on all nodes.
func (l *mutex) key() string { return l.first().Keys.Lock }

func (l *mutex) AcquireBy(ctx context.Context, end time.Time) (engine.Lease, error) {
	return l.first().Observed(ctx, false, func(ctx context.Context) (engine.Lease, error) {
		return l.first().AcquireVotes(ctx, end, func(asking context.Context) (engine.Lease, error) { return l.acquire(asking, end) }, l.holder)
	})
}

func (l *mutex) acquire(ctx context.Context, end time.Time) (engine.Lease, error) {
	l.c.Tasks.Begin() // Close waits for the outcome
	defer l.c.Tasks.End()
	if err := l.mayAcquire(ctx); err != nil {
		return nil, err
	}
	if l.first().Set.PollInterval > 0 {
		return l.first().Poll(ctx, end, l.try)
	}
	return l.q.acquire(ctx, l, end)
}

func (l *mutex) TryAcquire(ctx context.Context) (engine.Lease, error) {
	return l.first().Observed(ctx, true, func(ctx context.Context) (engine.Lease, error) {
		l.c.Tasks.Begin()
		defer l.c.Tasks.End()
		if err := l.mayAcquire(ctx); err != nil {
			return nil, err
		}
		return l.try(ctx)
	})
}

// mayAcquire is ready for an acquire: it also refuses one that would wait for a lease that ctx carries.
func (l *mutex) mayAcquire(ctx context.Context) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	for _, p := range l.parts {
		if err := p.CheckNesting(ctx); err != nil {
			return err
		}
	}
	return nil
}

// AsElection implements engine.Lock. Differ ignores fences, since each node has its own.
func (l *mutex) AsElection() *engine.Electorate {
	own := *l
	own.parts = make([]*engine.Target, len(l.parts))
	for i, p := range l.parts {
		own.parts[i] = p.With(kind.Apart(kind.SeenAsElection))
	}
	return &engine.Electorate{
		Lock: &own, Client: l.c, Ready: own.ready, MayPass: l.q.curable,
		Differ: func(a, b *lock.Holder) bool { return !isSameProcess(a, b) },
	}
}

// try acquires the lock unless someone has it.
func (l *mutex) try(ctx context.Context) (engine.Lease, error) {
	lease, err := l.q.contend(ctx, l, false, time.Time{})
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// Status returns who holds the lock on a majority of nodes, or an error if that is not known. Nodes have no waiters.
func (l *mutex) Status(ctx context.Context) (lock.Status, error) {
	holders, err := l.holders(ctx)
	if err != nil {
		return lock.Status{}, err
	}
	return l.q.status(l.name, l.key(), holders), nil
}

// holder returns who holds the lock on a majority of nodes, or a zero Holder.
func (l *mutex) holder(ctx context.Context) (h lock.Holder, err error) {
	holders, err := l.holders(ctx)
	if len(holders) > 0 {
		h = holders[0]
	}
	return h, err
}

// status returns the status of a lock with these holders.
func (q *Quorum) status(name, key string, holders []lock.Holder) lock.Status {
	s := lock.Status{Name: name, Key: key, Form: codec.HoldsMutex, Holders: holders, Time: time.UnixMicro(q.clients[0].Server.Time(0))}
	for _, h := range holders {
		s.Fence, s.Form = h.Fence, h.Form
		if h.Foreign {
			s.Form = codec.HoldsForeign
		}
	}
	return s
}

// holders returns who holds the lock on a majority of nodes, or an error if that is not known. As long as nodes without an answer may only
// be slow, as for a first request, which has to connect, it asks again and waits longer.
func (l *mutex) holders(ctx context.Context) ([]lock.Holder, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	q := l.q
	for timeout := max(q.timeout(l), 100*time.Millisecond); ; {
		replies, errs := askNodes(ctx, l, timeout, "inspect", func(_ int, p *engine.Target) codec.Request[codec.StatusReply] {
			return &codec.Status{Lock: p.NodeRef(), Kind: codec.HoldsMutex, Cursor: "0", Holds: 1}
		})
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		named := make([]*lock.Holder, len(replies))
		for i, reply := range replies {
			if errs[i] == nil && len(reply.Holds) > 0 {
				h := l.parts[i].HolderOf(&reply.Holds[0])
				named[i] = &h
			}
		}
		holders, err := q.majority(l.name, named, errs)
		longer := q.longer(l, timeout)
		if err == nil || longer <= timeout {
			return holders, err
		}
		timeout = longer
	}
}

// majority returns the holder that a majority of nodes names, or none. It returns an error if the nodes that did not answer could change
// the result. named and errs are the nodes' answers.
func (q *Quorum) majority(name string, named []*lock.Holder, errs []error) ([]lock.Holder, error) {
	there, most := 0, 0
	for i, h := range named {
		if errs[i] == nil {
			there++
		}
		if h == nil {
			continue
		}
		same := 0
		for _, other := range named {
			if other != nil && isSameProcess(h, other) {
				same++
			}
		}
		if same >= q.need {
			return []lock.Holder{*h}, nil
		}
		most = max(most, same)
	}
	if there >= q.need && (most == 0 || most+len(named)-there < q.need) {
		return nil, nil
	}
	errs = slices.Clone(errs)
	for i, h := range named {
		if h != nil {
			errs[i] = q.contested("inspect", name, i, h)
		}
	}
	return nil, q.tooFew("inspect", name, errs)
}

// isSameProcess reports whether, by what the nodes say, one process has the grants of two nodes.
func isSameProcess(a, b *lock.Holder) bool {
	return a.Owner == b.Owner && a.Host == b.Host && a.PID == b.PID && a.Foreign == b.Foreign
}

// ready refuses what cannot work, before any I/O, and connects to the nodes.
func (l *mutex) ready(ctx context.Context) error {
	if l.err != nil {
		return l.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.q.ready(ctx, l)
}

// lease is a lease of a quorum's lock, made of the grants of a majority of nodes.
type lease struct {
	*engine.JointLease
	l     *mutex
	round string // in which the lease was acquired
	pass  func() // ends the turn in which the lease was acquired; later calls do nothing
}

// Release implements engine.Lease. The turn ends last: until the nodes have answered, the next goroutine would find the lock held.
func (b *lease) Release(ctx context.Context) error { return b.ReleaseThen(ctx, b.pass) }
