package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/transfer"
)

// carriage is a lock on its way to another holder.
type carriage struct {
	name     string
	ticket   transfer.Ticket
	from     int64 // when it was detached
	kept     int64 // the earliest time at which the server may drop it, as far as its bearers know
	until    int64 // the latest time at which the server drops it
	adopted  int64 // when it was first adopted; 0 if it was not
	doubtful bool  // an adoption was given up, or may go on beside another
	copies   int   // that others can still take
}

// put notes a ticket, of which others may find copies.
func (w *World) put(c *carriage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.carriages = append(w.carriages, c)
}

// take returns a copy of a ticket for the lock with that name; nil if there is none.
func (w *World) take(name string) *carriage {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.carriages {
		if c.name == name && c.copies > 0 {
			c.copies--
			return c
		}
	}
	return nil
}

// relay acquires a lock, or adopts one for which another has left a ticket, and then releases it or carries it to other
// processes.
func (h *hand) relay(i int, ctx context.Context, try bool, way string) {
	last := way == lastly
	var c *carriage
	if !last && chance(h.rand, 40) {
		c = h.w.take(h.w.plan.names[i].name)
	}
	if c != nil {
		c = h.adopt(i, ctx, c)
	} else {
		e, begun := h.asks(i), time.Now()
		lease, err := acquire(h.locks[i], ctx, try)
		switch {
		case h.p.dead.Load():
			return
		case err != nil:
			h.refused(e, i, ctx, try, err, fmt.Sprintf("%s %s", way, h.locks[i].Name()), begun)
			return
		}
		c = h.haveAndPassOn(e, i, lease, !try && h.wants[i].poll == 0, last)
	}
	for c != nil && h.w.sleepUntil(time.Since(h.w.begun)+between(h.rand, time.Millisecond, 2*time.Second)) {
		next := h.elsewhere()
		if next == nil {
			return
		}
		c = next.adopt(i, next.p.ctx, c)
	}
}

// elsewhere returns a goroutine of any process that is up, which this one may act for; nil if that process is down.
func (h *hand) elsewhere() *hand {
	p := h.w.incarnation(h.rand.IntN(len(h.w.plan.processes)))
	if p == nil {
		return nil
	}
	other := newHand(h.w, p, h.rand.IntN(len(h.w.plan.processes[p.number].workers)))
	other.number += 100
	other.rand = h.rand
	return other
}

// adopt adopts a lock, and releases or detaches it. It returns the next ticket, if there is one.
func (h *hand) adopt(i int, ctx context.Context, c *carriage) (next *carriage) {
	if chance(h.rand, 20) {
		h.prolong(i, ctx, c)
		if h.p.dead.Load() {
			return nil
		}
	}
	e, begun := h.asks(i), time.Now()
	lease, err := transfer.Adopt(ctx, h.p.client, c.ticket, h.wants[i].option())
	if h.p.dead.Load() {
		return nil
	}
	if err != nil {
		e.GaveUp = h.now()
		h.w.record(e, false)
		h.note("adopts %s: %s after %s", e.Name, brief(err), time.Since(begun))
		h.judgeTicket(i, ctx, c, err, begun)
		return nil
	}
	h.w.mu.Lock()
	twice := c.adopted != 0
	if !twice {
		c.adopted = h.now()
	}
	h.w.mu.Unlock()
	if twice && h.w.plan.temper != Wild {
		h.w.finding("%s, goroutine %d: %s was adopted twice by one ticket", h.p.owner, h.number, e.Name)
	}
	h.w.count("adopted")
	return h.haveAndPassOn(e, i, lease, false, false)
}

// prolong keeps a detached lock for longer.
func (h *hand) prolong(i int, ctx context.Context, c *carriage) {
	ttl := h.ticketTTL(i)
	begun := time.Now()
	h.w.mu.Lock()
	c.until = max(c.until, h.at(begun)+int64(h.w.plan.longest()))
	h.w.mu.Unlock()
	err := transfer.Extend(ctx, h.p.client, c.ticket, ttl)
	switch {
	case h.p.dead.Load():
	case err != nil:
		h.note("keeps %s: %s after %s", c.name, brief(err), time.Since(begun))
		h.judgeTicket(i, ctx, c, err, begun)
	default:
		h.w.mu.Lock()
		c.kept = max(c.kept, h.w.keptFrom(h.at(begun), ttl))
		h.w.mu.Unlock()
	}
}

// judgeTicket reports a ticket that must not have failed like this.
func (h *hand) judgeTicket(i int, ctx context.Context, c *carriage, err error, begun time.Time) {
	h.w.mu.Lock()
	c.doubtful = c.doubtful || errors.Is(err, holdfast.ErrAmbiguous)
	used, expired := c.adopted != 0 || c.doubtful, h.now() >= c.kept
	h.w.mu.Unlock()
	switch {
	case errors.Is(err, holdfast.ErrClosed) && h.w.isDraining():
	case !errors.Is(err, holdfast.ErrLost):
		h.judgeRefusal(ctx, i, false, err, time.Since(begun))
	case used, expired, h.w.plan.temper != Calm, h.expellable(i):
		h.w.count("ticket is used up")
	default:
		h.w.finding("%s, goroutine %d: a ticket for %s that nobody had used was good no more: %v", h.p.owner, h.number, c.name, err)
	}
}

// ticketTTL draws for how long a ticket is to last.
func (h *hand) ticketTTL(i int) time.Duration {
	return between(h.rand, time.Millisecond, extension*h.wants[i].ttl)
}

// keptFrom returns until when the server certainly keeps a lock that it was asked, then, to keep for ttl.
func (w *World) keptFrom(asked int64, ttl time.Duration) int64 {
	return asked + int64(float64(ttl)/w.plan.rate*0.98) - int64(2*time.Millisecond)
}

// haveAndPassOn holds a lease and then detaches or releases it. It returns the ticket, if there is one.
func (h *hand) haveAndPassOn(e history.Event, i int, lease *holdfast.Lease, queued, last bool) (c *carriage) {
	alive := h.haveUntil(e, i, lease, queued, func(why string) string {
		// After the faults everybody is to be served soon.
		if !last && !h.p.dead.Load() && !h.w.isDraining() && lease.Err() == nil && chance(h.rand, 60) {
			c, why = h.detach(i, lease)
		}
		return why
	})
	switch {
	case !alive:
		return nil
	case c == nil:
		h.release(i, lease)
		return nil
	}
	h.w.put(c)
	return c
}

// detach detaches a lease; it returns nil if there is no ticket. The lease is believed in until it returns.
func (h *hand) detach(i int, lease *holdfast.Lease) (c *carriage, why string) {
	ttl, begun := h.ticketTTL(i), time.Now()
	ctx := h.p.ctx
	if chance(h.rand, 15) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, between(h.rand, 100*time.Microsecond, time.Second))
		defer cancel()
	}
	ticket, err := transfer.Detach(ctx, lease, ttl)
	if h.p.dead.Load() {
		return nil, "crashed"
	}
	if err != nil {
		h.believe(i, lease) // it goes on, unless it was lost
		if lost := lease.Err(); lost != nil {
			h.judgeLoss(i, lease, lost)
		} else {
			h.judgeRefusal(ctx, i, false, err, time.Since(begun))
		}
		return nil, "not detached: " + brief(err)
	}
	if err := lease.Err(); !errors.Is(err, holdfast.ErrReleased) {
		h.w.finding("%s: a detached lease of %s with fence %d: %v", h.p.owner, lease.Name(), lease.Fence(), err)
	}
	h.w.count("detached")
	now := h.now()
	c = &carriage{name: h.w.plan.names[i].name, ticket: ticket, from: now}
	c.kept, c.until = h.w.keptFrom(h.at(begun), ttl), now+int64(h.w.plan.longest())
	if chance(h.rand, 30) {
		c.copies, c.doubtful = 1+h.rand.IntN(2), true
	}
	return c, "detached"
}

// transit returns when a lock was detached and not adopted yet.
func (w *World) transit(name string) (spans []span) {
	for _, c := range w.carriages {
		if c.name == name {
			to := c.until
			if c.adopted != 0 {
				to = c.adopted
			}
			spans = append(spans, span{c.from, to})
		}
	}
	return spans
}
