package holdfast

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/schedule"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// maxRenewing bounds how many renewals of a client are under way at once by themselves, maxFlying
// how many of one grant.
const (
	maxRenewing = 256
	maxFlying   = 8
)

// grant is a lock that the server gave to one token. Several leases may have it one
// after another: goroutines of this process pass it on among themselves.
type grant struct {
	l    *Lock
	from *attempt
	line *line // that it belongs to; nil if it was taken past all lines

	fence uint64 // in the lock's value: that of the first lease

	entry schedule.Entry

	mu       sync.Mutex
	lease    *Lease        // that has it now
	joined   []*Lease      // that have it, too: other readers', or acquired again by who has it
	frozen   bool          // it is being weighed: see Lease.weigh
	over     bool          // released, or lost: nothing is sent for it any more but a release
	retired  bool          // its leases are over: it is not renewed any more
	since    clock.Instant // about when it was granted
	checked  clock.Instant // when it was made, and was not over
	anchor   clock.Instant // when the request was sent whose answer bounds it
	valid    time.Duration // from the anchor on
	next     uint64        // fence for the next lease
	end      uint64        // of the fences reserved
	passed   int           // times it was passed on
	most     int           // times it may be
	claim    bool          // it is a claim still, to be made a lease by a renewal
	renewAt  clock.Instant // zero when it is not to be renewed
	renewals int           // times it was renewed
	flying   int           // renewals under way
	landed   chan struct{} // closed when flying falls to 0
	failure  error         // of the latest renewal, nil once one succeeds
	final    bool          // MaxHold allows no more than it has

	extended bool // past what the next lease of it would have
	kept     bool // it has a reference of its line; guarded by the line
}

func newGrant(a *attempt, since, anchor clock.Instant, valid time.Duration, fence uint64, block int64) *grant {
	g := &grant{l: a.l, from: a, since: since, anchor: anchor, valid: valid, fence: fence, next: fence, end: fence + uint64(max(block, 1)), most: a.l.c.cfg.LocalHandovers}
	g.final = a.l.set.maxHold > 0 && a.l.set.maxHold <= a.l.set.ttl
	g.capHold()
	return g
}

// isLate reports whether a grant that was just made is over already.
func (g *grant) isLate() bool {
	g.checked = clock.Now()
	return g.expired(g.checked)
}

// term is how long the server is to keep the lock from a request on.
func (s settings) term() time.Duration {
	if s.maxHold > 0 {
		return min(s.ttl, s.maxHold)
	}
	return s.ttl
}

// passable reports whether a lease of these settings may be passed on locally: a
// bound of any kind belongs to one holder, and fences that were reserved would not rise
// from grant to grant where others have the lock, too.
func (s settings) passable() bool { return s.isExclusive() && s.unbounded() && !s.apart }

// unbounded reports whether leases are renewed for as long as they are held.
func (s settings) unbounded() bool { return s.renew && s.maxHold == 0 && s.maxRenewals < 0 }

// begin starts renewing, and returns the first lease. Its context has ctx's values.
func (g *grant) begin(ctx context.Context) *Lease {
	c := g.l.c
	g.mu.Lock()
	lease := g.newLease(ctx)
	c.held.begin()
	c.mu.Lock()
	c.grants[g] = struct{}{} // Close may find it there at once
	c.mu.Unlock()
	if g.canRenew() {
		g.renewAt = g.renewalAfter(g.anchor, min(g.l.set.ttl, g.valid))
		if g.claim {
			g.renewAt = clock.Now()
		}
	}
	g.planAt(g.checked)
	g.mu.Unlock()
	if c.isClosing() {
		g.retire(ErrClosed)
	}
	return lease
}

// newLease makes the lease that has the grant from now on, with the next fence.
func (g *grant) newLease(ctx context.Context) *Lease {
	g.lease = &Lease{g: g, fence: g.next, origin: ctx}
	g.next++
	return g.lease
}

// join makes another lease that has the grant, too, with that fence. Guarded by g.
func (g *grant) join(ctx context.Context, fence uint64) *Lease {
	lease := &Lease{g: g, fence: fence, origin: ctx}
	g.joined = append(g.joined, lease)
	return lease
}

// part takes a lease out of a grant that others have, too; false if it is the only one.
// Guarded by g.
func (g *grant) part(l *Lease) bool {
	if len(g.joined) == 0 {
		return false
	}
	last := g.joined[len(g.joined)-1]
	if g.lease == l {
		g.lease = last
	} else {
		g.joined[slices.Index(g.joined, l)] = last
	}
	g.joined = g.joined[:len(g.joined)-1]
	return true
}

// quit ends one of the grant's leases with that error, because what it is part of is over.
// The lease counts as having the grant until it is released.
func (g *grant) quit(l *Lease, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return
	}
	l.finish(err)
	g.rest()
}

// rest retires a grant of which no lease is left that is held. Guarded by g.
func (g *grant) rest() {
	if g.lease.ended == nil || slices.ContainsFunc(g.joined, func(l *Lease) bool { return l.ended == nil }) {
		return
	}
	g.retired, g.renewAt = true, clock.Instant{}
	g.plan()
}

// finish ends all its leases.
func (g *grant) finish(err error) {
	g.lease.finish(err)
	for _, l := range g.joined {
		l.finish(err)
	}
}

func (g *grant) expired(now clock.Instant) bool { return now.Sub(g.anchor) >= g.valid }

// deadline is when the grant is over, by the clock of time.Now, which may have stood
// still for a while.
func (g *grant) deadline(now clock.Instant) time.Time {
	stood := now.Sub(g.anchor) - now.Mono.Sub(g.anchor.Mono)
	return g.anchor.Mono.Add(g.valid - stood)
}

// capHold ends the grant where MaxHold does.
func (g *grant) capHold() {
	if bound := g.l.set.maxHold; bound > 0 {
		g.valid = min(g.valid, g.since.Add(bound).Sub(g.anchor))
	}
}

// canRenew reports whether a renewal would make it last longer.
func (g *grant) canRenew() bool {
	s := g.l.set
	switch {
	case g.claim:
		return true
	case !s.renew, s.maxRenewals >= 0 && g.renewals >= s.maxRenewals:
		return false
	}
	return !g.final
}

// renewTTL is the TTL to ask for; final says that it is what MaxHold leaves.
func (g *grant) renewTTL(want time.Duration) (ttl time.Duration, final bool) {
	if s := g.l.set; s.maxHold > 0 {
		left := max(s.maxHold-clock.Since(g.since), time.Millisecond)
		return min(want, left), want >= left
	}
	return want, false
}

// plan has the scheduler call at the next renewal, or the deadline.
func (g *grant) plan() { g.planAt(clock.Now()) }

func (g *grant) planAt(now clock.Instant) {
	at := g.deadline(now)
	if !g.renewAt.IsZero() {
		if wait := -now.Sub(g.renewAt); now.Mono.Add(wait).Before(at) {
			at = now.Mono.Add(wait)
		}
	}
	g.l.c.schedule.Set(&g.entry, at, g)
}

// Due is called by the scheduler.
func (g *grant) Due() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return
	}
	now := clock.Now()
	if g.expired(now) {
		g.lose(g.expiry())
		return
	}
	if !g.renewAt.IsZero() && now.Sub(g.renewAt) >= 0 {
		// If this one is not answered in time, another goes out: several fit into
		// what is left.
		left := g.valid - now.Sub(g.anchor)
		g.renewAt = now.Add(min(max(left/3, 50*time.Millisecond), g.l.c.cfg.CommandTimeout))
		if g.flying == 0 {
			g.landed = make(chan struct{})
		}
		if g.flying < maxFlying {
			g.flying++
			if g.renewable() {
				g.l.c.batches.renewals.Add(g)
			} else {
				g.l.c.singles.run(g.renew)
			}
		}
	}
	g.plan()
}

// expiry says why a grant whose time is up was not renewed.
func (g *grant) expiry() *LostError {
	e := &LostError{Name: g.l.name, Reason: LossExpired}
	switch s := g.l.set; {
	case g.failure != nil:
		e.Reason, e.Err = LossUnreachable, g.failure
	case s.renew && (s.maxHold > 0 || s.maxRenewals >= 0) && !g.canRenew():
		e.Reason = LossBound
	}
	return e
}

// renew sends one renewal, and takes over what it brings, however late.
func (g *grant) renew() {
	g.mu.Lock()
	ttl, final := g.renewTTL(g.l.set.ttl)
	fences := g.fencesWanted()
	if g.over || g.frozen {
		defer g.mu.Unlock()
		g.land()
		return
	}
	g.mu.Unlock()
	a, err := g.sendOnce(renewRequest(g, ttl, fences))
	if rq, ok := g.reassertion(a, err, ttl); ok {
		a, err = g.sendOnce(rq)
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	g.land()
	if g.over || g.frozen {
		return
	}
	if err == nil {
		var lost *LostError
		if lost, err = g.apply(a, final); lost != nil {
			g.lose(lost)
			return
		}
	}
	g.renewed(a.sent, err)
}

// renewed notes how a renewal went that was sent then, and plans the next. Guarded by the grant.
func (g *grant) renewed(sent clock.Instant, err error) {
	if err != nil {
		_, kind := classify(err)
		g.failure = &ServerError{Op: "renew", Name: g.l.name, Server: g.l.c.driver.Addr(), Kind: kind, Err: told(err)}
		now := clock.Now()
		left := g.valid - now.Sub(g.anchor)
		g.renewAt = now.Add(min(max(left/8, 25*time.Millisecond), time.Second))
	} else {
		if !g.claim {
			g.renewals++
		}
		g.claim, g.renewAt = false, clock.Instant{}
		if g.canRenew() {
			g.renewAt = g.renewalAfter(sent, g.l.set.ttl)
		}
	}
	if g.retired {
		g.renewAt = clock.Instant{}
	}
	g.plan()
}

// renewalAfter is when to renew what was asked for then, for so long: at about a third of it. What can
// be renewed together is, at the beginning of the slot, of a sixteenth of that time, in which it is due.
func (g *grant) renewalAfter(sent clock.Instant, term time.Duration) clock.Instant {
	at := sent.Add(jitter(term/3, 5))
	if g.gathers() {
		at = at.Add(-(at.Mono.Sub(g.l.c.epoch) % max(term/48, 1)))
	}
	return at
}

func (g *grant) sendOnce(rq request) (answer, error) {
	c := g.l.c
	return try(context.Background(), c, c.cfg.CommandTimeout, func(ctx context.Context) (answer, error) {
		return c.send(ctx, rq)
	})
}

// maxReassert is how old a grant may be in Cluster mode to be asserted again: a lock's own
// fence counter expires after a day, and then no longer tells that no data was lost.
const maxReassert = 23 * time.Hour

// reassertion is what to send when a renewal's answer is that there is no such lock: the
// server may have lost its data. Strict mode has its quarantine instead; a key that is
// shared may have been a foreign program's meanwhile, of which nothing would tell.
func (g *grant) reassertion(a answer, err error, ttl time.Duration) (request, bool) {
	if err != nil || a.Word != "absent" {
		return request{}, false
	}
	c := g.l.c
	now := clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	left := g.valid - now.Sub(g.anchor)
	if g.over || left <= 0 || g.l.set.isShared() || c.cfg.Strict || g.l.set.hasKey || c.inCluster() && now.Sub(g.since) > maxReassert {
		return request{}, false
	}
	// Whatever ends the grant now leaves a tombstone, in case this arrives after it.
	notAfter := c.serverTime(c.slot(g.l)) + left.Microseconds()
	g.from.unanswered = max(g.from.unanswered, notAfter)
	return reassertRequest(g, ttl, g.end-1, notAfter), true
}

// land notes that a renewal is under way no longer.
func (g *grant) land() {
	g.flying--
	if g.flying == 0 {
		close(g.landed)
	}
}

func renewRequest(g *grant, ttl time.Duration, fences int) request {
	rq := request{
		op: "renew", lock: g.l, script: g.l.set.kind.renew, urgent: true, lockOnly: fences == 0, durable: true,
		args: []string{g.l.flags(""), g.from.token(), milliseconds(ttl), strconv.Itoa(fences), strconv.FormatUint(g.fence, 10)},
	}
	if fences > 0 && g.l.set.kind == &mutex && !g.l.set.hasKey {
		rq.args = append(rq.args, strconv.Itoa(g.line.fencesAlone(g.l)), g.from.channel)
	}
	return rq
}

// apply takes over what renew.lua answered. It returns the loss that the answer is.
func (g *grant) apply(a answer, final bool) (*LostError, error) {
	switch a.Word {
	case "gone", "absent", "late":
		return &LostError{Name: g.l.name, Reason: LossTaken}, nil
	case "quarantined":
		q, err := parseQuarantine(&a.Reply)
		if err != nil {
			return nil, err
		}
		return nil, &QuarantineError{time.Duration(q)}
	}
	var pttl, fence, block int64
	if a.Word != "renewed" || a.Ints(&pttl, &fence, &block) != nil || block > 0 && fence <= 0 {
		return nil, wire.ErrMalformed
	}
	g.failure = nil
	g.final = g.final || final
	if block > 0 && g.next >= g.end {
		g.next, g.end = uint64(fence), uint64(fence)+uint64(block)
		g.most = max(g.most, int(min(block, unrivalled*int64(g.most))))
	}
	g.prolong(a.sent, min(duration(pttl), g.l.c.cfg.MaxTTL))
	return nil, nil
}

// prolong takes over that a request which was sent then found, or made, the lock last for term.
// Answers may come in another order than their requests were sent. The latest request tells best
// what the server has; an earlier one may have asked for more.
func (g *grant) prolong(sent clock.Instant, term time.Duration) {
	valid := term - drift(term)
	if now := clock.Now(); now.Sub(sent) < now.Sub(g.anchor) || valid-now.Sub(sent) > g.valid-now.Sub(g.anchor) {
		g.anchor, g.valid = sent, valid
		g.capHold()
	}
}

// fencesWanted is how many fences a renewal should reserve: one for each goroutine
// of this process that waits.
func (g *grant) fencesWanted() int {
	if g.line == nil || !g.l.set.passable() || g.next < g.end || g.failure != nil {
		return 0 // after a failure, ask for the one thing that matters
	}
	return g.line.fences(g.l)
}

// lose ends the grant, and its lease with that error, and gives back what the server
// may still have.
func (g *grant) lose(err *LostError) {
	g.finish(err)
	g.stop()
	c := g.l.c
	c.tasks.run(func() {
		g.line.let(g)
		c.takeBack(g.l, g.from.token(), g.from.member, g.from.unanswered, hasDied)
		g.from.forget()
		g.drop()
	})
}

// retire ends the grant's leases with that error, because the client closes. The server keeps
// the lock until the last of them is released, or expires.
func (g *grant) retire(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return
	}
	g.finish(err)
	g.rest()
}

// stop ends all renewing.
func (g *grant) stop() {
	g.over = true
	g.l.c.schedule.Cancel(&g.entry)
}

// drop removes the grant from its client.
func (g *grant) drop() {
	c := g.l.c
	c.mu.Lock()
	_, there := c.grants[g]
	delete(c.grants, g)
	c.mu.Unlock()
	if there {
		c.held.end()
	}
}
