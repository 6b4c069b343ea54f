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
func (g *grant) gathers() bool {
	return g.l.plain() && g.l.set.maxHold == 0 && !g.l.c.cfg.Strict && !g.l.set.isDurable()
}

// renewable reports whether the next renewal of the grant can be. Guarded by the grant.
func (g *grant) renewable() bool { return g.gathers() && g.fencesWanted() == 0 }

// errPutOff is met by renewals behind many that are not answered.
var errPutOff = fmt.Errorf("%w: the renewals before it hang", driver.ErrNotSent)

// putOff has renewals tried again later: by themselves they would be thousands, for a server that has
// not answered the others yet.
func putOff(all []*grant) {
	for _, g := range all {
		g.mu.Lock()
		g.queued = false
		g.land()
		if g.state.takesRenewals() {
			now := clock.Now()
			g.renewed(now, now, errPutOff)
		}
		g.mu.Unlock()
	}
}

// renewTogether has the grant renewed with others that go to the same server, if it can be, or by itself.
// Guarded by the grant.
func (g *grant) renewTogether() {
	all, known := g.l.c.gathering(g.l)
	if known && g.renewable() {
		all.renewals.Add(g)
		return
	}
	g.l.c.singly(g.l).Run(g.renew)
}

// singly is who sends what goes to the server of a lock by itself. A server that hangs keeps its own busy, and no
// other's.
func (c *Client) singly(l *Lock) *exec.Limiter {
	if all, known := c.gathering(l); known {
		return &all.singles
	}
	return &c.singles
}

// renewAll sends renewals.
func (c *Client) renewAll(all []*grant) (answered bool) {
	live := all[:0]
	for _, g := range all {
		g.mu.Lock()
		g.queued = false
		if !g.state.takesRenewals() {
			g.land()
		} else {
			live = append(live, g)
		}
		g.mu.Unlock()
	}
	if len(live) == 0 {
		return false
	}
	return exec.SendAll(c.server, live, c.renewing, c.keep)
}

// renewing is the batch that renews those grants.
func (c *Client) renewing(all []*grant) exec.Batch {
	l := all[0].l
	keys := make([]string, 0, len(all))
	heads := make([]byte, 0, len(all)*(len(all[0].from.head)+17)) // in one piece of memory
	ends := make([]int, 0, len(all))
	differing := all[:1]
	for _, g := range all {
		g.mu.Lock()
		keys = append(keys, g.l.keys.Lock)
		heads = append(strconv.AppendUint(append(heads, g.from.head...), g.fence, 10), ':')
		g.mu.Unlock()
		ends = append(ends, len(heads))
		if g.l.set.ttl != l.set.ttl {
			differing = all
		}
	}
	args := append(make([]string, 0, 2+len(all)), l.flags(""))
	text, begin := string(heads), 0
	for _, end := range ends {
		args = append(args, text[begin:end])
		begin = end
	}
	for _, g := range differing {
		args = append(args, milliseconds(g.l.set.ttl))
	}
	return exec.Batch{N: len(all), Slot: c.slot(l), Script: script.BatchRenew, Keys: keys, Args: args, Urgent: true, Word: "kept"}
}

// keep has grants take over what became of the batch that renewed them.
func (c *Client) keep(all []*grant, r exec.Outcomes) {
	answered := r.Err == nil || !exec.MayBeDone(r.Err) && !exec.RefusesAll(r.Err)
	now := r.Heard
	if r.Err != nil {
		now = clock.Now()
	}
	for i, g := range all {
		// What is refused together is not always refused by itself: keys and commands may be
		// forbidden to this user.
		g.mu.Lock()
		if !r.Done(i) && answered {
			g.queued = true
			c.singly(g.l).Run(g.renew)
			g.mu.Unlock()
			continue
		}
		g.land()
		if g.state.takesRenewals() {
			if r.Err == nil {
				g.failure = nil
				// mutants: kept-from
				g.prolong(r.Sent, now, g.l.set.ttl)
			}
			g.renewed(r.Sent, now, r.Err)
		}
		g.mu.Unlock()
	}
}
