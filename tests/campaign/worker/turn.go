package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/tests/history"
)

// routine is what one goroutine needs for its turns.
type routine struct {
	part     *part
	number   int
	random   *rand.Rand
	resource *resource
}

// chance is true in so many of a hundred cases.
func (r *routine) chance(percent int) bool { return r.random.IntN(100) < percent }

// want chooses how to ask.
func (r *routine) want() Want {
	wants := r.part.script.Wants
	sum := 0
	for _, w := range wants {
		sum += w.Weight
	}
	n := r.random.IntN(sum)
	for _, w := range wants {
		if n -= w.Weight; n < 0 {
			return w
		}
	}
	panic("unreachable")
}

// turn asks for a lock once, and uses it if it is granted.
func (r *routine) turn() {
	p := r.part
	w := r.want()
	ctx, cancel := p.context(r.number)
	defer cancel()
	if r.chance(p.script.Impatient) {
		defer time.AfterFunc(upTo(r.random, p.script.Patience), cancel).Stop()
	}
	a := p.record.Ask(r.number, w.Name)
	switch w.Share {
	case Reading:
		a.Share(1)
	case Permits:
		a.Share(w.Take)
	}
	lease, err := p.client().Acquire(ctx, w)
	if err != nil {
		a.GaveUp()
		if ctx.Err() == nil {
			p.say.line(FailureLine, Failure{"acquire", err.Error()})
		}
		return
	}
	fence := lease.Fence()
	deadline := lease.Deadline()
	a.Since(deadline.Add(-(w.TTL - w.TTL/100 - 2*time.Millisecond)))
	a.Granted(fence, deadline, 0)
	lost := r.hold(w, a, lease)
	if held, ok := lease.(Reentrant); ok && w.Again && !lost {
		lease, lost = r.again(w, a, lease, held)
	}
	a.Released(lease.Deadline())
	if lost {
		// Who does not look would write now. The resource has to refuse that, if
		// somebody else was there meanwhile.
		select {
		case <-time.After(upTo(r.random, w.TTL/4)):
		case <-p.draining:
		}
		r.access(w, fence, true, 0)
	}
	if err := lease.Release(ctx); err != nil {
		p.say.line(FailureLine, Failure{"release", err.Error()})
	}
}

// hold uses the guarded resource while the lease lasts, and reports whether it was
// lost.
func (r *routine) hold(w Want, a *history.Attempt, lease Lease) (lost bool) {
	p := r.part
	if p.isDraining() {
		return false
	}
	for d := upTo(r.random, p.script.Hold); ; d = 0 {
		held := history.Now()
		if lease.Err() != nil {
			return true
		}
		r.access(w, lease.Fence(), false, held)
		if r.chance(p.script.Overdue) {
			d = w.TTL + w.TTL/4
		}
		if r.chance(p.script.Extending) && !r.extend(w, a, lease) {
			return true
		}
		select {
		case <-time.After(d):
		case <-lease.Done():
		case <-p.draining:
		}
		held = history.Now()
		if lease.Err() != nil {
			return true
		}
		r.access(w, lease.Fence(), true, held)
		if lease.Err() != nil {
			return true
		}
		if !r.chance(20) {
			return false
		}
	}
}

// again acquires the lock again, gives one of the two leases up, and goes on with the other.
func (r *routine) again(w Want, a *history.Attempt, outer Lease, held Reentrant) (rest Lease, lost bool) {
	inner, err := held.Again()
	if err != nil {
		r.part.say.line(FailureLine, Failure{"acquire again", err.Error()})
		return outer, outer.Err() != nil
	}
	first, rest := inner, outer
	if r.chance(50) {
		first, rest = outer, inner
	}
	if err := first.Release(context.Background()); err != nil {
		r.part.say.line(FailureLine, Failure{"release", err.Error()})
	}
	return rest, r.hold(w, a, rest)
}

func (r *routine) extend(w Want, a *history.Attempt, lease Lease) bool {
	ctx, cancel := context.WithTimeout(context.Background(), w.TTL)
	defer cancel()
	if err := lease.Extend(ctx, w.TTL/2+upTo(r.random, w.TTL)); err != nil {
		r.part.say.line(FailureLine, Failure{"extend", err.Error()})
		return lease.Err() == nil
	}
	r.part.say.line(ExtendLine, Extension{w.Name, lease.Fence()})
	a.Extended(lease.Deadline())
	return true
}

// access reads or writes the guarded resource, as far as the holder may. The lease was held
// at some time after held; 0: it is known to be over.
func (r *routine) access(w Want, fence uint64, write bool, held int64) {
	if w.Share == Permits || w.Share == Reading && write {
		return
	}
	p, name := r.part, w.Name
	x := Access{ID: p.accesses.Add(1), Process: pid, Goroutine: r.number, Name: name, Fence: fence, Write: write, Held: held, Late: held == 0}
	if write {
		x.Value = uint64(pid)<<32 | x.ID
	}
	x.Call = history.Now()
	if err := r.resource.access(&x); err != nil {
		p.say.line(FailureLine, Failure{"resource", err.Error()})
		return
	}
	x.Return = history.Now()
	p.say.line(AccessLine, x)
}
