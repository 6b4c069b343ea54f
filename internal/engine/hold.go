package engine

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/schedule"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// These bound what is under way at once.
const (
	maxRenewing = 256 // renewals to one server that are not in a batch
	maxFlying   = 8   // renewals of one hold
	maxCleanups = 16  // releases of lost leases: more of them would delay the renewals of others
)

// hold is a lock granted to one token. If goroutines of this process pass the lock on among themselves, the hold has one lease after
// another. It has several leases at once if readers share it, or if its holder acquires the lock again (Reentrant).
type hold struct {
	attempt // a copy of the attempt that was granted, which is no longer used
	queue   *waitQueue

	at int64 // server time of the reply that granted the lock, µs; 0 if not needed

	entry schedule.Entry

	mu            sync.Mutex
	anchor        clock.Instant // when the latest request that counts was sent; valid, renewAfter and age are relative to it
	valid         time.Duration // how long the hold lasts
	renewAfter    time.Duration // when to renew; 0 for never. Until firstLease: when the grant was heard
	age           time.Duration // about how old the hold was at the anchor
	flying        int8          // renewals under way
	renewalQueued bool          // one of them has not been sent yet

	state    state
	claim    bool // handed over for a short time, until the first renewal
	counted  bool // the hold is in Client.holds, which Close waits for
	final    bool // the server keeps the lock for as long as MaxHold allows
	extended bool // Extend asked for more than the lock's TTL
	kept     bool // the hold has a reference to its wait queue; guarded by queue.mu

	renewals     int32 // how many renewals countRenewal has counted
	reassertions int32 // how often the lock was claimed again after the server lost data
	passed       int32 // how often the lock was passed on within the process
	mostPasses   int32 // bound on passed

	lease     *holdLease    // the current lease
	first     holdLease     // its fence is the one in the lock's value; not a pointer, since every hold needs one: one allocation instead of two
	others    []*holdLease  // all leases besides the current one: other readers', or the same holder's
	nextFence uint64        // fence of the lease that gets the lock next
	fenceEnd  uint64        // end of the fences reserved for passing on, exclusive; 0 if none ever were
	failure   *exec.Failure // the latest renewal's error; nil after a success

	landed chan struct{} // closed when flying drops to 0; nil if nobody waits for that
	bounds *bounds       // nil means those of the lock's options, counted from the grant

	revocation revocation
	rumour     *wire.Remark // from a notice that the lock was broken; nil if there was none
}

// state is the stage of a hold's life. It decides what a release does.
type state uint8

const (
	held     state = iota // renewed until it is released; only now can it be passed on or joined
	changing              // becoming a reader's or a writer's, or being detached: not renewed, passed on or joined
	retired               // its leases have ended but are not all released: no longer renewed
	over                  // released or lost: at most its release has still to be sent
)

// takesRenewals reports whether a renewal's reply still counts.
func (s state) takesRenewals() bool { return s != changing && s != over }

// newHold returns a hold that lasts for valid from anchor on, and has block fences, of which fence is the first. age is how long before
// anchor the lock was granted; it is negative if the grant came later.
func newHold(a *attempt, anchor clock.Instant, age, valid time.Duration, fence uint64, block int64) *hold {
	a.l.c.Server.HasWritten()
	h := &hold{attempt: *a, anchor: anchor, age: age, valid: valid}
	h.first = holdLease{g: h, fence: fence}
	h.lease = &h.first
	h.mostPasses = int32(min(a.l.c.Config.LocalHandovers, math.MaxInt32/aloneFactor))
	if block > 1 {
		h.nextFence, h.fenceEnd = fence+1, fence+uint64(block)
	}
	if most := a.l.Set.MaxHold; most > 0 {
		h.final = most <= a.l.Set.TTL
		h.capHold()
	}
	return h
}

// firstLease starts the renewals and returns the first lease. That lease has ended already if the hold is over because the server has
// granted the lock again.
func (h *hold) firstLease() *holdLease {
	c := h.l.c
	h.mu.Lock()
	if h.state == over {
		h.mu.Unlock()
		return &h.first
	}
	c.holds.Begin()
	h.counted = true
	now := h.anchor.Add(h.renewAfter)
	switch {
	case h.claim && h.fencesWanted() > 0:
		// Begin to reserve fences before the lease can be released: its release waits for a renewal under way, and then passes the lock on.
		// mutants: fences-first
		h.startRenewal(now)
	case h.claim:
		h.renewAt(now.Add(min(confirmAfter, h.remainingAt(now)/16)))
	case h.canRenew():
		h.renewAt(h.renewalAfter(h.anchor, min(h.l.Set.TTL, h.valid)))
		if atomic.LoadUint32(&h.attempt.lead) != 0 && h.bound().maxRenewals < 0 { // so that others see the fence
			h.renewAfter = min(h.renewAfter, fenceAfter)
		}
	default:
		h.renewAfter = 0
	}
	h.plan(now)
	h.mu.Unlock()
	// mutants: notice-before-grant
	if until := c.notices.unmatchedUntil.Load(); until != 0 && until > int64(clock.Mono()) && c.notices.unmatched.has(h.grant()) {
		c.catchUpWithNotices() // a notice about the hold came before it began
	}
	// mutants: granted-during-close
	if c.IsClosing() {
		h.retire(exec.ErrClosed)
	}
	return &h.first
}

// nextLease makes the lease that has the lock from now on, with the next reserved fence. The caller holds h.mu.
func (h *hold) nextLease() *holdLease {
	h.lease = &holdLease{g: h, fence: h.nextFence}
	// mutants: next-fence
	h.nextFence++
	return h.lease
}

// join makes another lease, with that fence, that shares the lock. The caller holds h.mu.
func (h *hold) join(fence uint64) *holdLease {
	lease := &holdLease{g: h, fence: fence}
	h.others = append(h.others, lease)
	return lease
}

// hasFence reports whether a fence is reserved for passing the lock on.
func (h *hold) hasFence() bool { return h.nextFence < h.fenceEnd }

// lastFence returns the highest fence that was ever reserved for the hold.
func (h *hold) lastFence() uint64 {
	if h.fenceEnd == 0 {
		return h.first.fence
	}
	return h.fenceEnd - 1
}

// removeLease removes l if the hold has other leases, and reports whether it did. The caller holds h.mu.
func (h *hold) removeLease(l *holdLease) bool {
	// mutants: joined-release
	if len(h.others) == 0 {
		return false
	}
	others := h.others
	last := others[len(others)-1]
	if h.lease == l {
		h.lease = last
	} else {
		others[slices.Index(others, l)] = last
	}
	// mutants: joined-uncounted
	h.others = others[:len(others)-1]
	return true
}

// endLease ends one lease with err, because its JointLease has ended. The lease remains one of the hold's until it is released.
func (h *hold) endLease(l *holdLease, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == over {
		return
	}
	l.end(err)
	h.retireIfIdle()
}

// retireIfIdle retires the hold once all its leases have ended. The caller holds h.mu.
func (h *hold) retireIfIdle() {
	if h.hasLease() {
		return
	}
	if h.state != changing {
		h.state, h.claim = retired, false
	}
	h.renewAfter = 0
	h.plan(clock.Now())
}

// leases yields the current lease and the others. The caller holds h.mu.
func (h *hold) leases(yield func(*holdLease) bool) {
	if !yield(h.lease) {
		return
	}
	for _, l := range h.others {
		if !yield(l) {
			return
		}
	}
}

// hasLease reports whether the hold has a lease that has not ended. The caller holds h.mu.
func (h *hold) hasLease() bool {
	for l := range h.leases {
		if !l.over {
			return true
		}
	}
	return false
}

// hasBeliever reports whether the hold has a lease that has not ended and is not part of a JointLease. The caller holds h.mu.
func (h *hold) hasBeliever() bool {
	for l := range h.leases {
		if !l.over && l.joint == nil {
			return true
		}
	}
	return false
}

// endLeases ends all leases with err. The caller holds h.mu.
func (h *hold) endLeases(err error) {
	for l := range h.leases {
		l.end(err)
	}
}

// since returns the approximate local time of the grant.
func (h *hold) since() clock.Instant { return h.anchor.Add(-h.age) }

func (h *hold) expired(now clock.Instant) bool { return now.Sub(h.anchor) >= h.valid }

// deadline returns when the hold expires. It counts from now: the monotonic clock may have stood still since the anchor, while the machine
// was suspended.
func (h *hold) deadline(now clock.Instant) time.Time {
	return clock.Time(now.Mono + h.remainingAt(now))
}

// remaining returns how long the hold lasts unless it is renewed.
func (h *hold) remaining() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.remainingAt(clock.Now())
}

// remainingAt returns how long the hold lasts from now on unless it is renewed. The caller holds h.mu.
func (h *hold) remainingAt(now clock.Instant) time.Duration { return h.valid - now.Sub(h.anchor) }

// capHold makes the hold end when MaxHold does.
func (h *hold) capHold() {
	if b := h.bound(); b.maxHold > 0 {
		h.valid = min(h.valid, b.since.Add(b.maxHold).Sub(h.anchor))
	}
}

// expiry returns the error of a hold that has expired, which says why no renewal prolonged it. The caller holds h.mu.
func (h *hold) expiry() *lock.LostError {
	e := &lock.LostError{Name: h.l.Name(), Reason: lock.LossExpired}
	switch b, late := h.bound(), h.late(clock.Now()); {
	case h.failure != nil:
		e.Reason, e.Err = lock.LossUnreachable, h.failure
	case b.renew && (b.maxHold > 0 || b.maxRenewals >= 0) && !h.canRenew():
		e.Reason = lock.LossBound
	case late > 0:
		e.Err = fmt.Errorf("this process was late: a renewal was due %s ago", late.Round(time.Millisecond))
	case h.renewalQueued:
		e.Reason, e.Err = lock.LossUnreachable, h.l.c.Server.Failure("renew", h.l.Name(), errPutOff)
	}
	return e
}

// errPutOff is the error of a renewal that was not sent because many earlier ones are unanswered.
var errPutOff = fmt.Errorf("%w: earlier renewals are unanswered", driver.ErrNotSent)

// late returns how long ago a renewal was due, if this process failed to send it. It returns 0 if the renewal was sent, or if earlier
// renewals to the server are unanswered. The caller holds h.mu.
func (h *hold) late(now clock.Instant) time.Duration {
	past := now.Sub(h.anchor)
	if h.missed() {
		return past - h.renewAfter
	}
	unsent := h.state == held && (h.flying == 1 && h.renewalQueued || h.flying == 0 && h.failure != nil)
	due := min(h.l.Set.TTL, h.valid) / 3 // roughly
	if h.claim {
		due = confirmAfter
	}
	if !unsent || h.l.c.serverOf(h.l).hangs(clock.Time(h.anchor.Add(due).Mono)) {
		return 0
	}
	return past - due
}

// missed reports whether a renewal was due for at least the last quarter of an expired hold, and Due was not called. The caller holds h.mu.
func (h *hold) missed() bool {
	return h.state == held && h.renewAfter > 0 && h.canRenew() && h.valid-h.renewAfter >= h.valid/4
}

// missing returns the error of a hold that the server no longer knows, as that word of a reply says. If the deadline has passed by now, the
// lock may have been deleted or taken because it had expired, so the error is that of an expired hold. The caller holds h.mu.
func (h *hold) missing(word codec.Word) *lock.LostError {
	lost := h.l.Missing(word)
	if lost.Reason != lock.LossSuperseded && h.expired(clock.Now()) && h.rumour == nil {
		return h.expiry()
	}
	return lost
}

// lose ends the hold and its leases with err. In the background it releases what the server may still have. The caller holds h.mu.
func (h *hold) lose(err *lock.LostError) {
	err = h.explained(err)
	believed := h.hasBeliever()
	h.endLeases(err)
	h.stop()
	// mutants: tell-loss
	h.observeLoss(err)
	c := h.l.c
	subject, fence := h.l.subject(), h.lease.fence
	end := time.Now().Add(h.l.Set.Term()) // by then the lock has expired on the server
	c.Tasks.Run(func() {
		h.queue.release(h)
		// mutants: follower-of-lost
		h.queue.dismissFollower(h)
		c.cleanups.Run(func() {
			c.takeBack(h.l, codec.Release{Token: h.attempt.Token(), Member: h.attempt.member, Tombstone: h.attempt.unanswered}, hasDied, end)
			h.attempt.forget(false)
			h.uncount()
		})
		h.flush(err)
		if believed {
			c.LogLoss(subject, fence, err)
		}
	})
}

// retire ends the hold's leases with err, because the client closes. The server keeps the lock until the last lease is released or the lock
// expires.
func (h *hold) retire(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == over {
		return
	}
	h.endLeases(err)
	h.retireIfIdle()
}

// replacedBy ends h as lost, because the server has granted the lock to next, another hold of this process.
//
// If next has the lower fence, either its reply is late and it was granted before h, or the server has lost its data and its clock has gone
// back. Nobody here can tell which of the two still has the lock, so both are lost.
func (h *hold) replacedBy(next *hold) {
	if h.endAsTaken() && next.first.fence < h.first.fence {
		next.endAsTaken()
	}
}

// endAsTaken ends h as lost to another holder. It returns false if h was over already.
func (h *hold) endAsTaken() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == over {
		return false
	}
	h.lose(&lock.LostError{Name: h.l.Name(), Reason: lock.LossTaken})
	return true
}

// isLive reports whether h is not nil and not over.
func (h *hold) isLive() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state != over
}

// stop marks the hold as over and cancels its renewals. The caller holds h.mu.
func (h *hold) stop() {
	h.state = over
	h.l.c.schedule.Cancel(&h.entry)
}

// uncount removes the hold from those that Close waits for. Further calls do nothing.
func (h *hold) uncount() {
	h.mu.Lock()
	counted := h.counted
	h.counted = false
	h.mu.Unlock()
	if counted {
		h.l.c.holds.End()
	}
}
