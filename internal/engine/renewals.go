package engine

import (
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// canRenewInBatch reports whether renewals of the hold can go in a batch, if they reserve no
// fences.
func (h *hold) canRenewInBatch() bool {
	return h.l.plain() && h.l.set.maxHold == 0 && !h.l.c.cfg.Strict && !h.l.set.isDurable()
}

// nextRenewalFitsBatch reports whether the next renewal can go in a batch. The caller holds h.mu.
func (h *hold) nextRenewalFitsBatch() bool { return h.canRenewInBatch() && h.fencesWanted() == 0 }

// errPutOff is the error of a renewal that was not sent because many before it are unanswered.
var errPutOff = fmt.Errorf("%w: earlier renewals are unanswered", driver.ErrNotSent)

// putOff postpones renewals that no batch will send. Sent by themselves they could be thousands, to
// a server that has not answered the earlier ones.
func putOff(holds []*hold) {
	for _, h := range holds {
		h.mu.Lock()
		h.renewalQueued = false
		h.endRenewal()
		if h.state.takesRenewals() {
			now := clock.Now()
			h.renewed(now, now, errPutOff)
		}
		h.mu.Unlock()
	}
}

// renewTogether sends a renewal of the hold, in a batch if possible. The caller holds h.mu.
func (h *hold) renewTogether() {
	groups, known := h.l.c.groupsFor(h.l)
	if known && h.nextRenewalFitsBatch() {
		groups.renewals.Add(h)
		return
	}
	h.l.c.renewersFor(h.l).Run(h.renew)
}

// renewersFor returns the limiter of the renewals that are sent to l's server by themselves. Each
// server has its own, so one that hangs does not delay renewals to others.
func (c *Client) renewersFor(l *target) *exec.Limiter {
	if groups, known := c.groupsFor(l); known {
		return &groups.renewers
	}
	return &c.renewers
}

// sendRenewals sends a batch of the holds' renewals, but for those that are no longer wanted, and
// reports whether the server answered.
func (c *Client) sendRenewals(holds []*hold) (answered bool) {
	live := holds[:0]
	for _, h := range holds {
		h.mu.Lock()
		h.renewalQueued = false
		if !h.state.takesRenewals() {
			h.endRenewal()
		} else {
			live = append(live, h)
		}
		h.mu.Unlock()
	}
	if len(live) == 0 {
		return false
	}
	return exec.SendAll(c.server, live, c.renewBatch, c.applyRenewals)
}

// renewBatch returns the batch that renews holds.
func (c *Client) renewBatch(holds []*hold) exec.Batch[codec.BatchReply] {
	l := holds[0].l
	b := codec.NewBatchRenew(len(holds))
	b.Flags = l.flags()
	for _, h := range holds {
		h.mu.Lock()
		b.Add(h.l.keys.Lock, h.from.head, h.fence, h.l.set.ttl)
		h.mu.Unlock()
	}
	return exec.Batch[codec.BatchReply]{Slot: c.slot(l), Script: &b}
}

// applyRenewals gives holds the outcome of the batch that renewed them.
func (c *Client) applyRenewals(holds []*hold, r exec.Outcome[codec.BatchReply]) {
	answered := r.Err == nil || !exec.MayBeDone(r.Err) && !exec.RefusesAll(r.Err)
	now := r.Heard
	if r.Err != nil {
		now = clock.Now()
	}
	for i, h := range holds {
		// A renewal that was refused in a batch may succeed by itself: the server's ACL may
		// forbid this user the batch's script, or another item's key.
		h.mu.Lock()
		if !r.Reply.Done(i) && answered {
			h.renewalQueued = true
			c.renewersFor(h.l).Run(h.renew)
			h.mu.Unlock()
			continue
		}
		h.endRenewal()
		if h.state.takesRenewals() {
			if r.Err == nil {
				h.failure = nil
				// mutants: kept-from
				h.prolong(r.Sent, now, h.l.set.ttl)
			}
			h.renewed(r.Sent, now, r.Err)
		}
		h.mu.Unlock()
	}
}
