package engine

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// The rest of this file lets package holdfasttest do to a client what otherwise only time does.

// Suspend makes the client start nothing by itself until resume is called, as in a suspended process: clocks run on, but nothing is
// renewed, and no lease ends by its deadline. Whatever became due meanwhile has begun when resume returns. The driver has to hold back what
// is under way.
func (c *Client) Suspend() (resume func()) { return c.schedule.Hold() }

// Starve makes the client stop renewing its leases of a lock, so that they end at their deadlines. left returns roughly how long the server
// still keeps the longest of them; 0 if all are past their deadlines. left is nil if the client has no lease of the lock.
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

// GrantsOf returns the grant ids of the client's holds of a lock; nil if it has none.
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

// left returns roughly how long the server keeps the hold unless it is renewed; 0 if the hold is over or has expired.
func (h *hold) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	remaining := h.remainingAt(clock.Now())
	if h.state == over || remaining <= 0 {
		return 0
	}
	return remaining + 2*drift(h.valid) // more than drift has brought the deadline forward by
}
