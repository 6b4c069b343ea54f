package engine

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// What follows lets package holdfasttest do to a client what otherwise only time does.

// Suspend makes the client start nothing by itself until resume, as in a process that is suspended: clocks run on, but
// nothing is renewed, and no lease ends by its deadline. Whatever became due meanwhile has begun when resume returns. The
// driver has to hold back what is under way.
func (c *Client) Suspend() (resume func()) { return c.schedule.Hold() }

// Starve makes the client stop renewing its leases of a lock, so that they end at their deadlines. left returns
// how long the server keeps the longest of them, about; 0 if all are past their deadlines. It is nil if the client has no
// lease of the lock.
func (c *Client) Starve(name string) (left func() time.Duration) {
	starved := c.holdsOf(name)
	if starved == nil {
		return nil
	}
	for _, h := range starved {
		h.setBounds(bounds{maxRenewals: -1, since: clock.Now()})
	}
	return func() (longest time.Duration) {
		for _, h := range starved {
			longest = max(longest, h.left())
		}
		return longest
	}
}

// GrantsOf returns the grant ids by which the client holds a lock. It is nil if the client has no lease of the lock.
func (c *Client) GrantsOf(name string) (ids []string) {
	for _, h := range c.holdsOf(name) {
		ids = append(ids, h.grant().id)
	}
	return ids
}

// holdsOf returns the client's live holds of a lock.
func (c *Client) holdsOf(name string) (holds []*hold) {
	for _, h := range c.scheduledHolds() {
		if h.l.Name() == name && h.isLive() {
			holds = append(holds, h)
		}
	}
	return holds
}

// left returns how long the server keeps the hold unless it is renewed, about; 0 if the hold is over or has expired.
func (h *hold) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	remaining := h.remainingAt(clock.Now())
	if h.state == over || remaining <= 0 {
		return 0
	}
	return remaining + 2*drift(h.valid) // more than the hold's deadline was brought forward by
}
