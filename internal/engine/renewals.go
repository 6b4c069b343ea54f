package engine

import (
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/script"
)

// gathers reports whether renewals of the grant that want no fences can be in a batch.
func (h *hold) canRenewInBatch() bool {
	return h.l.plain() && h.l.set.maxHold == 0 && !h.l.c.cfg.Strict && !h.l.set.isDurable()
}

// renewable reports whether the next renewal of the grant can be. Guarded by the grant.
func (h *hold) nextRenewalFitsBatch() bool { return h.canRenewInBatch() && h.fencesWanted() == 0 }

// errPutOff is met by renewals behind many that are not answered.
var errPutOff = fmt.Errorf("%w: the renewals before it hang", driver.ErrNotSent)

// putOff has renewals tried again later: by themselves they would be thousands, for a server that has
// not answered the others yet.
func putOff(all []*hold) {
	for _, h := range all {
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

// renewTogether has the grant renewed with others that go to the same server, if it can be, or by itself.
// Guarded by the grant.
func (h *hold) renewTogether() {
	groups, known := h.l.c.groupsFor(h.l)
	if known && h.nextRenewalFitsBatch() {
		groups.renewals.Add(h)
		return
	}
	h.l.c.renewersFor(h.l).Run(h.renew)
}

// singly is who sends what goes to the server of a lock by itself. A server that hangs keeps its own busy, and no
// other's.
func (c *Client) renewersFor(l *Lock) *exec.Limiter {
	if groups, known := c.groupsFor(l); known {
		return &groups.renewers
	}
	return &c.renewers
}

// renewAll sends renewals.
func (c *Client) sendRenewals(all []*hold) (answered bool) {
	live := all[:0]
	for _, h := range all {
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

// renewing is the batch that renews those grants.
func (c *Client) renewBatch(all []*hold) exec.Batch {
	l := all[0].l
	keys := make([]string, 0, len(all))
	heads := make([]byte, 0, len(all)*(len(all[0].from.head)+17)) // in one piece of memory
	ends := make([]int, 0, len(all))
	differing := all[:1]
	for _, h := range all {
		h.mu.Lock()
		keys = append(keys, h.l.keys.Lock)
		heads = append(strconv.AppendUint(append(heads, h.from.head...), h.fence, 10), ':')
		h.mu.Unlock()
		ends = append(ends, len(heads))
		if h.l.set.ttl != l.set.ttl {
			differing = all
		}
	}
	args := append(make([]string, 0, 2+len(all)), l.flags(""))
	text, begin := string(heads), 0
	for _, end := range ends {
		args = append(args, text[begin:end])
		begin = end
	}
	for _, h := range differing {
		args = append(args, milliseconds(h.l.set.ttl))
	}
	return exec.Batch{N: len(all), Slot: c.slot(l), Script: script.BatchRenew, Keys: keys, Args: args, Urgent: true, Word: "kept"}
}

// keep has grants take over what became of the batch that renewed them.
func (c *Client) applyRenewals(all []*hold, r exec.Outcomes) {
	answered := r.Err == nil || !exec.MayBeDone(r.Err) && !exec.RefusesAll(r.Err)
	now := r.Heard
	if r.Err != nil {
		now = clock.Now()
	}
	for i, h := range all {
		// What is refused together is not always refused by itself: keys and commands may be
		// forbidden to this user.
		h.mu.Lock()
		if !r.Done(i) && answered {
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
