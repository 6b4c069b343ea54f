package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/schedule"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// heedAfter is how old a lease is when its client begins to listen to notices. Nobody breaks a younger one by hand, and
// programs whose leases are short need no subscription.
const heedAfter = time.Second

// idleAfter is how often the client looks whether it has a lease still, for which it listens.
const idleAfter = 30 * time.Second

// notices tell the holders of a client that a lock was broken, or that they are asked to let go.
//
// Whoever may publish can send a notice, and it can be missed. So a notice, and each time that the subscription is
// confirmed, only makes the client read the journal, which says what is true.
type notices struct {
	listening atomic.Bool // or about to
	idle      schedule.Entry

	mu      sync.Mutex
	reading bool
	again   bool  // the journal is to be read once more
	read    int64 // server time, µs, until which it was read; 0 if it was not

	// unmatched are notices about holds that the client does not have, but may be about to have, and when they were heard.
	unmatched    map[grant]time.Time
	hasUnmatched atomic.Bool
}

// grant is a lock's key, and the fence of a grant.
type grant struct {
	key   string
	fence uint64
}

// heed makes the client listen to notices for as long as it has leases. It may be called under any mutex.
func (c *Client) heed() {
	if c.notices.listening.Swap(true) {
		return
	}
	c.tasks.Run(func() {
		l := c.notifier.Hear(notify.Channel{Name: c.journal().Channel, Sharded: c.server.InCluster()}, c.noticed, c.catchUpWithNotices)
		c.heedUntilIdle(l)
	})
}

// heedUntilIdle ends a listener some time after the client's last lease.
func (c *Client) heedUntilIdle(l *notify.Listener) {
	c.schedule.Set(&c.notices.idle, clock.Mono().Add(idleAfter), schedule.Func(func() {
		// A lease that begins from now on has the client listen again.
		c.notices.listening.Store(false)
		switch {
		case !c.hasHold():
			l.Leave()
		case c.notices.listening.Swap(true): // another listener has come
			l.Leave()
		default:
			c.heedUntilIdle(l)
		}
	}))
}

// hasHold reports whether the client has a hold that is not over.
func (c *Client) hasHold() bool {
	return slices.ContainsFunc(c.schedule.Callers(), func(live schedule.Caller) bool {
		_, is := live.(*hold)
		return is
	})
}

// heedsBy returns when the hold is old enough for its client to listen to notices; false if the client does so already or
// never will.
func (h *hold) heedsBy() (clock.Reading, bool) {
	if h.l.c.notices.listening.Load() || h.l.set.pollInterval > 0 {
		return 0, false
	}
	return h.since.Mono.Add(heedAfter), true
}

// noticed handles a notice.
func (c *Client) noticed(payload string) {
	n, err := wire.ParseNotice(payload)
	if err != nil {
		return // a version that we do not know
	}
	// The second look finds a hold that has begun between the first and the note that it was missed.
	if c.tellHolds(n) || c.notices.miss(grant{n.Lock, n.Fence}) && c.tellHolds(n) {
		c.catchUpWithNotices()
	}
}

// tellHolds tells the client's holds what a notice says, and reports whether it has one that is meant.
func (c *Client) tellHolds(n wire.Notice) (concerned bool) {
	for _, live := range c.schedule.Callers() {
		if h, ok := live.(*hold); ok && h.hasFence(n.Lock, n.Fence) {
			concerned = true
			if n.Broken {
				h.mu.Lock()
				// mutants: notice-only-asks
				h.needMore().rumour = &n.Note
				h.mu.Unlock()
			}
		}
	}
	return concerned
}

const (
	// missedFor is how long a notice is remembered that came before the answer that grants the lock.
	missedFor = 10 * time.Second
	// mostMissed bounds how many are: anybody who may publish can send any number.
	mostMissed = 256
)

// miss remembers that there was no hold for a notice. It returns true.
func (n *notices) miss(of grant) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.unmatched, func(_ grant, heard time.Time) bool { return time.Since(heard) > missedFor })
	if n.unmatched == nil {
		n.unmatched = map[grant]time.Time{}
	}
	if len(n.unmatched) < mostMissed {
		n.unmatched[of] = time.Now()
	}
	n.hasUnmatched.Store(true)
	return true
}

// catchUpWithMissed reads the journal if there was a notice about the hold before it began.
func (h *hold) catchUpWithMissed() {
	n := &h.l.c.notices
	if !n.hasUnmatched.Load() {
		return
	}
	n.mu.Lock()
	_, missed := n.unmatched[grant{h.l.keys.Lock, h.ownFence()}]
	n.mu.Unlock()
	if missed {
		h.l.c.catchUpWithNotices()
	}
}

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
	c.tasks.Run(func() {
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

// How far back the journal is read: at first, and after that before the time until which it was read, in case a failover
// has set the server's clock back.
const (
	firstNotices = time.Hour
	noticesAgain = 10 * time.Second
)

// readNotices reads the journal once. An error does not matter: a holder whose lock was broken learns of it, at the latest,
// when it renews, and one that is only asked may be asked again.
func (c *Client) readNotices() {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.RetryTimeout+c.cfg.CommandTimeout)
	defer cancel()
	found := map[grant][]codec.Entry{}
	n := &c.notices
	n.mu.Lock()
	since := n.read - noticesAgain.Microseconds()
	n.mu.Unlock()
	latest := int64(0)
	err := c.readJournal(ctx, func(e codec.Entry) bool {
		if latest == 0 {
			latest = e.Time
			if since < 0 {
				since = c.server.Time(0) - firstNotices.Microseconds()
			}
		}
		at := grant{e.Key, e.Fence}
		found[at] = append(found[at], e)
		return e.Time >= since
	})
	if err == nil {
		n.mu.Lock()
		n.read = max(n.read, min(latest, c.server.Time(0))) // somebody can have written any time
		n.mu.Unlock()
	}
	if len(found) == 0 {
		return
	}
	for _, live := range c.schedule.Callers() {
		if h, ok := live.(*hold); ok {
			for _, e := range found[grant{h.l.keys.Lock, h.ownFence()}] {
				h.heed(e)
			}
		}
	}
}

// ownFence returns the fence in the lock's value.
func (h *hold) ownFence() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fence
}

// hasFence reports whether it is the hold with that fence, of the lock with that key.
func (h *hold) hasFence(key string, fence uint64) bool {
	return h.l.keys.Lock == key && h.ownFence() == fence
}

// heed does what an entry of the journal says.
func (h *hold) heed(e codec.Entry) {
	said := wire.ParseRemark(e.Note)
	switch e.What {
	case codec.WasBroken:
		h.mu.Lock()
		defer h.mu.Unlock()
		// mutants: heed-break
		if h.state != over && h.fence == e.Fence {
			h.lose(&LostError{Name: h.l.name, Reason: LossBroken, By: said.By})
		}
	case codec.WasRevoked:
		h.revoke(e.Fence, said)
	}
}

// explained returns the reason of a loss: if somebody is said to have broken the lock, this is why it is gone.
func (h *hold) explained(err *LostError) *LostError {
	if h.more == nil || h.more.rumour == nil || err.Reason != LossTaken && err.Reason != LossDeleted {
		return err
	}
	return &LostError{Name: err.Name, Reason: LossBroken, By: h.more.rumour.By, Err: err.Err}
}
