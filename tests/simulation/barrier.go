package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
)

type await struct {
	party            *party
	called, returned int64
	how              outcome
	phase            uint64
	breaker          string // the party whose end has broken it
	died             bool   // it died; otherwise it left
}

// outcome is how a phase ended for a party.
type outcome string

const (
	hasTripped outcome = "tripped"
	hasBroken  outcome = "broken"
	isOpen     outcome = ""
)

// stay says for how long a party stays at a barrier.
type stay int

const (
	passes  stay = iota // for some phases
	finally             // until all have passed one more phase with it
	attends             // until its context ends
)

func (h *hand) barrier(i int) *barrier.Barrier {
	n := h.w.plan.names[i]
	return barrier.New(h.p.client, n.name, n.parties, h.wants[i].option())
}

// atBarrier acts as a party for a while, or as one that dies.
func (h *hand) atBarrier(i int, ctx context.Context, try, last bool) {
	switch {
	case last:
		h.party(i, ctx, false, finally)
	case chance(h.rand, 15):
		h.dieAtBarrier(i, ctx)
	default:
		h.party(i, ctx, try, passes)
	}
}

func (h *hand) enter(i int, ctx context.Context, try bool) (*party, *barrier.Party, error) {
	q := h.joins(i)
	b := h.barrier(i)
	join := b.Join
	if try {
		join = b.TryJoin
	}
	p, err := join(ctx)
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	now := h.now()
	switch {
	case h.p.dead.Load():
		q.gone = now + h.lasts(h.wants[i].ttl)
	case err == nil:
		q.granted = now
	}
	return q, p, err
}

// party joins the barrier, and arrives at phase after phase.
func (h *hand) party(i int, ctx context.Context, try bool, how stay) {
	e, began := h.asks(i), time.Now()
	q, p, err := h.enter(i, ctx, try)
	if h.p.dead.Load() {
		return
	}
	if err != nil {
		h.refused(e, i, ctx, try, err, "joins "+e.Name, began)
		return
	}
	e.Granted, e.Fence, e.Deadline = q.granted, p.Lease().Fence(), h.at(p.Lease().Deadline())
	h.note("%s: granted %d after %s", e.Name, e.Fence, time.Since(began))
	h.believe(i, p.Lease())
	h.arrives(i, ctx, q, p, how)
	h.ends(q, p.Lease())
	e.Released, e.Deadline = h.now(), h.at(p.Lease().Deadline())
	h.w.record(e, !try)
	if h.p.dead.Load() {
		h.w.mu.Lock()
		q.gone = h.now() + h.lasts(h.wants[i].ttl)
		h.w.mu.Unlock()
		return
	}
	h.note("%s: leaves, %d", e.Name, e.Fence)
	h.w.mu.Lock()
	q.left = h.now()
	h.w.mu.Unlock()
	err = h.release(i, p.Lease())
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if err == nil {
		q.gone = h.now()
	}
}

// arrives awaits phases.
func (h *hand) arrives(i int, ctx context.Context, q *party, p *barrier.Party, how stay) {
	n := h.w.plan.names[i]
	for phases := 1 + h.rand.IntN(6); phases > 0; {
		if how == passes && !h.prepare(between(h.rand, n.hold[0], n.hold[1]), p.Lease()) {
			if err := p.Lease().Err(); err != nil && !h.p.dead.Load() {
				h.judgeLoss(i, p.Lease(), err)
			}
			return
		}
		if how == attends {
			time.Sleep(300 * time.Millisecond) // otherwise a barrier that waits for nobody would be passed all the time
		}
		until, cancel := ctx, context.CancelFunc(func() {})
		if how == passes && chance(h.rand, 25) {
			until, cancel = context.WithTimeout(ctx, between(h.rand, 100*time.Microsecond, max(time.Second, 2*n.hold[1])))
		}
		err := h.await(i, until, q, p)
		cancel()
		switch {
		case h.p.dead.Load(), p.Lease().Err() != nil, ctx.Err() != nil:
			return
		case err == nil && how == finally:
			return
		case how == passes && (err == nil || errors.Is(err, barrier.ErrBroken)):
			phases--
		case how == passes && until.Err() != nil && chance(h.rand, 50):
			return
		case errors.Is(err, holdfast.ErrUnavailable):
			time.Sleep(time.Second)
		}
		h.believe(i, p.Lease())
	}
}

// prepare is a party's pause before it arrives. It returns false if the party is to leave.
func (h *hand) prepare(d time.Duration, lease *holdfast.Lease) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-lease.Done():
	case <-h.w.draining:
	case <-h.p.ctx.Done():
	}
	return false
}

// await arrives at a phase, and records what it is told.
func (h *hand) await(i int, ctx context.Context, q *party, p *barrier.Party) error {
	began := time.Now()
	a := await{party: q, called: h.now()}
	phase, err := p.Await(ctx)
	a.returned = h.now()
	var end *barrier.BrokenError
	what := "passed"
	switch {
	case h.p.dead.Load():
	case err == nil:
		a.how, a.phase = hasTripped, phase
	case errors.As(err, &end):
		a.how, a.phase, a.breaker, a.died = hasBroken, end.Phase, end.Party.Identity, end.Died
		what = "broken"
	default:
		what = brief(err)
		h.judgeStep(ctx, i, p.Lease(), err, began)
	}
	h.w.mu.Lock()
	h.w.crowd.awaits = append(h.w.crowd.awaits, a)
	h.w.mu.Unlock()
	if !h.p.dead.Load() {
		h.note("%s: %d awaits: %s, phase %d, after %s", p.Lease().Name(), p.Lease().Fence(), what, a.phase, time.Since(began))
	}
	return err
}

// dieAtBarrier makes a process die as a party, before or after it has arrived.
func (h *hand) dieAtBarrier(i int, ctx context.Context) {
	h.doomed(i, func(d *hand) (*party, *holdfast.Lease) {
		q, p, err := d.enter(i, ctx, false)
		if err != nil {
			return nil, nil
		}
		if chance(h.rand, 50) {
			d.p.idle.Go(func() { _ = d.await(i, d.p.ctx, q, p) })
		}
		return q, p.Lease()
	})
}

// visit is a party's way through one phase: the await that ended it, and earlier ones that it gave up.
type visit struct {
	party *party
	spans []span // in which the party may have arrived
	last  await
}

// visits returns what a barrier's parties did, each party's visits in order.
func (c *crowd) visits(n name, calm bool) []visit {
	byParty := map[*party][]await{}
	for _, a := range c.awaits {
		if a.party.name == n.name {
			byParty[a.party] = append(byParty[a.party], a)
		}
	}
	var all []visit
	for _, q := range c.parties {
		awaits := byParty[q]
		v := visit{party: q}
		for k, a := range awaits {
			end := a.returned
			if a.how == isOpen {
				// It is taken back some time later.
				end = q.gone
				if k+1 < len(awaits) {
					end = awaits[k+1].called
				}
				if calm && !q.died {
					end = min(end, a.returned+int64(maxIdle))
				}
			}
			v.spans, v.last = append(v.spans, span{a.called, end}), a
			if a.how != isOpen || k == len(awaits)-1 {
				all = append(all, v)
				v = visit{party: q}
			}
		}
	}
	return all
}

// atOnce returns the largest number of visits that may have been part of this one's phase at the same moment.
func (v visit) atOnce(all []visit) int {
	var others [][]span
	moments := []int64{}
	for _, s := range v.spans {
		moments = append(moments, s.from)
	}
	for _, o := range all {
		if o.party == v.party || o.last.how != isOpen && (o.last.how != v.last.how || o.last.phase != v.last.phase) {
			continue
		}
		others = append(others, o.spans)
		for _, s := range o.spans {
			moments = append(moments, s.from)
		}
	}
	within := func(spans []span, t int64) bool {
		return slices.ContainsFunc(spans, func(s span) bool { return s.from <= t && t <= s.to })
	}
	most := 0
	for _, t := range moments {
		if !within(v.spans, t) {
			continue
		}
		n := 1
		for _, o := range others {
			if within(o, t) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// atBarrier finds what a barrier must not do.
func (c *crowd) atBarrier(n name, calm bool) []string {
	var found []string
	tell := func(t int64, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: barrier %q of %d: ", time.Duration(t), n.name, n.parties)+fmt.Sprintf(format, args...))
	}
	all := c.visits(n, calm)
	slices.SortStableFunc(all, func(a, b visit) int { return int(a.spans[0].from - b.spans[0].from) })
	before := map[*party]await{}
	for k, v := range all {
		a, q := v.last, v.party
		if a.how == isOpen {
			continue
		}
		near := nearby(all, k)
		if a.how == hasTripped {
			if most := v.atOnce(near); most < n.parties {
				tell(a.returned, "%s passed phase %d although %d had arrived at most", q.owner, a.phase, most)
			}
		} else if since := max(q.asked, before[q].called); !c.ended(n, a, since) {
			tell(a.returned, "%s is told that %s has broken phase %d (died: %t), and it has not", q.owner, a.breaker, a.phase, a.died)
		}
		if b, ok := before[q]; ok && (a.phase <= b.phase || b.how == hasTripped && a.phase != b.phase+1) {
			tell(a.returned, "%s is told that phase %d is %s after phase %d was %s", q.owner, a.phase, a.how, b.phase, b.how)
		}
		before[q] = a
		for _, o := range near {
			if a.how == hasTripped && o.last.how == hasBroken && o.last.phase == a.phase && o.party.overlaps(q) {
				tell(a.returned, "phase %d is tripped for %s and broken for %s", a.phase, q.owner, o.party.owner)
			}
		}
	}
	if calm {
		c.sleepers(n, tell)
	}
	return found
}

// nearby returns the visits of parties that may have been there at the same time as that of all[k].
func nearby(all []visit, k int) []visit {
	var near []visit
	q := all[k].party
	for _, o := range all {
		if o.party != q && o.party.asked <= q.gone && o.party.gone >= q.asked {
			near = append(near, o)
		}
	}
	return near
}

// ended reports whether the breaker that an await names may have broken the phase since then. The breaker may
// not know that it was a party: it may have learned too late that it was handed its place.
func (c *crowd) ended(n name, a await, since int64) bool {
	for _, q := range c.parties {
		switch {
		case q.name != n.name || q.owner != a.breaker:
		case a.died && q.asked <= a.returned && (q.granted == 0 || q.granted >= since),
			q.left != 0 && q.left <= a.returned,
			a.died && q.ended != 0 && q.ended <= a.returned:
			return true
		}
	}
	return false
}

// sleepers finds, in a calm world, parties that await a phase which has ended.
func (c *crowd) sleepers(n name, tell func(t int64, format string, args ...any)) {
	const idle, deaf = int64(maxIdle), int64(maxDeaf)
	for _, a := range c.awaits {
		q := a.party
		if q.name != n.name || a.returned-a.called <= idle {
			continue
		}
		there := 1 // when this one came
		for _, o := range c.awaits {
			if o.party == q || o.party.name != n.name || !o.party.overlaps(q) {
				continue
			}
			if a.how == hasTripped && o.how == hasTripped && o.phase == a.phase && max(o.returned, a.called)+idle < a.returned {
				tell(a.returned, "%s was told of phase %d %s later than %s", q.owner, a.phase, time.Duration(a.returned-o.returned), o.party.owner)
			}
			if o.called <= a.called && o.returned > a.called+idle {
				there++
			}
		}
		if there >= n.parties {
			tell(a.returned, "%d had arrived, and %s awaited a phase for %s more", there, q.owner, time.Duration(a.returned-a.called))
		}
		for _, o := range c.parties {
			switch {
			case o == q || o.name != n.name || o.granted == 0:
			case o.left != 0 && o.gone != forever && o.overlaps(q) && a.called <= o.left && a.returned > o.gone+idle:
				tell(a.returned, "%s awaited a phase for %s after %s had left", q.owner, time.Duration(a.returned-o.gone), o.owner)
			case !o.died || !o.overlaps(q) || a.called > o.ended:
			case a.how == hasTripped && a.returned > o.gone+idle:
				tell(a.returned, "%s passed phase %d %s after the lease of %s was over, which had died", q.owner, a.phase, time.Duration(a.returned-o.gone), o.owner)
			case a.returned > o.gone+deaf+idle:
				tell(a.returned, "%s awaited a phase for %s after the lease of %s was over, which had died", q.owner, time.Duration(a.returned-o.gone), o.owner)
			}
		}
	}
}
