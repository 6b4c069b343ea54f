package engine

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/schedule"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// heedAfter is how old a lease is when its client begins to listen to notices. Nobody breaks a younger one by hand, and programs with short
// leases need no subscription.
const heedAfter = time.Second

// fenceAfter is the greatest age of a lease at its first renewal, which writes the fence into the lock's value. The client listens by then,
// so it has been told if the lock was broken before.
const fenceAfter = 2 * heedAfter

// idleAfter is how often a client that listens checks whether it still has a lease.
const idleAfter = 30 * time.Second

// notices tell a client's holders that a lock was broken, or that they are asked to let go.
//
// Anyone who may publish can send a notice, and a notice can be lost. So a notice only makes the client read the journal, which says what
// is true. The client also reads the journal each time the subscription is confirmed.
type notices struct {
	listening atomic.Bool // the client listens, or is about to
	idle      schedule.Entry

	mu      sync.Mutex
	reading bool
	again   bool  // read the journal once more
	read    int64 // server time, µs, until which the journal was read; 0 if it was not

	// unmatched has the grants of recent notices that the client does not have: the reply that grants one may be on the way.
	unmatched      recent[grant]
	unmatchedUntil atomic.Int64 // the clock.Reading until which that may be so; 0 if there was no such notice
}

// grant identifies a hold of a lock: by the lock's key and the holder's grant id or, in Client.givenUp, the whole token.
type grant struct{ key, id string }

var grantSeed = maphash.MakeSeed()

func (g grant) hash() uint64 { return maphash.Comparable(grantSeed, g) }

// grant returns the grant by which notices and the journal name the hold.
func (h *hold) grant() grant { return grant{h.l.Keys.Lock, wire.GrantOf(h.attempt.Token())} }

// heed makes the client listen to notices for as long as it has leases. It may be called under any mutex.
func (c *Client) heed() {
	if c.notices.listening.Swap(true) {
		return
	}
	c.Tasks.Run(func() {
		l := c.notifier.Hear(notify.Channel{Name: c.Journal().Channel, Sharded: c.Server.InCluster()}, c.noticed, c.catchUpWithNotices)
		c.heedUntilIdle(l)
	})
}

// heedUntilIdle ends a listener some time after the client's last lease has ended.
func (c *Client) heedUntilIdle(l *notify.Listener) {
	c.schedule.Set(&c.notices.idle, clock.Mono()+idleAfter, schedule.Func(func() {
		// A lease that begins from now on makes the client listen again.
		c.notices.listening.Store(false)
		if len(c.scheduledHolds()) == 0 || c.notices.listening.Swap(true) { // true if another listener has come
			l.Leave()
			return
		}
		c.heedUntilIdle(l)
	}))
}

func (c *Client) noticed(payload string) {
	n, err := wire.ParseNotice(payload)
	if err != nil {
		return // a notice of an unknown version
	}
	if !c.tellHolds(n) {
		c.notices.unmatched.add(grant{n.Lock, n.Grant})
		c.notices.unmatchedUntil.Store(int64(clock.Mono() + missedFor))
		if !c.tellHolds(n) { // no such hold has begun meanwhile
			return
		}
	}
	c.catchUpWithNotices()
}

// tellHolds tells the client's holds what a notice says, and reports whether the notice is about one of them.
func (c *Client) tellHolds(n wire.Notice) (concerned bool) {
	for _, h := range c.scheduledHolds() {
		if h.grant() != (grant{n.Lock, n.Grant}) {
			continue
		}
		concerned = true
		if n.Broken {
			h.mu.Lock()
			// mutants: notice-only-asks
			h.rumour = &n.Note
			h.mu.Unlock()
		}
	}
	return concerned
}

// missedFor is the longest time by which a notice may precede the reply that grants the lock.
const missedFor = 10 * time.Second

// catchUpWithNotices reads, in the background, what the journal has for the client's holders.
func (c *Client) catchUpWithNotices() {
	n := &c.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reading {
		n.again = true
		return
	}
	n.reading = true
	c.Tasks.Run(func() {
		for {
			c.readNotices()
			n.mu.Lock()
			n.reading, n.again = n.again, false
			if !n.reading {
				n.mu.Unlock()
				return
			}
			n.mu.Unlock()
		}
	})
}

// These bound how far back the journal is read. The first reading goes back firstNotices from now. Later ones go back noticesAgain from the
// time until which it was read, in case a failover has set the server's clock back.
const (
	firstNotices = time.Hour
	noticesAgain = 10 * time.Second
)

// readNotices reads the journal once. It ignores errors: a holder learns of a break at its next renewal, and operators can ask again.
func (c *Client) readNotices() {
	ctx, cancel := context.WithTimeout(context.Background(), c.Config.RetryTimeout+c.Config.CommandTimeout)
	defer cancel()
	found := map[grant][]codec.Entry{}
	n := &c.notices
	n.mu.Lock()
	since := n.read - noticesAgain.Microseconds()
	n.mu.Unlock()
	latest := int64(0)
	err := c.ReadJournal(ctx, func(e codec.Entry) bool {
		if latest == 0 {
			latest = e.Time
			if since < 0 {
				since = c.Server.Time(0) - firstNotices.Microseconds()
			}
		}
		at := grant{e.Key, e.Grant}
		found[at] = append(found[at], e)
		return e.Time >= since
	})
	if err == nil {
		n.mu.Lock()
		n.read = max(n.read, min(latest, c.Server.Time(0))) // at most now: others write entries, and may give them any time
		n.mu.Unlock()
	}
	if len(found) == 0 {
		return
	}
	for _, h := range c.scheduledHolds() {
		for _, e := range found[h.grant()] {
			h.heed(e)
		}
	}
}

// heed acts on an entry of the journal about the hold.
func (h *hold) heed(e codec.Entry) {
	said := wire.ParseRemark(e.Note)
	switch e.What {
	case codec.WasBroken:
		h.mu.Lock()
		defer h.mu.Unlock()
		// mutants: heed-break
		if h.state != over {
			h.lose(&lock.LostError{Name: h.l.Name(), Reason: lock.LossBroken, By: said.By, Note: said.Reason})
		}
	case codec.WasRevoked:
		h.revoke(said)
	}
}

// explained returns the error of a loss, which says that the lock was broken if a notice said so.
func (h *hold) explained(err *lock.LostError) *lock.LostError {
	if h.rumour == nil || err.Reason != lock.LossTaken && err.Reason != lock.LossDeleted {
		return err
	}
	return &lock.LostError{Name: err.Name, Reason: lock.LossBroken, By: h.rumour.By, Note: h.rumour.Reason, Err: err.Err}
}

// revocation tells those who want to know that a holder was asked to let go.
type revocation struct {
	told chan struct{} // closed when it is asked; nil until somebody wants to know, or it is asked
}

// channel returns a channel that is closed when the holder is asked to let go.
func (r *revocation) channel() chan struct{} {
	if r.told == nil {
		r.told = make(chan struct{})
	}
	return r.told
}

// ask closes the channel. It returns false if the holder was asked before.
func (r *revocation) ask() bool {
	select {
	case <-r.channel():
		return false
	default:
		close(r.told)
		return true
	}
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
	var joint []*JointLease
	for _, o := range h.observations() {
		if o.joint == nil {
			o.revoked(said)
		}
	}
	believed := h.hasBeliever()
	for l := range h.leases {
		if !l.over && l.joint != nil {
			joint = append(joint, l.joint)
		}
	}
	subject, fence := h.l.subject(), h.lease.fence
	h.mu.Unlock()
	h.flush(nil)
	for _, m := range joint {
		m.revoke(said)
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
	m.mu.Unlock()
	if !asked {
		return
	}
	observed := m.observed.Load()
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
