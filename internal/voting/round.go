package voting

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// round asks every node once.
func (b *bid) round(ctx context.Context) (*lease, []vote, error) {
	q, l := b.q, b.l
	q.beginTask() // a vote may bring a grant, which has to be held or taken back
	defer q.endTask()
	p := b.poll(ctx)
	for !p.enough() && p.wait(ctx) {
	}
	votes, open := p.end()
	if open > 0 {
		q.beginTask()
		l.c.Tasks.Run(func() {
			defer q.endTask()
			for _, v := range p.await(len(votes)) {
				q.giveBack(v)
			}
		})
	}
	var granted []vote
	for _, v := range votes {
		if v.a.IsGranted() {
			granted = append(granted, v)
		}
	}
	lease, err := b.elect(ctx, p.round, votes, granted)
	if err == nil {
		// mutants: partial-round
		q.partial.Store(len(granted) < len(q.clients))
	}
	for _, v := range votes {
		if err != nil || !v.a.IsGranted() {
			q.giveBack(v)
		}
	}
	return lease, votes, err
}

// elect makes a lease from the votes of a round, if enough nodes granted.
func (b *bid) elect(ctx context.Context, round string, votes, granted []vote) (*lease, error) {
	q, l := b.q, b.l
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(granted) < q.need {
		return nil, q.refused(l, votes)
	}
	fence, err := q.agree(ctx, l, b.timeout, granted)
	if err != nil {
		return nil, err
	}
	// A node vouches for the fence until its grant's deadline: it grants the lock to nobody else before that and, if it has lost its
	// counter, grants nothing.
	now := clock.Now()
	if slices.ContainsFunc(granted, func(v vote) bool { return v.a.Expired(now) }) {
		return nil, q.late(l)
	}
	parts := make([]*engine.NodeAttempt, len(granted))
	for i, v := range granted {
		parts[i] = v.a
	}
	var refilling atomic.Bool
	var refill func(*engine.JointLease)
	if l.first().Set.Unbounded() {
		refill = func(joint *engine.JointLease) {
			if refilling.CompareAndSwap(false, true) {
				l.c.Tasks.Run(func() { q.refill(&lease{JointLease: joint, l: l, round: round}, &refilling) })
			}
		}
	}
	joint := engine.JoinNodes(l.first(), q.need, fence, parts, refill)
	if err := joint.Err(); err != nil {
		_ = joint.Release(context.Background()) // otherwise Close would wait for the leases on the nodes
		if errors.Is(err, exec.ErrClosed) {
			return nil, exec.ErrClosed
		}
		return nil, q.late(l)
	}
	if len(parts) < len(q.clients) && refill != nil {
		refill(joint)
	}
	return &lease{joint, l, round, func() {}}, nil
}

// agree finds a fence that is above all earlier ones, and makes a majority know it. It is the highest among the q.need lowest fences that
// the nodes have stored for these grants. A majority knows every earlier fence, so one of these q.need nodes does, and has stored a higher
// fence since.
func (q *Quorum) agree(ctx context.Context, l *mutex, timeout time.Duration, granted []vote) (uint64, error) {
	fences := make([]uint64, len(granted))
	for i, v := range granted {
		fences[i] = v.a.Fence()
	}
	slices.Sort(fences)
	fence := fences[q.need-1]
	ours := map[int]string{}
	known := 0
	for _, v := range granted {
		if v.a.Fence() >= fence {
			known++
		} else {
			ours[v.node] = v.a.Token()
		}
	}
	// mutants: fence-known
	if known >= q.need {
		return fence, nil
	}
	replies, errs := askNodes(ctx, l, timeout, "acquire", func(i int, p *engine.Target) codec.Request[codec.Reply] {
		token, wanted := ours[i]
		if !wanted {
			return nil
		}
		return codec.NodeFence(p.NodeRef(), token, fence)
	})
	for i, reply := range replies {
		switch {
		case errs[i] != nil:
		case reply.Word == codec.Fenced:
			known++
		case reply.Word == codec.Gone:
			errs[i] = errGone
		default:
			errs[i] = q.refusal("acquire", l, i, reply.Refusal)
		}
	}
	if known < q.need {
		return 0, q.tooFew("acquire", l.name, errs)
	}
	return fence, ctx.Err()
}

// refill asks the nodes that do not hold a lease's lock for it, from time to time, until all do or the lease is over. Nobody else can hold
// the lock meanwhile: a majority of nodes holds it for the lease until its deadlines.
func (q *Quorum) refill(b *lease, refilling *atomic.Bool) {
	l := b.l
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer b.WhenOver(func(error) { cancel() })()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, l.first().Set.TTL/3) {
		select {
		case <-time.After(schedule.Jitter(pause, 20)):
		case <-ctx.Done():
			return
		}
		missing := q.missing(b)
		if len(missing) == 0 {
			refilling.Store(false)
			if missing = q.missing(b); len(missing) == 0 || !refilling.CompareAndSwap(false, true) {
				return
			}
		}
		for _, i := range missing {
			if b.Err() != nil {
				return
			}
			q.refillNode(ctx, b, i)
		}
	}
}

// missing returns the nodes that do not hold a lease's lock.
func (q *Quorum) missing(b *lease) []int {
	there := b.Nodes()
	var all []int
	for i, c := range q.clients {
		if !slices.Contains(there, c) {
			all = append(all, i)
		}
	}
	return all
}

func (q *Quorum) refillNode(ctx context.Context, b *lease, i int) {
	q.beginTask()
	defer q.endTask()
	v := q.newVote(b.l, i, b.round)
	if v.err == nil {
		v = q.askByScript(ctx, b.l, v, terms{&holdersTicket, q.timeout(b.l)})
	}
	if v.behind != "" {
		_ = q.repair(ctx, b.l, marks{i: v.behind})
	}
	if !v.a.IsGranted() {
		q.giveBack(v)
		return
	}
	// The node's counter may be below the lease's fence: only a majority has to know that fence, and does.
	b.Add(v.a)
}
