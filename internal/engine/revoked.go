package engine

import (
	"context"
	"log/slog"

	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// revocation records whether a holder was asked to let go, and tells those who want to know.
type revocation struct {
	asked bool
	told  chan struct{} // closed when it is asked; nil until somebody wants to know
}

// channel returns a channel that is closed when the holder is asked to let go.
func (r *revocation) channel() <-chan struct{} {
	if r.told == nil {
		r.told = make(chan struct{})
		if r.asked {
			close(r.told)
		}
	}
	return r.told
}

// ask notes that the holder is asked to let go, and closes the channel. It returns false if the holder was asked before.
func (r *revocation) ask() bool {
	if r.asked {
		return false
	}
	r.asked = true
	if r.told != nil {
		close(r.told)
	}
	return true
}

// Revoked implements Lease. The server knows one holder, so all leases of a hold are asked together, including later ones to which the lock
// is passed on.
func (l *holdLease) Revoked() <-chan struct{} {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	return l.g.revocation.channel()
}

// revoke asks the holder to let go, and tells observers and the log.
func (h *hold) revoke(said wire.Remark) {
	h.mu.Lock()
	if h.state == over || !h.hasLease() || !h.revocation.ask() {
		h.mu.Unlock()
		return
	}
	var joint []func(wire.Remark)
	for _, o := range h.observations() {
		if o.joint == nil {
			o.revoked(said)
		}
	}
	believed := h.hasBeliever()
	for l := range h.leases {
		if !l.over && l.revoked != nil {
			joint = append(joint, l.revoked)
		}
	}
	subject, fence := h.l.subject(), h.lease.fence
	h.mu.Unlock()
	h.flush()
	for _, tell := range joint {
		tell(said)
	}
	if believed {
		h.l.c.logRevocation(subject, fence, said)
	}
}

// Revoked implements Lease. The channel is closed when the holder of any part is asked to let go.
func (m *JointLease) Revoked() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revocation.channel()
}

// revoke is called when the holder of a part is asked to let go.
func (m *JointLease) revoke(said wire.Remark) {
	m.mu.Lock()
	asked := m.ended == nil && m.revocation.ask()
	observed := m.observed
	m.mu.Unlock()
	if !asked {
		return
	}
	observed.revoked(said)
	observed.flush()
	m.of.c.logRevocation(m.of.subject(), m.Token(), said)
}

// revoked queues the event that the holder was asked to let go.
func (o *observation) revoked(said wire.Remark) {
	if o != nil {
		o.add(o.c.Config.Observer.Revoked, lock.LeaseNews{By: said.By, Note: said.Reason})
	}
}

func (c *Client) logRevocation(s lock.Subject, fence uint64, said wire.Remark) {
	c.Logger().LogAttrs(context.Background(), slog.LevelInfo, "holdfast: holder asked to let go",
		slog.String("lock", s.Name), slog.Uint64("fence", fence), slog.String("identity", s.Owner),
		slog.String("by", said.By), slog.String("reason", said.Reason), slog.String("server", c.Server.Addr()))
}
