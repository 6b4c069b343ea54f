package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// hand is a goroutine that acquires and releases locks.
type hand struct {
	w      *World
	p      *incarnation
	number int
	rand   *rand.Rand
	locks  []*holdfast.Lock // by name
	wants  []want
	calm   bool
	joined int64 // when it last asked to be a latch's party
}

func newHand(w *World, p *incarnation, number int) *hand {
	h := &hand{w: w, p: p, number: number, rand: random(w.plan.seed, "hand", p.number, p.host, number), calm: w.plan.temper == Calm}
	h.wants = w.plan.processes[p.number].workers[number].wants
	for i, n := range w.plan.names {
		h.locks = append(h.locks, n.lock(p.client, h.wants[i]))
	}
	return h
}

// work uses one name after another in its bursts until the faults are over, and then each name once more.
func (h *hand) work() {
	for {
		i := 0 // mostly the first: the others are held for longer
		if chance(h.rand, 40) {
			i = h.rand.IntN(len(h.w.plan.names))
		}
		n := h.w.plan.names[i]
		since := time.Since(h.w.begun)
		burst := since.Truncate(n.every) + n.every + time.Duration(h.rand.Int64N(int64(n.spread)))
		if !h.sleep(burst - since) {
			break
		}
		for range n.turns {
			if !h.turn(i) {
				break
			}
		}
	}
	for i := range h.w.plan.names {
		if h.p.ctx.Err() != nil || h.wants[i].poll > 0 || h.gone() {
			return
		}
		h.attempt(i, h.p.ctx, false, lastly)
	}
}

// lastly is how a lock is acquired after the faults.
const lastly = "lastly waits"

// gone reports whether the client was closed.
func (h *hand) gone() bool { return h.w.incarnation(h.p.number) != h.p }

// sleep sleeps. It returns false if there is no more work.
func (h *hand) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return !h.gone()
	case <-h.w.draining:
		return false
	case <-h.p.ctx.Done():
		return false
	}
}

// turn acquires a lock once, in one way or another. It returns false if there is no more work.
func (h *hand) turn(i int) bool {
	ctx, way := h.p.ctx, "waits"
	try := chance(h.rand, 15)
	if try {
		way = "tries"
	}
	if chance(h.rand, 25) {
		n := h.w.plan.names[i]
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, between(h.rand, 100*time.Microsecond, max(time.Second, 4*n.hold[1])))
		defer cancel()
	}
	if len(h.w.plan.several) > 0 && slices.Contains(h.w.plan.several, i) && chance(h.rand, 25) {
		h.several(i, ctx, try)
	} else {
		h.attempt(i, ctx, try, way)
	}
	return h.sleep(between(h.rand, time.Millisecond, time.Second))
}

// attempt acquires a lock, holds it and releases it.
func (h *hand) attempt(i int, ctx context.Context, try bool, way string) {
	switch h.w.plan.names[i].form {
	case elected:
		h.campaign(i, ctx)
		return
	case onceOnly:
		h.job(i, ctx, try)
		return
	case latched:
		h.atLatch(i, ctx, way == lastly)
		return
	case gathered:
		h.atBarrier(i, ctx, try, way == lastly)
		return
	case agreed:
		h.ballot(i, ctx, try, way)
		return
	case carried:
		h.relay(i, ctx, try, way)
		return
	}
	e, begun := h.asks(i), time.Now()
	lease, err := acquire(h.locks[i], ctx, try)
	switch {
	case h.p.dead.Load():
	case err != nil:
		h.refused(e, i, ctx, try, err, fmt.Sprintf("%s %s", way, h.locks[i].Name()), begun)
	case h.have(e, i, lease, !try && h.wants[i].poll == 0):
		h.release(i, lease)
	}
}

// acquire acquires a lock, or tries to.
func acquire(l *holdfast.Lock, ctx context.Context, try bool) (*holdfast.Lease, error) {
	if try {
		return l.TryAcquire(ctx)
	}
	return l.Acquire(ctx)
}

// several acquires several names as one lock, in an order of its own, and holds them as one.
func (h *hand) several(i int, ctx context.Context, try bool) {
	var names []string
	var events []history.Event
	for _, k := range h.rand.Perm(len(h.w.plan.several)) {
		e := h.asks(h.w.plan.several[k])
		events, names = append(events, e), append(names, e.Name)
	}
	l := h.p.client.Multi(names, holdfast.TTL(h.wants[i].ttl))
	begun := time.Now()
	lease, err := acquire(l, ctx, try)
	if h.p.dead.Load() {
		return
	}
	if err != nil {
		for _, e := range events {
			e.GaveUp = h.now()
			h.w.record(e, false)
		}
		h.note("takes %s: %s after %s", l.Name(), brief(err), time.Since(begun))
		h.judgeRefusal(ctx, i, try, err, time.Since(begun))
		return
	}
	tokens := lease.Fences()
	granted, deadline := h.now(), h.at(lease.Deadline())
	h.note("%s: granted %v after %s", l.Name(), tokens, time.Since(begun))
	h.w.acquiredJointly(tokens)
	for _, k := range h.w.plan.several {
		h.believe(k, lease)
	}
	why := h.hold(i, lease)
	released := h.now()
	deadline = max(deadline, h.at(lease.Deadline()))
	for _, e := range events {
		e.Granted, e.Fence, e.Released, e.Deadline = granted, tokens[e.Name], released, deadline
		h.w.record(e, false)
	}
	if h.p.dead.Load() {
		return
	}
	h.note("%s: %s", l.Name(), why)
	h.release(i, lease)
}

// asks returns the record of an attempt that begins now.
func (h *hand) asks(i int) history.Event {
	return history.Event{Process: h.p.host, Goroutine: h.number, Name: h.w.plan.names[i].name, Share: h.wants[i].share, Asked: h.now()}
}

// refused records that an attempt failed.
func (h *hand) refused(e history.Event, i int, ctx context.Context, try bool, err error, what string, begun time.Time) {
	e.GaveUp = h.now()
	h.w.record(e, !try && h.wants[i].poll == 0)
	h.note("%s: %s after %s", what, brief(err), time.Since(begun))
	h.judgeRefusal(ctx, i, try, err, time.Since(begun))
}

// have holds a lease and records that. It returns false if the process crashed meanwhile.
func (h *hand) have(e history.Event, i int, lease *holdfast.Lease, queued bool) bool {
	return h.haveUntil(e, i, lease, queued, func(why string) string { return why })
}

// haveUntil holds a lease that end may end. end gets, and returns, why it is held no longer.
func (h *hand) haveUntil(e history.Event, i int, lease *holdfast.Lease, queued bool, end func(why string) string) bool {
	e.Granted, e.Fence, e.Deadline = h.now(), lease.Fence(), h.at(lease.Deadline())
	h.note("%s: granted %d after %s", lease.Name(), e.Fence, time.Duration(e.Granted-e.Asked))
	h.believe(i, lease)
	why := end(h.hold(i, lease))
	e.Released, e.Deadline = h.now(), h.at(lease.Deadline())
	h.w.record(e, queued)
	if h.p.dead.Load() {
		return false
	}
	h.note("%s: %s %d", lease.Name(), why, e.Fence)
	return true
}

// campaign leads for one term, or for another if the first was lost.
func (h *hand) campaign(i int, ctx context.Context) {
	e, begun := h.asks(i), time.Now()
	queued := h.wants[i].poll == 0
	led := false // since it last asked
	err := h.w.plan.names[i].election(h.p.client, h.wants[i]).Run(ctx, func(ctx context.Context, term *holdfast.Lease) error {
		if h.p.dead.Load() {
			return nil
		}
		led = true
		h.have(e, i, term, queued)
		if context.Cause(ctx) != nil && ctx.Err() != nil {
			e, begun, led = h.asks(i), time.Now(), false
		}
		return nil
	})
	switch {
	case h.p.dead.Load(), err == nil:
	case led: // the term was not given up as it should have been
		h.judgeRefusal(ctx, i, false, err, time.Since(begun))
	default:
		h.refused(e, i, ctx, false, err, "campaigns for "+h.locks[i].Name(), begun)
	}
}

// errJob is the error of a failed run.
var errJob = errors.New("the job failed")

// job runs a job, unless it was completed in its window.
func (h *hand) job(i int, ctx context.Context, try bool) {
	e, begun := h.asks(i), time.Now()
	o := h.w.plan.names[i].job(h.p.client, h.wants[i])
	do := o.Do
	if try {
		do = o.TryDo
	}
	fails, ran := chance(h.rand, 30), false
	r := jobRun{name: e.Name}
	got, err := do(ctx, func(ctx context.Context, lease *holdfast.Lease) (string, error) {
		if h.p.dead.Load() {
			return "", errJob
		}
		ran, r.begun = true, h.now()
		h.have(e, i, lease, false)
		r.ended = h.now()
		if fails || h.p.dead.Load() {
			return "", errJob
		}
		return "", nil
	})
	switch {
	case h.p.dead.Load():
	case !ran && errors.Is(err, holdfast.ErrLost): // before it could begin
		h.note("runs %s: lost at once", e.Name)
	case !ran && err != nil:
		h.refused(e, i, ctx, true, err, "runs "+e.Name, begun)
	case !ran:
		h.note("%s: done already, by %s", e.Name, got.Identity)
	case err == nil:
		r.told = h.now()
		fallthrough
	default:
		h.w.ran(r)
	}
}

// endedWith reports whether err says that ctx has ended. A context with the same deadline, from which err may be, can end
// before ctx does: both timers fire at one moment, one after the other.
func endedWith(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return errors.Is(err, ctx.Err())
	}
	deadline, bounded := ctx.Deadline()
	return bounded && !time.Now().Before(deadline) && errors.Is(err, context.DeadlineExceeded)
}

// judgeRefusal judges whether an acquire may have failed like this.
func (h *hand) judgeRefusal(ctx context.Context, i int, try bool, err error, took time.Duration) {
	switch {
	case endedWith(ctx, err):
		if context.Cause(ctx) == errStuck {
			h.w.finding("%s, goroutine %d: Acquire of %s: %v", h.p.owner, h.number, h.locks[i].Name(), errStuck)
		}
	case errors.Is(err, holdfast.ErrHeld) && (try || h.wants[i].poll > 0):
	case errors.Is(err, holdfast.ErrClosed) && h.gone():
	case errors.Is(err, holdfast.ErrUnavailable) && !h.calm:
	case errors.Is(err, holdfast.ErrUnavailable) && took >= h.wants[i].term()*99/100-2*time.Millisecond:
		// The round trip takes longer than the lease lasts.
	default:
		h.w.finding("%s, goroutine %d: Acquire of %s: %v", h.p.owner, h.number, h.locks[i].Name(), err)
	}
}

// hold holds a lease for a while, and returns why it stopped.
func (h *hand) hold(i int, lease *holdfast.Lease) (why string) {
	n := h.w.plan.names[i]
	until := time.Now().Add(between(h.rand, n.hold[0], n.hold[1]))
	done := lease.Done()
	look := chance(h.rand, 50)
	extend := chance(h.rand, 10)
	for {
		wait := time.Until(until)
		if look {
			wait = min(wait, between(h.rand, time.Millisecond, max(n.hold[1], time.Second)))
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-done:
			timer.Stop()
			if h.p.dead.Load() {
				return "crashed"
			}
			err := lease.Err()
			h.judgeLoss(i, lease, err)
			return brief(err)
		case <-h.w.draining:
			timer.Stop()
			return "released at the end"
		case <-h.p.ctx.Done():
			timer.Stop()
			return "crashed"
		}
		if !time.Now().Before(until) {
			return "released"
		}
		h.believe(i, lease)
		if extend {
			extend = false
			ttl := time.Duration(float64(h.wants[i].ttl) * extension * h.rand.Float64())
			if err := lease.Extend(h.p.ctx, max(ttl, time.Millisecond)); err != nil {
				h.note("%s: Extend of %d by %s: %s", lease.Name(), lease.Fence(), ttl, brief(err))
			}
			if h.p.dead.Load() {
				return "crashed"
			}
			h.believe(i, lease)
		}
	}
}

// said reports whether the server said that the lease was lost.
func said(lost *holdfast.LostError) bool {
	return lost.Reason == holdfast.LossTaken || lost.Reason == holdfast.LossDeleted || lost.Reason == holdfast.LossSuperseded
}

// judgeLoss judges whether a lease may have ended by itself.
func (h *hand) judgeLoss(i int, lease *holdfast.Lease, err error) {
	var lost *holdfast.LostError
	switch {
	case errors.As(err, &lost):
		h.w.count("lost: " + string(lost.Reason))
		// Of a quorum's nodes, the one that is missed last may have lost its data.
		if said(lost) && h.w.plan.temper != Wild && !h.expellable(i) && (h.calm || len(h.p.ways) == 1) {
			h.w.finding("%s: the server took %s with fence %d away", h.p.owner, lease.Name(), lease.Fence())
		}
	case errors.Is(err, holdfast.ErrClosed) && (h.gone() || h.number >= 100 && h.w.isDraining()): // it acts for a process that ends without it
	default:
		h.w.finding("%s: the lease of %s with fence %d ended: %v", h.p.owner, lease.Name(), lease.Fence(), err)
	}
}

// believe compares what the holder believes with the server: while Err is nil, the lock is the holder's there,
// and lasts longer than its deadline.
func (h *hand) believe(i int, lease *holdfast.Lease) {
	if h.w.plan.temper == Wild || lease.Err() != nil || h.expellable(i) {
		return
	}
	if h.w.plan.names[i].form == agreed {
		h.believeMajority(i, lease)
		return
	}
	kept, value := h.w.holdOf(i, lease.Identity())
	left := time.Until(lease.Deadline())
	switch {
	case left <= 0:
	case kept <= 0:
		h.w.finding("%s believes for %s more to hold %s with fence %d; the server has %q", h.p.owner, left, lease.Name(), lease.Fence(), value)
	case time.Duration(float64(kept)/h.w.plan.rate) < left:
		h.w.finding("%s believes for %s more to hold %s with fence %d; the server keeps it for %s", h.p.owner, left, lease.Name(), lease.Fence(), kept)
	}
}

// release releases a lease: usually once, sometimes with a context that has ended.
func (h *hand) release(i int, lease *holdfast.Lease) error {
	ctx := context.Background()
	if chance(h.rand, 20) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		ctx = ended
	}
	_, err := h.end(i, lease, "Release", func() error { return lease.Release(ctx) })
	if h.p.dead.Load() {
		return err
	}
	if chance(h.rand, 5) {
		_ = lease.Release(ctx)
	}
	return err
}

// end ends a lease, and judges whether that may have failed as it did. again is true if it may be tried again.
func (h *hand) end(i int, lease *holdfast.Lease, what string, end func() error) (again bool, err error) {
	held, deadline := lease.Err() == nil, lease.Deadline()
	err = end()
	held = held && time.Now().Before(deadline)
	if h.p.dead.Load() {
		return false, err
	}
	if err != nil {
		h.note("%s: %s of %d: %s", lease.Name(), what, lease.Fence(), brief(err))
	}
	switch {
	case err == nil, errors.Is(err, holdfast.ErrLost) && (!held || h.expellable(i)), h.w.plan.temper == Wild:
		return false, err
	case h.calm, !errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, holdfast.ErrLost):
		h.w.finding("%s: %s of %s with fence %d: %v", h.p.owner, what, lease.Name(), lease.Fence(), err)
		return false, err
	}
	return true, err
}

func (h *hand) note(format string, args ...any) { h.w.note(h.p.host, h.number, format, args...) }

func (h *hand) now() int64           { return h.at(time.Now()) }
func (h *hand) at(t time.Time) int64 { return h.w.at(t) }

// brief returns an error's first words, which are the same for every process that runs this world.
func brief(err error) string {
	var held *holdfast.HeldError
	if errors.As(err, &held) {
		return fmt.Sprintf("held by %q for %s", held.Holder.Identity, held.Holder.TTL)
	}
	if errors.Is(err, holdfast.ErrUnavailable) {
		return "unavailable" // of two timeouts at the same moment, either may be reported
	}
	return err.Error()
}
