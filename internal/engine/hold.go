package engine

import (
	"context"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/schedule"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// maxRenewing bounds how many renewals are under way at once to one server by themselves, maxFlying
// how many of one grant. maxLeftovers is how many lost leases are taken back at once: all of
// many would keep the server from renewing the others.
const (
	maxRenewing = 256
	maxFlying   = 8
	maxCleanups = 16
)

// grant is a lock that the server gave to one token. Several leases may have it one
// after another: goroutines of this process pass it on among themselves.
type hold struct {
	l     *Lock
	from  *attempt
	queue *waitQueue // that it belongs to; nil if it was taken past all lines

	fence uint64 // in the lock's value: that of the first lease
	at    int64  // server time, µs, in the answer by which it was granted; 0 where that is not needed

	entry schedule.Entry

	mu            sync.Mutex
	lease         *Lease        // that has it now
	joined        *[]*Lease     // that have it, too: other readers', or acquired again by who has it; nil at first
	since         clock.Instant // about when it was granted
	anchor        clock.Instant // when the request was sent whose answer bounds it
	valid         time.Duration // from the anchor on
	next          uint64        // fence for the next lease
	end           uint64        // of the fences reserved
	renewAt       clock.Instant // zero when it is not to be renewed; before begin, when it was not over
	failure       *exec.Failure // of the latest renewal, nil once one succeeds
	landed        chan struct{} // closed when flying falls to 0; nil if nobody waits for that
	passed        int32         // times it was passed on
	mostPasses    int32         // times it may be
	renewals      int32         // times it was renewed
	flying        int8          // renewals under way
	renewalQueued bool          // one of them is not sent yet
	asserted      uint8         // times it was asked for again, after a loss of data

	unqueued bool // it is among Client.tried
	counted  bool // among those that Close waits for
	state    state
	before   state // while it is changing: what it was before
	final    bool  // MaxHold allows no more than it has
	extended bool  // past what the next lease of it would have, or that was asked for
	kept     bool  // it has a reference of its line; guarded by the line
}

// state is where a grant is in its life. What a release does follows from it.
type state uint8

const (
	claimed  state = iota // handed over for a short while; its first renewal makes it held
	held                  // renewed until it is released
	changing              // being made one of the other side: neither renewed, nor passed on, nor joined
	retired               // its leases are over, and the last of them is not released yet: not renewed any more
	over                  // released or lost: only a release is still sent
)

// isSteady reports whether leases of it may be passed on, joined and renewed.
func (s state) isSteady() bool { return s <= held }

// takesRenewals reports whether what a renewal brings is taken over.
func (s state) takesRenewals() bool { return s != changing && s != over }

// isClaim reports whether no renewal has confirmed it yet. Guarded by the grant.
func (h *hold) isClaim() bool {
	return h.state == claimed || h.state == changing && h.before == claimed
}

// confirmAfter is how long a lock that was handed over is held before its claim is made a lease.
// Holds that are shorter spare the server that command.
const confirmAfter = 5 * time.Millisecond

func newHold(a *attempt, since, anchor clock.Instant, valid time.Duration, fence uint64, block int64) *hold {
	a.l.c.server.HasWritten()
	h := &hold{l: a.l, state: held, from: a, since: since, anchor: anchor, valid: valid, fence: fence, next: fence, end: fence + uint64(max(block, 1)), mostPasses: int32(min(a.l.c.cfg.LocalHandovers, math.MaxInt32/aloneFactor))}
	h.final = a.l.set.maxHold > 0 && a.l.set.maxHold <= a.l.set.ttl
	h.capHold()
	return h
}

// isLate reports whether a grant that is made now is over already.
func (h *hold) isLate(now clock.Instant) bool {
	h.renewAt = now
	return h.expired(now)
}

// term is how long the server is to keep the lock from a request on.
func (s *settings) term() time.Duration {
	if s.maxHold > 0 {
		return min(s.ttl, s.maxHold)
	}
	return s.ttl
}

// passable reports whether a lease of these settings may be passed on locally: a
// bound of any kind belongs to one holder, and fences that were reserved would not rise
// from grant to grant where others have the lock, too.
func (s *settings) passable() bool { return s.kind.exclusive && s.unbounded() && !s.apart }

// unbounded reports whether leases are renewed for as long as they are held.
func (s *settings) unbounded() bool { return s.renew && s.maxHold == 0 && s.maxRenewals < 0 }

// begin starts renewing, and returns the first lease. Its context has ctx's values.
func (h *hold) begin(ctx context.Context) *Lease {
	c := h.l.c
	h.mu.Lock()
	lease := h.newLease(ctx)
	c.holds.Begin()
	h.counted = true
	now := h.renewAt
	switch {
	case h.state == claimed && h.fencesWanted() > 0: // at once
	case h.state == claimed:
		left := h.valid - now.Sub(h.anchor)
		h.renewAt = now.Add(min(confirmAfter, left/16))
	case h.canRenew():
		h.renewAt = h.renewalAfter(h.anchor, min(h.l.set.ttl, h.valid))
	default:
		h.renewAt = clock.Instant{}
	}
	h.planAt(now)
	h.mu.Unlock()
	// mutants: granted-during-close
	if c.isClosing() {
		h.retire(exec.ErrClosed)
	}
	return lease
}

// newLease makes the lease that has the grant from now on, with the next fence.
func (h *hold) newLease(ctx context.Context) *Lease {
	h.lease = &Lease{g: h, fence: h.next, origin: ctx}
	// mutants: next-fence
	h.next++
	return h.lease
}

// join makes another lease that has the grant, too, with that fence. Guarded by g.
func (h *hold) join(ctx context.Context, fence uint64) *Lease {
	lease := &Lease{g: h, fence: fence, origin: ctx}
	if h.joined == nil {
		h.joined = new([]*Lease)
	}
	*h.joined = append(*h.joined, lease)
	return lease
}

func (h *hold) isJoined() bool { return len(h.joinedLeases()) > 0 }

// others are the leases besides the one that has it now.
func (h *hold) joinedLeases() []*Lease {
	if h.joined == nil {
		return nil
	}
	return *h.joined
}

// part takes a lease out of a grant that others have, too; false if it is the only one.
// Guarded by g.
func (h *hold) removeLease(l *Lease) bool {
	// mutants: joined-release
	if !h.isJoined() {
		return false
	}
	others := *h.joined
	last := others[len(others)-1]
	if h.lease == l {
		h.lease = last
	} else {
		others[slices.Index(others, l)] = last
	}
	// mutants: joined-uncounted
	*h.joined = others[:len(others)-1]
	return true
}

// quit ends one of the grant's leases with that error, because what it is part of is over.
// The lease counts as having the grant until it is released.
func (h *hold) endLease(l *Lease, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == over {
		return
	}
	l.end(err)
	h.retireIfIdle()
}

// rest retires a grant of which no lease is left that is held. Guarded by g.
func (h *hold) retireIfIdle() {
	if h.hasLease() {
		return
	}
	if h.state != changing {
		h.state = retired
	}
	h.renewAt = clock.Instant{}
	h.plan()
}

// hasLease reports whether one of its leases is not over. Guarded by g.
func (h *hold) hasLease() bool {
	return h.lease.ended == nil || slices.ContainsFunc(h.joinedLeases(), func(l *Lease) bool { return l.ended == nil })
}

// finish ends all its leases.
func (h *hold) endLeases(err error) {
	h.lease.end(err)
	for _, l := range h.joinedLeases() {
		l.end(err)
	}
}

func (h *hold) expired(now clock.Instant) bool { return now.Sub(h.anchor) >= h.valid }

// deadline is when the grant is over, by the monotonic clock, which may have stood
// still for a while.
func (h *hold) deadline(now clock.Instant) clock.Reading {
	return now.Mono.Add(h.valid - now.Sub(h.anchor))
}

// capHold ends the grant where MaxHold does.
func (h *hold) capHold() {
	if bound := h.l.set.maxHold; bound > 0 {
		h.valid = min(h.valid, h.since.Add(bound).Sub(h.anchor))
	}
}

// canRenew reports whether a renewal would make it last longer.
func (h *hold) canRenew() bool {
	s := h.l.set
	switch {
	case h.isClaim():
		return true
	case !s.renew, s.maxRenewals >= 0 && int(h.renewals) >= s.maxRenewals:
		return false
	}
	return !h.final
}

// renewTTL is the TTL to ask for; final says that it is what MaxHold leaves.
func (h *hold) renewTTL(want time.Duration) (ttl time.Duration, final bool) {
	if s := h.l.set; s.maxHold > 0 {
		left := max(s.maxHold-clock.Since(h.since), time.Millisecond)
		return min(want, left), want >= left
	}
	return want, false
}

// plan has the scheduler call at the next renewal, or the deadline.
func (h *hold) plan() { h.planAt(clock.Now()) }

func (h *hold) planAt(now clock.Instant) {
	at := h.deadline(now)
	if !h.renewAt.IsZero() {
		at = min(at, now.Mono.Add(-now.Sub(h.renewAt)))
	}
	h.l.c.schedule.Set(&h.entry, at, h)
}

// Due is called by the scheduler.
func (h *hold) Due(now clock.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == over {
		return
	}
	// mutants: deadline-timer
	if h.expired(now) {
		h.lose(h.expiry())
		return
	}
	if !h.renewAt.IsZero() && now.Sub(h.renewAt) >= 0 {
		// If this one is not answered in time, another goes out: several fit into
		// what is left.
		left := h.valid - now.Sub(h.anchor)
		h.renewAt = now.Add(min(max(left/3, 50*time.Millisecond), h.l.c.cfg.CommandTimeout))
		if h.flying < maxFlying && !h.renewalQueued {
			h.flying++
			h.renewalQueued = true
			h.renewTogether()
		}
	}
	h.planAt(now)
	if h.l.c.isClosing() { // Close may have looked while the scheduler did not have it
		h.retireLocked(exec.ErrClosed)
	}
}

// expiry says why a grant whose time is up was not renewed.
func (h *hold) expiry() *LostError {
	e := &LostError{Name: h.l.name, Reason: LossExpired}
	switch s := h.l.set; {
	case h.failure != nil:
		e.Reason, e.Err = LossUnreachable, h.failure
	case h.renewalQueued:
		e.Reason, e.Err = LossUnreachable, &exec.Failure{Op: "renew", Name: h.l.name, Server: h.l.c.server.Addr(), Kind: exec.ErrUnavailable, Err: errPutOff}
	case s.renew && (s.maxHold > 0 || s.maxRenewals >= 0) && !h.canRenew():
		e.Reason = LossBound
	}
	return e
}

// renew sends one renewal, and takes over what it brings, however late.
func (h *hold) renew() {
	h.mu.Lock()
	h.renewalQueued = false
	ttl, final := h.renewTTL(h.l.set.ttl)
	fences, asserted := h.fencesWanted(), h.asserted
	if !h.state.takesRenewals() {
		defer h.mu.Unlock()
		h.endRenewal()
		return
	}
	h.mu.Unlock()
	a, err := h.sendOnce(renewRequest(h, ttl, fences))
	if rq, ok := h.reassertion(a, err, ttl); ok {
		a, err = h.sendOnce(rq)
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	h.endRenewal()
	switch h.state {
	case over:
		return
	case changing:
		if err == nil && !h.isClaim() {
			h.renewals++
		}
		return
	}
	if err == nil {
		var lost *LostError
		// Fences that were reserved before the server lost its data can be given to others after it.
		// mutants: block-from-before
		if lost, err = h.apply(a, final, h.asserted == asserted); lost != nil {
			h.lose(lost)
			return
		}
	}
	h.renewed(a.Sent, clock.Now(), err)
}

// renewed notes how a renewal went that was sent then, and plans the next. Guarded by the grant.
func (h *hold) renewed(sent, now clock.Instant, err error) {
	if err != nil {
		h.failure = h.l.c.server.Failure("renew", h.l.name, err)
		left := h.valid - now.Sub(h.anchor)
		h.renewAt = now.Add(min(max(left/8, 25*time.Millisecond), time.Second))
	} else {
		if h.state == claimed {
			h.state = held
		} else {
			h.renewals++
		}
		h.renewAt = clock.Instant{}
		if h.canRenew() {
			h.renewAt = h.renewalAfter(sent, h.l.set.ttl)
		}
	}
	if h.state == retired {
		h.renewAt = clock.Instant{}
	}
	h.planAt(now)
}

// renewalAfter is when to renew what was asked for then, for so long: at about a third of it. What can
// be renewed together is, at the beginning of a slot, of a sixteenth of that time: of the nearest.
func (h *hold) renewalAfter(sent clock.Instant, term time.Duration) clock.Instant {
	at := sent.Add(jitter(term/3, 5))
	if h.gathers() {
		slot := max(term/48, 1)
		at = at.Add(slot/2 - (at.Mono.Sub(h.l.c.epoch)+slot/2)%slot)
	}
	return at
}

func (h *hold) sendOnce(rq request) (exec.Answer, error) {
	c := h.l.c
	return exec.Try(context.Background(), c.server, c.cfg.CommandTimeout, func(ctx context.Context) (exec.Answer, error) {
		return c.send(ctx, rq)
	})
}

// maxReassert is how old a grant may be in Cluster mode to be asserted again: a lock's own
// fence counter expires after a day, and then no longer tells that no data was lost.
const maxReassert = 23 * time.Hour

// reassertion is what to send when a renewal's answer is that there is no such lock: the
// server may have lost its data. Strict mode has its quarantine instead; a key that is
// shared may have been a foreign program's meanwhile, of which nothing would tell.
func (h *hold) reassertion(a exec.Answer, err error, ttl time.Duration) (request, bool) {
	if err != nil || a.Word != "absent" {
		return request{}, false
	}
	c := h.l.c
	now := clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	left := h.valid - now.Sub(h.anchor)
	// mutants: shared-key-lost
	if h.state == over || left <= 0 || !h.l.set.kind.reasserted || c.cfg.Strict || c.server.InCluster() && now.Sub(h.since) > maxReassert {
		return request{}, false
	}
	// Whatever ends the grant now leaves a tombstone, in case this arrives after it.
	notAfter := c.server.Time(c.slot(h.l)) + left.Microseconds()
	h.from.unanswered = max(h.from.unanswered, notAfter)
	h.asserted++
	return reassertRequest(h, ttl, h.end-1, notAfter), true
}

// asked is a time before which the lock was not the grant's.
func (h *hold) asked() clock.Instant {
	if told := h.from.anchor.Sent; !told.IsZero() { // it was in the queue still
		return told
	}
	return h.since
}

// land notes that a renewal is under way no longer.
func (h *hold) endRenewal() {
	h.flying--
	if h.flying == 0 && h.landed != nil {
		close(h.landed)
		h.landed = nil
	}
}

func renewRequest(h *hold, ttl time.Duration, fences int) request {
	rq := request{
		op: "renew", lock: h.l, script: h.l.set.kind.renew, urgent: true, lockOnly: fences == 0, durable: true,
		args: []string{h.l.flags(""), h.from.token(), milliseconds(ttl), strconv.Itoa(fences), strconv.FormatUint(h.fence, 10)},
	}
	if fences > 0 && h.l.set.kind.reserves {
		rq.args = append(rq.args, strconv.Itoa(h.queue.fencesAlone(h.l)), h.from.channel)
	}
	return rq
}

// apply takes over what renew.lua answered, with the fences that it reserved if those are to be used. It
// returns the loss that the answer is.
func (h *hold) apply(a exec.Answer, final, fences bool) (*LostError, error) {
	switch a.Word {
	case "gone", "absent", "late":
		return &LostError{Name: h.l.name, Reason: LossTaken}, nil
	case "quarantined":
		q, err := parseQuarantine(&a.Reply)
		if err != nil {
			return nil, err
		}
		return nil, &exec.Quarantine{Left: time.Duration(q)}
	}
	var pttl, fence, block int64
	if a.Word != "renewed" || a.Ints(&pttl, &fence, &block) != nil || block > 0 && fence <= 0 {
		return nil, wire.ErrMalformed
	}
	h.failure = nil
	h.final = h.final || final
	if fences && block > 0 && h.next >= h.end && believable(uint64(fence+block), a.Now) {
		h.next, h.end = uint64(fence), uint64(fence)+uint64(block)
		h.mostPasses = max(h.mostPasses, int32(min(block, aloneFactor*int64(h.mostPasses))))
	}
	h.prolong(a.Sent, clock.Now(), min(duration(pttl), h.l.c.cfg.MaxTTL))
	return nil, nil
}

// prolong takes over that a request which was sent then found, or made, the lock last for term.
// Answers may come in another order than their requests were sent. The latest request tells best
// what the server has; an earlier one may have asked for more.
func (h *hold) prolong(sent, now clock.Instant, term time.Duration) {
	valid := term - drift(term)
	if now.Sub(sent) < now.Sub(h.anchor) || valid-now.Sub(sent) > h.valid-now.Sub(h.anchor) {
		// mutants: renewed-deadline
		h.anchor, h.valid = sent, valid
		h.capHold()
	}
}

// fencesWanted is how many fences a renewal should reserve: one for each goroutine
// of this process that waits.
func (h *hold) fencesWanted() int {
	if h.queue == nil || !h.l.set.passable() || h.next < h.end || h.failure != nil {
		return 0 // after a failure, ask for the one thing that matters
	}
	return h.queue.fences(h.l)
}

// lose ends the grant, and its lease with that error, and gives back what the server
// may still have.
func (h *hold) lose(err *LostError) {
	h.endLeases(err)
	h.stop()
	c := h.l.c
	end := time.Now().Add(h.l.set.term()) // when all that the server may have of it has expired
	c.tasks.Run(func() {
		h.queue.release(h)
		c.cleanups.Run(func() {
			c.takeBack(h.l, h.from.token(), h.from.member, h.from.unanswered, hasDied, end)
			h.from.forget()
			h.uncount()
		})
	})
}

// retire ends the grant's leases with that error, because the client closes. The server keeps
// the lock until the last of them is released, or expires.
func (h *hold) retire(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retireLocked(err)
}

func (h *hold) retireLocked(err error) {
	if h.state == over {
		return
	}
	h.endLeases(err)
	h.retireIfIdle()
}

// replacedBy ends a grant, if there is one, because the server has granted its lock anew: it was lost.
func (h *hold) replacedBy(next *hold) {
	if h == nil || h == next {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != over {
		h.lose(&LostError{Name: h.l.name, Reason: LossTaken})
	}
}

// isLive reports whether there is a grant, and it is not over.
func (h *hold) isLive() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state != over
}

// triedFor returns the latest grant of the lock with that line that was taken past it; nil if there is none.
func (c *Client) unqueuedFor(key string) *hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unqueued.Get(key)
}

// stop ends all renewing.
func (h *hold) stop() {
	h.state = over
	if c := h.l.c; h.unqueued {
		c.mu.Lock()
		if key := h.l.queueKey(); c.unqueued.Get(key) == h {
			c.unqueued.Delete(key)
		}
		c.mu.Unlock()
	}
	h.l.c.schedule.Cancel(&h.entry)
}

// drop has its client wait for the grant no more.
func (h *hold) uncount() {
	h.mu.Lock()
	counted := h.counted
	h.counted = false
	h.mu.Unlock()
	if counted {
		h.l.c.holds.End()
	}
}
