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
)

// round asks every node once.
func (b *bid) round(ctx context.Context) (engine.Lease, []vote, error) {
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
func (b *bid) elect(ctx context.Context, round string, votes, granted []vote) (engine.Lease, error) {
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
				l.c.Tasks.Run(func() { q.refill(&lease{joint, l, round}, &refilling) })
			}
		}
	}
	joint := engine.JoinNodes(l.first(), q.need, fence, parts, refill)
	if !joint.Notify(b.onEnd) {
		err := joint.Err()
		_ = joint.Release(context.Background()) // otherwise Close would wait for the leases on the nodes
		if errors.Is(err, exec.ErrClosed) {
			return nil, exec.ErrClosed
		}
		return nil, q.late(l)
	}
	if len(parts) < len(q.clients) && refill != nil {
		refill(joint)
	}
	return &lease{joint, l, round}, nil
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
		return &codec.NodeFence{Lock: p.NodeRef(), Token: token, Fence: fence}
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
