package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/history"
)

// hand is a goroutine that takes and releases locks.
type hand struct {
	w      *World
	p      *incarnation
	number int
	rand   *rand.Rand
	locks  []*holdfast.Lock // by name
	wants  []want
	calm   bool
}

func newHand(w *World, p *incarnation, number int) *hand {
	h := &hand{w: w, p: p, number: number, rand: random(w.plan.seed, "hand", p.number, p.host, number), calm: w.plan.temper == Calm}
	h.wants = w.plan.processes[p.number].workers[number].wants
	for i, n := range w.plan.names {
		h.locks = append(h.locks, n.lock(p.client, h.wants[i]))
	}
	return h
}

// work takes one name after another in its bursts, until the faults are over; and then
// each once more.
func (h *hand) work() {
	for {
		i := 0 // mostly: the others are held for longer
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
		h.attempt(i, h.p.ctx, false, "")
	}
}

// gone reports whether the client was closed.
func (h *hand) gone() bool { return h.w.incarnation(h.p.number) != h.p }

// sleep sleeps; false when there is no more work.
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

// turn takes a lock once, in one way or another; false when there is no more work.
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
	h.attempt(i, ctx, try, way)
	return h.sleep(between(h.rand, time.Millisecond, time.Second))
}

// attempt takes a lock, holds it and releases it.
func (h *hand) attempt(i int, ctx context.Context, try bool, way string) {
	l := h.locks[i]
	e := history.Event{Process: h.p.host, Goroutine: h.number, Name: l.Name(), Share: h.wants[i].share, Asked: h.now()}
	begun := time.Now()
	var lease *holdfast.Lease
	var err error
	if try {
		lease, err = l.TryAcquire(ctx)
	} else {
		lease, err = l.Acquire(ctx)
	}
	if h.p.dead.Load() {
		return
	}
	if err != nil {
		e.GaveUp = h.now()
		h.w.record(e, !try && h.wants[i].poll == 0)
		h.note("%s %s: %s after %s", way, l.Name(), brief(err), time.Since(begun))
		h.judgeRefusal(ctx, i, try, err, time.Since(begun))
		return
	}
	e.Granted, e.Fence, e.Deadline = h.now(), lease.Token(), h.at(lease.Deadline())
	h.note("%s %s: granted %d after %s", way, l.Name(), e.Fence, time.Since(begun))
	h.believe(i, lease)
	why := h.hold(i, lease)
	e.Released, e.Deadline = h.now(), h.at(lease.Deadline())
	h.w.record(e, !try && h.wants[i].poll == 0)
	if h.p.dead.Load() {
		return
	}
	h.note("%s: %s %d", l.Name(), why, e.Fence)
	h.release(i, lease)
}

// judgeRefusal finds out whether an acquire may have failed like this.
func (h *hand) judgeRefusal(ctx context.Context, i int, try bool, err error, took time.Duration) {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		if context.Cause(ctx) == errStuck {
			h.w.finding("%s, goroutine %d: Acquire of %s: %v", h.p.owner, h.number, h.locks[i].Name(), errStuck)
		}
	case errors.Is(err, holdfast.ErrHeld) && (try || h.wants[i].poll > 0):
	case errors.Is(err, holdfast.ErrClosed) && h.gone():
	case errors.Is(err, holdfast.ErrUnavailable) && !h.calm:
	case errors.Is(err, holdfast.ErrUnavailable) && took >= h.wants[i].term()*99/100-2*time.Millisecond:
		// The way there and back takes longer than the lease lasts.
	default:
		h.w.finding("%s, goroutine %d: Acquire of %s: %v", h.p.owner, h.number, h.locks[i].Name(), err)
	}
}

// hold holds a lease for a while, and says why no longer.
func (h *hand) hold(i int, lease *holdfast.Lease) (why string) {
	n := h.w.plan.names[i]
	until := time.Now().Add(between(h.rand, n.hold[0], n.hold[1]))
	done := lease.Context().Done()
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
			h.judgeLoss(lease, err)
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
				h.note("%s: Extend of %d by %s: %s", lease.Name(), lease.Token(), ttl, brief(err))
			}
			if h.p.dead.Load() {
				return "crashed"
			}
			h.believe(i, lease)
		}
	}
}

// judgeLoss finds out whether a lease may have ended by itself.
func (h *hand) judgeLoss(lease *holdfast.Lease, err error) {
	var lost *holdfast.LostError
	switch {
	case errors.As(err, &lost):
		h.w.count("lost: " + string(lost.Reason))
		if lost.Reason == holdfast.LossTaken && h.w.plan.temper != Wild {
			h.w.finding("%s: the server took %s with fence %d away", h.p.owner, lease.Name(), lease.Token())
		}
	case errors.Is(err, holdfast.ErrClosed) && h.gone():
	default:
		h.w.finding("%s: the lease of %s with fence %d ended: %v", h.p.owner, lease.Name(), lease.Token(), err)
	}
}

// believe compares what the holder believes with what the server has: while Err is
// nil, the lock is the holder's there, and for longer than its deadline.
func (h *hand) believe(i int, lease *holdfast.Lease) {
	if h.w.plan.temper == Wild || lease.Err() != nil {
		return
	}
	kept, value := h.w.holdOf(i, lease.Owner())
	left := time.Until(lease.Deadline())
	switch {
	case left <= 0:
	case kept <= 0:
		h.w.finding("%s believes for %s more to hold %s with fence %d; the server has %q", h.p.owner, left, lease.Name(), lease.Token(), value)
	case time.Duration(float64(kept)/h.w.plan.rate) < left:
		h.w.finding("%s believes for %s more to hold %s with fence %d; the server keeps it for %s", h.p.owner, left, lease.Name(), lease.Token(), kept)
	}
}

// release releases a lease: mostly once, sometimes with a context that has ended.
func (h *hand) release(i int, lease *holdfast.Lease) {
	ctx := context.Background()
	if chance(h.rand, 20) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		ctx = ended
	}
	held, deadline := lease.Err() == nil, lease.Deadline()
	err := lease.Release(ctx)
	held = held && time.Now().Before(deadline)
	if h.p.dead.Load() {
		return
	}
	if err != nil {
		h.note("%s: Release of %d: %s", lease.Name(), lease.Token(), brief(err))
	}
	switch {
	case err == nil, errors.Is(err, holdfast.ErrLost) && !held, h.w.plan.temper == Wild:
	case h.calm, !errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, holdfast.ErrLost):
		h.w.finding("%s: Release of %s with fence %d: %v", h.p.owner, lease.Name(), lease.Token(), err)
	}
	if chance(h.rand, 5) {
		_ = lease.Release(ctx)
	}
}

func (h *hand) note(format string, args ...any) { h.w.note(h.p.host, h.number, format, args...) }

// now is the time since the world began, in ns, and above 0.
func (h *hand) now() int64           { return h.at(time.Now()) }
func (h *hand) at(t time.Time) int64 { return int64(t.Sub(h.w.begun)) + 1 }

// brief is an error's first words, the same for every process that runs this world.
func brief(err error) string {
	var held *holdfast.HeldError
	if errors.As(err, &held) {
		return fmt.Sprintf("held by %q for %s", held.Holder.Owner, held.Holder.TTL)
	}
	if errors.Is(err, holdfast.ErrUnavailable) {
		return "unavailable" // of two timeouts at one moment, either may be told of
	}
	return err.Error()
}
