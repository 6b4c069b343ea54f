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
	maxRenewing  = 256
	maxFlying    = 8
	maxLeftovers = 16
)

// grant is a lock that the server gave to one token. Several leases may have it one
// after another: goroutines of this process pass it on among themselves.
type grant struct {
	l    *Lock
	from *attempt
	line *line // that it belongs to; nil if it was taken past all lines

	fence uint64 // in the lock's value: that of the first lease
	at    int64  // server time, µs, in the answer by which it was granted; 0 where that is not needed

	entry schedule.Entry

	mu       sync.Mutex
	lease    *Lease        // that has it now
	joined   *[]*Lease     // that have it, too: other readers', or acquired again by who has it; nil at first
	since    clock.Instant // about when it was granted
	anchor   clock.Instant // when the request was sent whose answer bounds it
	valid    time.Duration // from the anchor on
	next     uint64        // fence for the next lease
	end      uint64        // of the fences reserved
	renewAt  clock.Instant // zero when it is not to be renewed; before begin, when it was not over
	failure  *exec.Failure // of the latest renewal, nil once one succeeds
	landed   chan struct{} // closed when flying falls to 0; nil if nobody waits for that
	passed   int32         // times it was passed on
	most     int32         // times it may be
	renewals int32         // times it was renewed
	flying   int8          // renewals under way
	queued   bool          // one of them is not sent yet
	asserted uint8         // times it was asked for again, after a loss of data

	tried    bool // it is among Client.tried
	counted  bool // among those that Close waits for
	state    state
	before   state // while it is changing: what it was before
	final    bool // MaxHold allows no more than it has
	extended bool // past what the next lease of it would have, or that was asked for
	kept     bool // it has a reference of its line; guarded by the line
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
func (g *grant) isClaim() bool {
	return g.state == claimed || g.state == changing && g.before == claimed
}

// confirmAfter is how long a lock that was handed over is held before its claim is made a lease.
// Holds that are shorter spare the server that command.
const confirmAfter = 5 * time.Millisecond

func newGrant(a *attempt, since, anchor clock.Instant, valid time.Duration, fence uint64, block int64) *grant {
	a.l.c.server.HasWritten()
	g := &grant{l: a.l, state: held, from: a, since: since, anchor: anchor, valid: valid, fence: fence, next: fence, end: fence + uint64(max(block, 1)), most: int32(min(a.l.c.cfg.LocalHandovers, math.MaxInt32/unrivalled))}
	g.final = a.l.set.maxHold > 0 && a.l.set.maxHold <= a.l.set.ttl
	g.capHold()
	return g
}

// isLate reports whether a grant that is made now is over already.
func (g *grant) isLate(now clock.Instant) bool {
	g.renewAt = now
	return g.expired(now)
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
func (g *grant) begin(ctx context.Context) *Lease {
	c := g.l.c
	g.mu.Lock()
	lease := g.newLease(ctx)
	c.held.Begin()
	g.counted = true
	now := g.renewAt
	switch {
	case g.state == claimed && g.fencesWanted() > 0: // at once
	case g.state == claimed:
		left := g.valid - now.Sub(g.anchor)
		g.renewAt = now.Add(min(confirmAfter, left/16))
	case g.canRenew():
		g.renewAt = g.renewalAfter(g.anchor, min(g.l.set.ttl, g.valid))
	default:
		g.renewAt = clock.Instant{}
	}
	g.planAt(now)
	g.mu.Unlock()
	// mutants: granted-during-close
	if c.isClosing() {
		g.retire(exec.ErrClosed)
	}
	return lease
}

// newLease makes the lease that has the grant from now on, with the next fence.
func (g *grant) newLease(ctx context.Context) *Lease {
	g.lease = &Lease{g: g, fence: g.next, origin: ctx}
	// mutants: next-fence
	g.next++
	return g.lease
}

// join makes another lease that has the grant, too, with that fence. Guarded by g.
func (g *grant) join(ctx context.Context, fence uint64) *Lease {
	lease := &Lease{g: g, fence: fence, origin: ctx}
	if g.joined == nil {
		g.joined = new([]*Lease)
	}
	*g.joined = append(*g.joined, lease)
	return lease
}

func (g *grant) isJoined() bool { return len(g.others()) > 0 }

// others are the leases besides the one that has it now.
func (g *grant) others() []*Lease {
	if g.joined == nil {
		return nil
	}
	return *g.joined
}

// part takes a lease out of a grant that others have, too; false if it is the only one.
// Guarded by g.
func (g *grant) part(l *Lease) bool {
	// mutants: joined-release
	if !g.isJoined() {
		return false
	}
	others := *g.joined
	last := others[len(others)-1]
	if g.lease == l {
		g.lease = last
	} else {
		others[slices.Index(others, l)] = last
	}
	// mutants: joined-uncounted
	*g.joined = others[:len(others)-1]
	return true
}

// quit ends one of the grant's leases with that error, because what it is part of is over.
// The lease counts as having the grant until it is released.
func (g *grant) quit(l *Lease, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == over {
		return
	}
	l.finish(err)
	g.rest()
}

// rest retires a grant of which no lease is left that is held. Guarded by g.
func (g *grant) rest() {
	if g.hasLease() {
		return
	}
	if g.state != changing {
		g.state = retired
	}
	g.renewAt = clock.Instant{}
	g.plan()
}

// hasLease reports whether one of its leases is not over. Guarded by g.
func (g *grant) hasLease() bool {
	return g.lease.ended == nil || slices.ContainsFunc(g.others(), func(l *Lease) bool { return l.ended == nil })
}

// finish ends all its leases.
func (g *grant) finish(err error) {
	g.lease.finish(err)
	for _, l := range g.others() {
		l.finish(err)
	}
}

func (g *grant) expired(now clock.Instant) bool { return now.Sub(g.anchor) >= g.valid }

// deadline is when the grant is over, by the monotonic clock, which may have stood
// still for a while.
func (g *grant) deadline(now clock.Instant) clock.Reading {
	return now.Mono.Add(g.valid - now.Sub(g.anchor))
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
	case g.isClaim():
		return true
	case !s.renew, s.maxRenewals >= 0 && int(g.renewals) >= s.maxRenewals:
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
		at = min(at, now.Mono.Add(-now.Sub(g.renewAt)))
	}
	g.l.c.schedule.Set(&g.entry, at, g)
}

// Due is called by the scheduler.
func (g *grant) Due(now clock.Instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == over {
		return
	}
	// mutants: deadline-timer
	if g.expired(now) {
		g.lose(g.expiry())
		return
	}
	if !g.renewAt.IsZero() && now.Sub(g.renewAt) >= 0 {
		// If this one is not answered in time, another goes out: several fit into
		// what is left.
		left := g.valid - now.Sub(g.anchor)
		g.renewAt = now.Add(min(max(left/3, 50*time.Millisecond), g.l.c.cfg.CommandTimeout))
		if g.flying < maxFlying && !g.queued {
			g.flying++
			g.queued = true
			g.renewTogether()
		}
	}
	g.planAt(now)
	if g.l.c.isClosing() { // Close may have looked while the scheduler did not have it
		g.retireLocked(exec.ErrClosed)
	}
}

// expiry says why a grant whose time is up was not renewed.
func (g *grant) expiry() *LostError {
	e := &LostError{Name: g.l.name, Reason: LossExpired}
	switch s := g.l.set; {
	case g.failure != nil:
		e.Reason, e.Err = LossUnreachable, g.failure
	case g.queued:
		e.Reason, e.Err = LossUnreachable, &exec.Failure{Op: "renew", Name: g.l.name, Server: g.l.c.server.Addr(), Kind: exec.ErrUnavailable, Err: errPutOff}
	case s.renew && (s.maxHold > 0 || s.maxRenewals >= 0) && !g.canRenew():
		e.Reason = LossBound
	}
	return e
}

// renew sends one renewal, and takes over what it brings, however late.
func (g *grant) renew() {
	g.mu.Lock()
	g.queued = false
	ttl, final := g.renewTTL(g.l.set.ttl)
	fences, asserted := g.fencesWanted(), g.asserted
	if !g.state.takesRenewals() {
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
	switch g.state {
	case over:
		return
	case changing:
		if err == nil && !g.isClaim() {
			g.renewals++
		}
		return
	}
	if err == nil {
		var lost *LostError
		// Fences that were reserved before the server lost its data can be given to others after it.
		// mutants: block-from-before
		if lost, err = g.apply(a, final, g.asserted == asserted); lost != nil {
			g.lose(lost)
			return
		}
	}
	g.renewed(a.Sent, clock.Now(), err)
}

// renewed notes how a renewal went that was sent then, and plans the next. Guarded by the grant.
func (g *grant) renewed(sent, now clock.Instant, err error) {
	if err != nil {
		g.failure = g.l.c.server.Failure("renew", g.l.name, err)
		left := g.valid - now.Sub(g.anchor)
		g.renewAt = now.Add(min(max(left/8, 25*time.Millisecond), time.Second))
	} else {
		if g.state == claimed {
			g.state = held
		} else {
			g.renewals++
		}
		g.renewAt = clock.Instant{}
		if g.canRenew() {
			g.renewAt = g.renewalAfter(sent, g.l.set.ttl)
		}
	}
	if g.state == retired {
		g.renewAt = clock.Instant{}
	}
	g.planAt(now)
}

// renewalAfter is when to renew what was asked for then, for so long: at about a third of it. What can
// be renewed together is, at the beginning of a slot, of a sixteenth of that time: of the nearest.
func (g *grant) renewalAfter(sent clock.Instant, term time.Duration) clock.Instant {
	at := sent.Add(jitter(term/3, 5))
	if g.gathers() {
		slot := max(term/48, 1)
		at = at.Add(slot/2 - (at.Mono.Sub(g.l.c.epoch)+slot/2)%slot)
	}
	return at
}

func (g *grant) sendOnce(rq request) (exec.Answer, error) {
	c := g.l.c
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
func (g *grant) reassertion(a exec.Answer, err error, ttl time.Duration) (request, bool) {
	if err != nil || a.Word != "absent" {
		return request{}, false
	}
	c := g.l.c
	now := clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	left := g.valid - now.Sub(g.anchor)
	// mutants: shared-key-lost
	if g.state == over || left <= 0 || !g.l.set.kind.reasserted || c.cfg.Strict || c.server.InCluster() && now.Sub(g.since) > maxReassert {
		return request{}, false
	}
	// Whatever ends the grant now leaves a tombstone, in case this arrives after it.
	notAfter := c.server.Time(c.slot(g.l)) + left.Microseconds()
	g.from.unanswered = max(g.from.unanswered, notAfter)
	g.asserted++
	return reassertRequest(g, ttl, g.end-1, notAfter), true
}

// asked is a time before which the lock was not the grant's.
func (g *grant) asked() clock.Instant {
	if told := g.from.anchor.Sent; !told.IsZero() { // it was in the queue still
		return told
	}
	return g.since
}

// land notes that a renewal is under way no longer.
func (g *grant) land() {
	g.flying--
	if g.flying == 0 && g.landed != nil {
		close(g.landed)
		g.landed = nil
	}
}

func renewRequest(g *grant, ttl time.Duration, fences int) request {
	rq := request{
		op: "renew", lock: g.l, script: g.l.set.kind.renew, urgent: true, lockOnly: fences == 0, durable: true,
		args: []string{g.l.flags(""), g.from.token(), milliseconds(ttl), strconv.Itoa(fences), strconv.FormatUint(g.fence, 10)},
	}
	if fences > 0 && g.l.set.kind.reserves {
		rq.args = append(rq.args, strconv.Itoa(g.line.fencesAlone(g.l)), g.from.channel)
	}
	return rq
}

// apply takes over what renew.lua answered, with the fences that it reserved if those are to be used. It
// returns the loss that the answer is.
func (g *grant) apply(a exec.Answer, final, fences bool) (*LostError, error) {
	switch a.Word {
	case "gone", "absent", "late":
		return &LostError{Name: g.l.name, Reason: LossTaken}, nil
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
	g.failure = nil
	g.final = g.final || final
	if fences && block > 0 && g.next >= g.end && believable(uint64(fence+block), a.Now) {
		g.next, g.end = uint64(fence), uint64(fence)+uint64(block)
		g.most = max(g.most, int32(min(block, unrivalled*int64(g.most))))
	}
	g.prolong(a.Sent, clock.Now(), min(duration(pttl), g.l.c.cfg.MaxTTL))
	return nil, nil
}

// prolong takes over that a request which was sent then found, or made, the lock last for term.
// Answers may come in another order than their requests were sent. The latest request tells best
// what the server has; an earlier one may have asked for more.
func (g *grant) prolong(sent, now clock.Instant, term time.Duration) {
	valid := term - drift(term)
	if now.Sub(sent) < now.Sub(g.anchor) || valid-now.Sub(sent) > g.valid-now.Sub(g.anchor) {
		// mutants: renewed-deadline
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
	end := time.Now().Add(g.l.set.term()) // when all that the server may have of it has expired
	c.tasks.Run(func() {
		g.line.let(g)
		c.leftovers.Run(func() {
			c.takeBack(g.l, g.from.token(), g.from.member, g.from.unanswered, hasDied, end)
			g.from.forget()
			g.drop()
		})
	})
}

// retire ends the grant's leases with that error, because the client closes. The server keeps
// the lock until the last of them is released, or expires.
func (g *grant) retire(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.retireLocked(err)
}

func (g *grant) retireLocked(err error) {
	if g.state == over {
		return
	}
	g.finish(err)
	g.rest()
}

// replacedBy ends a grant, if there is one, because the server has granted its lock anew: it was lost.
func (g *grant) replacedBy(next *grant) {
	if g == nil || g == next {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != over {
		g.lose(&LostError{Name: g.l.name, Reason: LossTaken})
	}
}

// isLive reports whether there is a grant, and it is not over.
func (g *grant) isLive() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state != over
}

// triedFor returns the latest grant of the lock with that line that was taken past it; nil if there is none.
func (c *Client) triedFor(key string) *grant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tried.Get(key)
}

// stop ends all renewing.
func (g *grant) stop() {
	g.state = over
	if c := g.l.c; g.tried {
		c.mu.Lock()
		if key := g.l.lineKey(); c.tried.Get(key) == g {
			c.tried.Delete(key)
		}
		c.mu.Unlock()
	}
	g.l.c.schedule.Cancel(&g.entry)
}

// drop has its client wait for the grant no more.
func (g *grant) drop() {
	g.mu.Lock()
	counted := g.counted
	g.counted = false
	g.mu.Unlock()
	if counted {
		g.l.c.held.End()
	}
}
