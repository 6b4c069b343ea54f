package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// confirmAfter is how long after a hand-over the claim is first renewed. Releasing the lock sooner saves that command.
const confirmAfter = 5 * time.Millisecond

// bounds limit how long a hold is renewed.
type bounds struct {
	renew       bool
	maxHold     time.Duration // 0: no bound
	maxRenewals int           // < 0: no bound
	since       clock.Instant // when maxHold and maxRenewals begin to count
}

// bound returns the hold's own bounds, or else those of the lock's options.
func (h *hold) bound() bounds {
	if h.bounds != nil {
		return *h.bounds
	}
	s := h.l.Set
	return bounds{s.Renew, s.MaxHold, s.MaxRenewals, h.since()}
}

// setBounds gives bounds to a hold without bounds. Renewals sent before b.since do not count, even if they are answered later.
func (h *hold) setBounds(b bounds) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == over {
		return
	}
	before := h.valid
	h.bounds, h.renewals = &b, 0
	h.capHold()
	h.final = h.valid < before
	if !h.canRenew() {
		h.renewAfter = 0
	}
	h.plan(clock.Now())
}

// countRenewal counts a renewal that was sent at that time. Without a bound nobody needs the number, unless the lock can change to another
// mode, which may have a bound.
func (h *hold) countRenewal(sent clock.Instant) {
	b := h.bound()
	if b.maxRenewals < 0 && !h.l.Set.Kind.IsShared {
		return
	}
	// mutants: renewals-before-all
	if sent.Sub(b.since) >= 0 {
		h.renewals++
	}
}

// canRenew reports whether a renewal would make the hold last longer.
func (h *hold) canRenew() bool {
	b := h.bound()
	switch {
	case h.claim:
		return true
	case !b.renew, b.maxRenewals >= 0 && int(h.renewals) >= b.maxRenewals:
		return false
	}
	return !h.final
}

// renewTTL returns the TTL to ask for: want, or less if MaxHold allows no more. final reports that the hold then lasts as long as MaxHold
// allows.
func (h *hold) renewTTL(want time.Duration) (ttl time.Duration, final bool) {
	if b := h.bound(); b.maxHold > 0 {
		remaining := max(b.maxHold-clock.Since(b.since), time.Millisecond)
		return min(want, remaining), want >= remaining
	}
	return want, false
}

// plan schedules the next call of Due: at the next renewal or at the deadline.
func (h *hold) plan(now clock.Instant) {
	next := h.valid
	if h.renewAfter > 0 {
		next = min(next, h.renewAfter)
	}
	at := now.Mono + next - now.Sub(h.anchor)
	if by, is := h.heedsBy(); is {
		at = min(at, by)
	}
	h.l.c.schedule.Set(&h.entry, at, h)
	// The client may have stopped listening to notices meanwhile, because it did not find this hold.
	if by, is := h.heedsBy(); is && by < at {
		h.l.c.schedule.Set(&h.entry, by, h)
	}
}

// heedsBy returns when the hold is old enough for its client to listen to notices. It returns false if the client listens already, or never
// will.
func (h *hold) heedsBy() (clock.Reading, bool) {
	if h.l.c.notices.listening.Load() || h.l.Set.PollInterval > 0 {
		return 0, false
	}
	return h.since().Mono + heedAfter, true
}

// renewAt makes the next renewal due at that time.
func (h *hold) renewAt(at clock.Instant) { h.renewAfter = max(at.Sub(h.anchor), 1) }

// Due is called by the scheduler. It starts a renewal, or ends the hold at its deadline.
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
	if by, is := h.heedsBy(); is && now.Mono >= by {
		h.l.c.heed()
	}
	if !h.canRenew() { // Extend may have reached MaxHold
		h.renewAfter = 0
	}
	if h.renewAfter > 0 && now.Sub(h.anchor) >= h.renewAfter {
		h.startRenewal(now)
	}
	h.plan(now)
}

// renew sends one renewal and applies its reply, however late that is.
func (h *hold) renew() {
	h.mu.Lock()
	h.renewalQueued = false
	ttl, final := h.renewTTL(h.l.Set.TTL)
	fences, reassertions := h.fencesWanted(), h.reassertions
	if !h.state.takesRenewals() || !h.canRenew() {
		defer h.mu.Unlock()
		h.endRenewal()
		return
	}
	q := h.renewal(ttl, fences)
	h.mu.Unlock()
	a, err := h.sendOnce(q)
	if again := h.reassertion(a, err, ttl, false); again != nil {
		a, err = h.sendOnce(again)
	}

	defer h.flush(nil)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endRenewal()
	switch h.state {
	case over:
		return
	case changing:
		if err == nil && !h.claim {
			h.countRenewal(a.Sent)
		}
		return
	}
	var slack time.Duration
	if err == nil {
		var lost *lock.LostError
		// If the lock was claimed again after this renewal was sent, the server has lost its data. It may then grant to others the fences
		// that this renewal reserved.
		// mutants: block-from-before
		if slack, lost, err = h.apply(a, final, h.reassertions == reassertions); lost != nil {
			h.lose(lost)
			return
		}
	}
	h.renewed(a.Sent, clock.Now(), slack, err)
}

// renewed notes the outcome of a renewal and plans the next one. sent is when the renewal was sent, and slack is how much of the hold was
// left when its reply came. The renewal that confirms a claim is part of the hand-over: neither MaxRenewals nor observers count it. The
// caller holds h.mu.
func (h *hold) renewed(sent, now clock.Instant, slack time.Duration, err error) {
	if err != nil {
		failure := h.l.c.Server.Failure("renew", h.l.Name(), err)
		if !h.expired(now) || !h.missed() { // otherwise this process has stood still, which expiry reports
			h.failure = failure
			h.renewAt(now.Add(min(max(h.remainingAt(now)/8, 25*time.Millisecond), time.Second)))
		}
		h.observeRenewal(now, 0, failure)
	} else {
		if h.claim {
			h.claim = false
		} else {
			h.countRenewal(sent)
			h.observeRenewal(now, slack, nil)
		}
		h.renewAfter = 0
		if h.canRenew() {
			h.renewAt(h.renewalAfter(sent, h.l.Set.TTL))
		}
	}
	if h.state == retired {
		h.renewAfter = 0
	}
	h.plan(now)
}

// renewalAfter returns when to renew a hold that lasts for term after a request sent at sent: after about a third of term. Holds that are
// renewed in batches become due together, at the start of the nearest slot; a slot is a sixteenth of that third.
func (h *hold) renewalAfter(sent clock.Instant, term time.Duration) clock.Instant {
	at := sent.Add(schedule.Jitter(term/3, 5))
	if h.canRenewInBatch() {
		slot := max(term/48, 1)
		at = at.Add(slot/2 - (at.Mono-h.l.c.epoch+slot/2)%slot)
	}
	return at
}

func (h *hold) sendOnce(q codec.Request[codec.Reply]) (lock.Answer[codec.Reply], error) {
	c := h.l.c
	return exec.Try(context.Background(), c.Server, c.Config.CommandTimeout, func(ctx context.Context) (lock.Answer[codec.Reply], error) {
		return lock.AskOnce(ctx, lock.Request{Op: "renew", Lock: &h.l.Lock, Durable: true}, q)
	})
}

// keepFor asks the server to keep the lock for ttl, and claims the lock again if the server has lost its data.
func (h *hold) keepFor(ctx context.Context, op string, ttl time.Duration, detaching bool) (lock.Answer[codec.Reply], error) {
	rq := lock.Request{Op: op, Lock: &h.l.Lock, Durable: true}
	a, _, err := lock.Ask(ctx, rq, h.renewal(ttl, 0))
	if again := h.reassertion(a, err, ttl, detaching); again != nil {
		a, _, err = lock.Ask(ctx, rq, again)
	}
	return a, err
}

// reassertion returns the request that claims the lock again after a renewal was answered "absent": the server may have lost its data. It
// returns nil if that must not be sent: in Strict mode, which has its quarantine; and for a key shared with other programs, since one of
// them may have held the lock meanwhile without leaving a trace. While the hold is being detached, only detach sends it: the token of a
// detached lease claims nothing.
func (h *hold) reassertion(a lock.Answer[codec.Reply], err error, ttl time.Duration, detaching bool) codec.Request[codec.Reply] {
	if err != nil || a.Reply.Word != codec.Absent {
		return nil
	}
	c := h.l.c
	now := clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	remaining := h.remainingAt(now)
	// mutants: shared-key-lost
	if h.state == over || !detaching && h.state == changing || remaining <= 0 || !h.l.Set.Kind.Reasserted || c.Config.Strict {
		return nil
	}
	// From now on a release leaves a tombstone, in case this request arrives after it.
	notAfter := c.Server.Time(h.l.Slot()) + remaining.Microseconds()
	h.attempt.own().unanswered = max(h.attempt.unanswered, notAfter)
	h.reassertions++
	notBefore := h.since()                                 // when the lock had not been granted yet
	if queued := h.attempt.anchor.Sent; !queued.IsZero() { // the server said that the attempt was still waiting
		notBefore = queued
	}
	age := now.Sub(notBefore)
	return &codec.Reassert{
		Lock: h.l.Ref(), Token: h.attempt.Token(), TTL: ttl, NotAfter: notAfter,
		Fence: h.first.fence, Reserved: h.lastFence(), Info: h.l.Set.Info, GrantedAt: h.at, Age: age + drift(age), Asked: a.Reply.Now,
	}
}

// endRenewal notes that one renewal is no longer under way. The caller holds h.mu.
func (h *hold) endRenewal() {
	h.flying--
	if h.flying == 0 && h.landed != nil {
		close(h.landed)
		h.landed = nil
	}
}

// renewal returns the request that renews the hold for ttl and reserves that many fences.
func (h *hold) renewal(ttl time.Duration, fences int) codec.Request[codec.Reply] {
	h.attempt.forgetSet()
	q := codec.Renew{Lock: h.l.Ref(), Token: h.attempt.Token(), TTL: ttl, Fence: h.first.fence, Fences: fences}
	if fences > 0 && h.l.Set.Kind.Reserves {
		q.FencesAlone, q.Channel = h.queue.fencesIfAlone(h.l), h.attempt.channel
	}
	return &q
}

// apply applies the reply to a renewal. It uses the fences that the reply reserves only if fences is true. It returns how much of the hold
// was left, or the loss if the reply says that the lock is lost. The caller holds h.mu.
func (h *hold) apply(a lock.Answer[codec.Reply], final, fences bool) (slack time.Duration, lost *lock.LostError, err error) {
	switch a.Reply.Word {
	case codec.Gone, codec.Absent, codec.Late, codec.Superseded:
		return 0, h.missing(a.Reply.Word), nil
	case codec.Quarantined:
		return 0, nil, &exec.Quarantine{Left: a.Reply.Refusal.Quarantine}
	}
	h.failure = nil
	h.final = h.final || final
	grant := a.Reply.Grant
	if block := uint64(grant.Block); fences && block > 0 && !h.hasFence() && believable(grant.Fence+block, a.Reply.Now) {
		most := h.mostPasses
		h.nextFence, h.fenceEnd = grant.Fence, grant.Fence+block
		h.mostPasses = max(most, int32(min(grant.Block, aloneFactor*int64(most))))
	}
	return h.prolong(a.Sent, clock.Now(), min(grant.TTL, h.l.c.Config.MaxTTL)), nil, nil
}

// prolong notes that, by the reply to a request sent at sent, the server keeps the lock for term. It returns how much of the hold was left.
// Replies may arrive out of order: the request that was sent last knows best what the server has, but an earlier one may have asked for
// more.
func (h *hold) prolong(sent, now clock.Instant, term time.Duration) (slack time.Duration) {
	valid := term - drift(term)
	slack = h.remainingAt(now)
	if now.Sub(sent) < now.Sub(h.anchor) || valid-now.Sub(sent) > slack {
		moved := clock.Between(h.anchor, sent)
		h.age += moved
		if h.renewAfter > 0 {
			h.renewAfter = max(h.renewAfter-moved, 1)
		}
		// mutants: renewed-deadline
		h.anchor, h.valid = sent, valid
		h.capHold()
	}
	return slack
}

// fencesWanted returns how many fences a renewal should reserve: one for each goroutine of this process that waits for the lock. The caller
// holds h.mu.
func (h *hold) fencesWanted() int {
	if h.bounds != nil || h.hasFence() || h.failure != nil {
		return 0 // after a failure only the renewal itself matters
	}
	return h.queue.fences(h.l)
}

// canRenewInBatch reports whether the hold's renewals can go in a batch, provided that they reserve no fences.
func (h *hold) canRenewInBatch() bool {
	return h.l.Set.Kind.Native && h.bound().maxHold == 0 && !h.l.c.Config.Strict && !h.l.Set.Durable
}

// startRenewal sends a renewal unless too many are under way. If it is not answered in time, another one is sent: several fit in before the
// deadline. The caller holds h.mu.
func (h *hold) startRenewal(now clock.Instant) {
	h.renewAt(now.Add(min(max(h.remainingAt(now)/3, 50*time.Millisecond), h.l.c.Config.CommandTimeout)))
	if h.flying < maxFlying && !h.renewalQueued {
		h.flying++
		h.renewalQueued = true
		h.renewTogether()
	}
}

// renewTogether sends a renewal of the hold, in a batch if possible. The caller holds h.mu.
func (h *hold) renewTogether() {
	at := h.l.c.serverOf(h.l)
	if at.isKnown && h.canRenewInBatch() && h.fencesWanted() == 0 {
		at.renew(h)
		return
	}
	at.renewers.Run(h.renew)
}

// sendRenewals sends the holds' renewals in a batch, except those that are no longer wanted, and reports whether the server answered.
func (c *Client) sendRenewals(holds []*hold) (answered bool) {
	live := holds[:0]
	for _, h := range holds {
		h.mu.Lock()
		h.renewalQueued = false
		if !h.state.takesRenewals() || !h.canRenew() {
			h.endRenewal()
		} else {
			h.attempt.forgetSet()
			live = append(live, h)
		}
		h.mu.Unlock()
	}
	if len(live) == 0 {
		return false
	}
	n := len(live)
	if c.Server.InCluster() { // each in a batch of its own
		n = 1
	}
	var failed atomic.Bool
	var sending sync.WaitGroup
	for part := range slices.Chunk(live, n) {
		sending.Go(func() {
			b := renewBatch(part)
			a, err := c.Server.SendOnce(exec.Request{Slot: part[0].l.Slot(), Call: b.Call()})
			if a.Text == "" {
				failed.Store(true)
			}
			c.applyRenewals(part, &b, a, err)
		})
	}
	sending.Wait()
	return !failed.Load()
}

// renewBatch returns the batch that renews holds.
func renewBatch(holds []*hold) codec.BatchRenew {
	l := holds[0].l
	b := codec.NewBatchRenew(l.Flags(), len(holds))
	for _, h := range holds {
		h.mu.Lock()
		b.Add(h.l.Keys.Lock, h.attempt.head, h.first.fence, h.l.Set.TTL)
		h.mu.Unlock()
	}
	return b
}

// applyRenewals gives each hold the outcome of the batch that renewed it.
func (c *Client) applyRenewals(holds []*hold, b *codec.BatchRenew, r exec.Answer, err error) {
	now := clock.Now()
	var reply codec.BatchReply
	if err == nil {
		reply, err = b.Parse(r.Text)
	}
	answered := err == nil || !exec.MayBeDone(err) && !exec.RefusesAll(err)
	for i, h := range holds {
		// A renewal that was refused in a batch may succeed by itself: the server's ACL may forbid this user the batch's script, or another
		// hold's key.
		h.mu.Lock()
		if !reply.Done(i) && answered {
			h.renewalQueued = true
			c.serverOf(h.l).renewers.Run(h.renew)
			h.mu.Unlock()
			continue
		}
		h.endRenewal()
		if h.state.takesRenewals() {
			var slack time.Duration
			if err == nil {
				h.failure = nil
				// mutants: kept-from
				slack = h.prolong(r.Sent, now, h.l.Set.TTL)
			}
			h.renewed(r.Sent, now, slack, err)
		}
		h.mu.Unlock()
		h.flush(nil)
	}
}
