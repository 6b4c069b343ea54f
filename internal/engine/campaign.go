package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// campaign gets a lock from the server for the waiters of a line: one attempt after
// another, each for whoever is first when it begins. It runs while anybody waits. It
// sleeps in the server's queue until it is notified; because notifications can be
// lost, it looks from time to time how it stands.
type campaign struct {
	ln      *line
	attempt *attempt // nil between two
	sub     *notify.Listener
	theirs  []*notify.Listener // to Redisson's channels, once one of its clients was seen to hold the lock
	looks   chan struct{}      // holds an item when the line has changed
	hidden  bool               // the server did not know of the subscription last time
	polls   int                // answered in a row without a confirmed subscription
	deaf    time.Time          // since when it polls; zero if the server knew of the subscription last time
	begun   time.Time          // of the attempt, or the one whose place it has
	joined  atomic.Bool        // an owner's line has another waiter

	// answered says that the server has dealt with us once: what fails now may pass.
	answered bool
	// known is how the first attempt stands, until the first step; or nil.
	known *look
	// leaving ends the departure that began when the last waiter left, or is nil. Guarded by the line.
	leaving func()
}

// look is an answer, and by what its attempt could be notified when it asked.
type look struct {
	of     *attempt
	queued queued
	by     notify.Confirmation
}

// maxRest is the longest time between two looks. The queue's key lives twice as long.
const maxRest = 30 * time.Second

// maxRestBehind is the same for those who are not the first.
const maxRestBehind = 10 * time.Second

// minRestBehind is the shortest time between two looks of those, however short leases are.
const minRestBehind = 500 * time.Millisecond

// maxUntold is the longest time between two looks at a lock that a client of Redisson has: its
// releases are told of, but not those of a RedissonSpinLock, nor of an operator.
const maxUntold = time.Second

// campaignFor starts a campaign unless one runs; with a queued attempt, if there is
// one. answered says that the server has answered somebody in the line. Guarded by the
// line.
func (ln *line) campaignFor(a *attempt, answered bool) {
	if ln.campaign != nil {
		return
	}
	c := &campaign{ln: ln, attempt: a, looks: make(chan struct{}, 1), begun: time.Now(), answered: answered}
	ln.campaign = c
	ln.ref()
	ln.c.tasks.Run(c.run)
}

// look makes the campaign see what has changed in its line.
func (c *campaign) look() {
	select {
	case c.looks <- struct{}{}:
	default:
	}
}

// join tells the campaign that another waits for l.
func (c *campaign) join(l *Lock) {
	if l.set.kind.byOwner {
		c.joined.Store(true)
		c.look()
	}
}

func (c *campaign) run() {
	defer c.ln.unref()
	defer func() {
		for _, u := range c.theirs {
			u.Leave()
		}
	}()
	for {
		head := c.next()
		if head == nil {
			return
		}
		// Before joining: a campaign that begins late, after its client's last task, would
		// subscribe when nobody closes subscriptions any more.
		if c.ln.c.isClosing() {
			c.ln.fail(exec.ErrClosed)
			continue
		}
		if c.sub == nil {
			c.sub = c.ln.c.notifier.Hear(c.ln.c.channelOf(head.l), c.ln.c.notified, c.look)
			defer c.sub.Leave()
		}
		if a := c.attempt; a != nil && !a.l.alike(head.l) {
			c.renewAttempt(head.l)
		} else if a == nil {
			c.attempt = head.l.newAttempt()
			c.listen()
			c.begun = time.Now()
		}
		if g := c.step(); g != nil && !c.ln.deliver(g) {
			// Whoever it was for has left. It keeps the place for whoever is first now.
			c.attempt = g.from
		}
	}
}

// next returns the first waiter. When there is none, it ends the campaign.
func (c *campaign) next() *waiter {
	c.ln.mu.Lock()
	defer c.ln.mu.Unlock()
	head := c.ln.head()
	if head == nil {
		c.ln.campaign = nil
		if c.attempt != nil {
			c.attempt.abandon()
		}
	}
	if c.leaving != nil { // or another has come, and keeps the place
		c.leaving()
		c.leaving = nil
	}
	return head
}

// renewAttempt begins another attempt in the place of the present one, which keeps it
// until the other is there: were it given up first, the next process could pass.
func (c *campaign) renewAttempt(l *Lock) {
	old := c.attempt
	c.attempt = l.newAttempt()
	c.listen()
	c.attempt.score = old.score
	c.attempt.before = old
}

// listen makes the attempt that of a waiter in this line.
func (c *campaign) listen() {
	c.attempt.listen(c.sub.Channel())
	c.attempt.met = c.ln.meets
}

// ask asks the server for the lock, and notes for the line what becomes of that.
func (c *campaign) ask(mode string) (any, error) {
	c.ln.ask()
	got, err := c.attempt.ask(context.Background(), mode, max(c.ln.fences(c.attempt.l), 1))
	c.ln.mu.Lock()
	defer c.ln.mu.Unlock()
	c.ln.hear(err)
	return got, err
}

// step asks the server once, and waits until there is a reason to ask again, or the
// line has changed. It returns a grant if there is one; the attempt is over then.
func (c *campaign) step() *grant {
	a := c.attempt
	if c.sub.Confirmations() > 0 && !c.sub.IsUp() {
		c.ln.ask() // the way to the server broke
	}
	if c.sub.Polls() {
		return c.poll(c.sub.IsUp())
	}
	c.polls = 0
	// mutants: subscribe-first
	up := c.sub.AwaitUp(time.Second)
	confirmations := c.sub.Confirmations()
	known := c.known
	c.known = nil
	if known != nil && known.of == a && known.queued.receivers > 0 && !known.queued.foreign && c.sub.Since(known.by) {
		return c.rest(a, known.queued)
	}
	mode := modeWait
	if a.placed {
		mode = modeLook
	}
	for _, u := range c.theirs {
		u.CatchUp()
	}
	got, err := c.ask(mode)
	counted := a.before != nil // among the owner's leases, if it was handed the lock
	a.succeed()
	if err != nil && counted && errors.Is(err, ErrDepth) {
		c.pause(jitter(100*time.Millisecond, 50))
		return nil
	}
	if err != nil {
		c.failed(err)
		return nil
	}
	c.answered = true
	switch got := got.(type) {
	case *grant:
		c.attempt = nil
		return got
	case gone:
		// Skipped as dead, or its queue was lost.
		c.renewAttempt(a.l)
		if mode == modeWait {
			// A server that says so of a token which is new is not to be hammered on.
			c.pause(jitter(500*time.Millisecond, 50))
		}
		return nil
	case queued:
		// mutants: subscription-seen
		if got.receivers == 0 {
			c.hidden = up
			c.sub.NotHeard(confirmations)
			return nil
		}
		c.hidden, c.deaf = false, time.Time{}
		c.sub.Heard()
		if got.foreign && got.rank == 1 && a.l.set.kind.overhear != nil && c.theirs == nil {
			c.theirs = a.l.set.kind.overhear(c.ln.c, a.l, c.look)
		}
		return c.rest(a, got)
	}
	c.failed(a.l.malformed("acquire"))
	return nil
}

// failed sees to an error of the attempt. A waiter outlives an outage: once the server
// has answered it, only its context bounds it.
func (c *campaign) failed(err error) {
	// What this attempt met need not meet the next: it may want less.
	own := errors.Is(err, errLate) || errors.Is(err, exec.ErrReplicas) || errors.Is(err, exec.ErrPermits) ||
		errors.Is(err, exec.ErrParties) || errors.Is(err, ErrDepth)
	if c.answered && !own && exec.Passing(exec.KindOf(err)) {
		c.pause(jitter(500*time.Millisecond, 50))
		return
	}
	l := c.attempt.l
	c.attempt.abandon()
	c.attempt = nil
	if own {
		c.ln.failHead(l, err)
		return
	}
	c.ln.fail(err)
}

// pause sleeps, unless the line changes.
func (c *campaign) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.looks:
	case <-c.ln.c.closing:
	}
}

// rest sleeps in the queue until a notification, or until it is time to look again.
func (c *campaign) rest(a *attempt, q queued) *grant {
	d := c.restTime(q)
	look := time.Now().Add(d)
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case m := <-a.inbox:
			if m.Standby != nil {
				// It may be older than what the server has answered since. And one after another must
				// not keep a waiter from looking at all.
				// mutants: standby-earlier
				if d := a.until(m.Standby) + rand.N(20*time.Millisecond); d < time.Until(look) {
					look = time.Now().Add(d)
					timer.Reset(d)
				}
				continue
			}
			return c.take(a, m.Grant)
		case <-timer.C:
			return nil
		case <-c.looks:
			// Only another head, or none, is a reason to stop resting; or another waiter of an
			// owner's, which may have the lock by now.
			// mutants: subscription-cut
			if c.sub.HasMissed() || c.joined.Swap(false) || !c.stillFor(a) {
				return nil
			}
			// What Redisson's clients are told by ours, ours need not hear.
			if q.foreign && q.rank == 1 && slices.ContainsFunc(c.theirs, (*notify.Listener).HasMissed) {
				return nil
			}
		case <-c.ln.c.closing:
			return nil
		}
	}
}

// stillFor reports whether the attempt is what the head of the line wants.
func (c *campaign) stillFor(a *attempt) bool {
	c.ln.mu.Lock()
	defer c.ln.mu.Unlock()
	head := c.ln.head()
	return head != nil && head.l.alike(a.l)
}

// restTime is how long to wait for a notification before looking: until the lock may
// expire for the first in the queue, a little longer for those behind, and not at once for
// everybody. Programs that do not notify are looked after more often.
func (c *campaign) restTime(q queued) time.Duration {
	switch {
	case q.rank > 1:
		d := jitter(min(maxRestBehind, 2*time.Second*time.Duration(q.rank)), 20)
		if q.expiry >= 0 {
			// Who is before this one may have died together with the holder.
			after := time.Duration(min(q.rank-1, 2))*100*time.Millisecond + rand.N(300*time.Millisecond)
			d = min(d, max(q.expiry, minRestBehind)+after)
		}
		return d
	case q.foreign:
		d := min(max(time.Since(c.begun)/8, 10*time.Millisecond), 250*time.Millisecond)
		if slices.ContainsFunc(c.theirs, (*notify.Listener).IsUp) {
			d = maxUntold
		}
		if q.expiry >= 0 {
			d = min(d, q.expiry+time.Millisecond)
		}
		return jitter(d, 20)
	case q.expiry < 0:
		return jitter(maxRest, 20)
	}
	return min(q.expiry, maxRest) + time.Millisecond + rand.N(10*time.Millisecond)
}

// until is how long it is, by our clock, until a standby is due: counted from when it
// was sent, or, if the server's clock was set forward since the anchor, from now.
func (a *attempt) until(s *wire.Standby) time.Duration {
	sinceAnchor := time.Duration(s.Due-a.anchor.Server)*time.Microsecond - clock.Since(a.anchor.Sent)
	sinceNow := time.Duration(s.Due-s.Now) * time.Microsecond
	return max(min(sinceAnchor, sinceNow), 0)
}

// take makes a grant of a notification, if the claim is good for long enough and the
// lease may begin with a claim, which no replica has confirmed; otherwise the next look
// confirms it.
func (c *campaign) take(a *attempt, n *wire.Grant) *grant {
	if !a.l.set.renew || a.l.set.maxRenewals == 0 || a.l.set.isDurable() {
		return nil
	}
	// Somebody has the lock here, as far as is known: whoever can publish must not end that.
	if c.ln.isHeld() || c.ln.c.triedFor(c.ln.key).isLive() {
		return nil
	}
	g, ok := a.claimed(n)
	if !ok {
		return nil
	}
	c.attempt = nil
	return g
}

// poll asks for the lock without queueing for it, for a server on which we cannot
// hear notifications.
func (c *campaign) poll(up bool) *grant {
	a := c.attempt
	if a.placed {
		c.renewAttempt(a.l)
		a = c.attempt
		a.succeed() // there is no place to keep
	}
	got, err := c.ask(modeTry)
	if err != nil {
		c.failed(err)
		return nil
	}
	c.answered = true
	if !up {
		c.polls++
	}
	if c.deaf.IsZero() {
		c.deaf = time.Now()
	}
	c.warnOfPolling()
	if g, ok := got.(*grant); ok {
		c.attempt = nil
		return g
	}
	c.pause(jitter(min(max(time.Since(c.begun)/8, 50*time.Millisecond), time.Second), 20))
	return nil
}
