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
type acquirer struct {
	queue        *waitQueue
	attempt      *attempt // nil between two
	sub          *notify.Listener
	overheard    []*notify.Listener // to Redisson's channels, once one of its clients was seen to hold the lock
	wakeups      chan struct{}      // holds an item when the line has changed
	unseen       bool               // the server did not know of the subscription last time
	polls        int                // answered in a row without a confirmed subscription
	pollingSince time.Time          // since when it polls; zero if the server knew of the subscription last time
	began        time.Time          // of the attempt, or the one whose place it has
	joined       atomic.Bool        // an owner's line has another waiter

	// answered says that the server has dealt with us once: what fails now may pass.
	answered bool
	// known is how the first attempt stands, until the first step; or nil.
	standing *standing
	// leaving ends the departure that began when the last waiter left, or is nil. Guarded by the line.
	leaving func()
}

// look is an answer, and by what its attempt could be notified when it asked.
type standing struct {
	of     *attempt
	queued queued
	by     notify.Confirmation
}

// maxRest is the longest time between two looks. The queue's key lives twice as long.
const maxSleep = 30 * time.Second

// maxRestBehind is the same for those who are not the first.
const maxSleepBehind = 10 * time.Second

// minRestBehind is the shortest time between two looks of those, however short leases are.
const minSleepBehind = 500 * time.Millisecond

// maxUntold is the longest time between two looks at a lock that a client of Redisson has: its
// releases are told of, but not those of a RedissonSpinLock, nor of an operator.
const maxSleepRedisson = time.Second

// campaignFor starts a campaign unless one runs; with a queued attempt, if there is
// one. answered says that the server has answered somebody in the line. Guarded by the
// line.
func (wq *waitQueue) startAcquirer(a *attempt, answered bool) {
	if wq.acquirer != nil {
		return
	}
	acq := &acquirer{queue: wq, attempt: a, wakeups: make(chan struct{}, 1), began: time.Now(), answered: answered}
	wq.acquirer = acq
	wq.ref()
	wq.c.tasks.Run(acq.run)
}

// look makes the campaign see what has changed in its line.
func (acq *acquirer) wake() {
	select {
	case acq.wakeups <- struct{}{}:
	default:
	}
}

// join tells the campaign that another waits for l.
func (acq *acquirer) join(l *Lock) {
	if l.set.kind.byOwner {
		acq.joined.Store(true)
		acq.wake()
	}
}

func (acq *acquirer) run() {
	defer acq.queue.unref()
	defer func() {
		for _, u := range acq.overheard {
			u.Leave()
		}
	}()
	for {
		head := acq.next()
		if head == nil {
			return
		}
		// Before joining: a campaign that begins late, after its client's last task, would
		// subscribe when nobody closes subscriptions any more.
		if acq.queue.c.isClosing() {
			acq.queue.fail(exec.ErrClosed)
			continue
		}
		if acq.sub == nil {
			acq.sub = acq.queue.c.notifier.Hear(acq.queue.c.channelOf(head.l), acq.queue.c.notified, acq.wake)
			defer acq.sub.Leave()
		}
		if a := acq.attempt; a != nil && !a.l.interchangeable(head.l) {
			acq.renewAttempt(head.l)
		} else if a == nil {
			acq.attempt = head.l.newAttempt()
			acq.listen()
			acq.began = time.Now()
		}
		if h := acq.step(); h != nil && !acq.queue.deliver(h) {
			// Whoever it was for has left. It keeps the place for whoever is first now.
			acq.attempt = h.from
		}
	}
}

// next returns the first waiter. When there is none, it ends the campaign.
func (acq *acquirer) next() *waiter {
	acq.queue.mu.Lock()
	defer acq.queue.mu.Unlock()
	head := acq.queue.head()
	if head == nil {
		acq.queue.acquirer = nil
		if acq.attempt != nil {
			acq.attempt.abandon()
		}
	}
	if acq.leaving != nil { // or another has come, and keeps the place
		acq.leaving()
		acq.leaving = nil
	}
	return head
}

// renewAttempt begins another attempt in the place of the present one, which keeps it
// until the other is there: were it given up first, the next process could pass.
func (acq *acquirer) renewAttempt(l *Lock) {
	old := acq.attempt
	acq.attempt = l.newAttempt()
	acq.listen()
	acq.attempt.score = old.score
	acq.attempt.before = old
}

// listen makes the attempt that of a waiter in this line.
func (acq *acquirer) listen() {
	acq.attempt.listen(acq.sub.Channel())
	acq.attempt.met = acq.queue.noteFailure
}

// ask asks the server for the lock, and notes for the line what becomes of that.
func (acq *acquirer) ask(mode string) (any, error) {
	acq.queue.noteAsked()
	got, err := acq.attempt.ask(context.Background(), mode, max(acq.queue.fences(acq.attempt.l), 1))
	acq.queue.mu.Lock()
	defer acq.queue.mu.Unlock()
	acq.queue.noteOutcome(err)
	return got, err
}

// step asks the server once, and waits until there is a reason to ask again, or the
// line has changed. It returns a grant if there is one; the attempt is over then.
func (acq *acquirer) step() *hold {
	a := acq.attempt
	if acq.sub.Confirmations() > 0 && !acq.sub.IsUp() {
		acq.queue.noteAsked() // the way to the server broke
	}
	if acq.sub.Polls() {
		return acq.poll(acq.sub.IsUp())
	}
	acq.polls = 0
	// mutants: subscribe-first
	up := acq.sub.AwaitUp(time.Second)
	confirmations := acq.sub.Confirmations()
	known := acq.standing
	acq.standing = nil
	if known != nil && known.of == a && known.queued.receivers > 0 && !known.queued.foreign && acq.sub.Since(known.by) {
		return acq.sleep(a, known.queued)
	}
	mode := modeWait
	if a.placed {
		mode = modeLook
	}
	for _, u := range acq.overheard {
		u.CatchUp()
	}
	got, err := acq.ask(mode)
	counted := a.before != nil // among the owner's leases, if it was handed the lock
	a.succeed()
	if err != nil && counted && errors.Is(err, ErrDepth) {
		acq.pause(jitter(100*time.Millisecond, 50))
		return nil
	}
	if err != nil {
		acq.failed(err)
		return nil
	}
	acq.answered = true
	switch got := got.(type) {
	case *hold:
		acq.attempt = nil
		return got
	case gone:
		// Skipped as dead, or its queue was lost.
		acq.renewAttempt(a.l)
		if mode == modeWait {
			// A server that says so of a token which is new is not to be hammered on.
			acq.pause(jitter(500*time.Millisecond, 50))
		}
		return nil
	case queued:
		// mutants: subscription-seen
		if got.receivers == 0 {
			acq.unseen = up
			acq.sub.NotHeard(confirmations)
			return nil
		}
		acq.unseen, acq.pollingSince = false, time.Time{}
		acq.sub.Heard()
		if got.foreign && got.rank == 1 && a.l.set.kind.overhear != nil && acq.overheard == nil {
			acq.overheard = a.l.set.kind.overhear(acq.queue.c, a.l, acq.wake)
		}
		return acq.sleep(a, got)
	}
	acq.failed(a.l.malformed("acquire"))
	return nil
}

// failed sees to an error of the attempt. A waiter outlives an outage: once the server
// has answered it, only its context bounds it.
func (acq *acquirer) failed(err error) {
	// What this attempt met need not meet the next: it may want less.
	own := errors.Is(err, errLate) || errors.Is(err, exec.ErrReplicas) || errors.Is(err, exec.ErrPermits) ||
		errors.Is(err, exec.ErrParties) || errors.Is(err, ErrDepth)
	if acq.answered && !own && exec.Passing(exec.KindOf(err)) {
		acq.pause(jitter(500*time.Millisecond, 50))
		return
	}
	l := acq.attempt.l
	acq.attempt.abandon()
	acq.attempt = nil
	if own {
		acq.queue.failHead(l, err)
		return
	}
	acq.queue.fail(err)
}

// pause sleeps, unless the line changes.
func (acq *acquirer) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-acq.wakeups:
	case <-acq.queue.c.closing:
	}
}

// rest sleeps in the queue until a notification, or until it is time to look again.
func (acq *acquirer) sleep(a *attempt, q queued) *hold {
	d := acq.sleepTime(q)
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
			return acq.take(a, m.Grant)
		case <-timer.C:
			return nil
		case <-acq.wakeups:
			// Only another head, or none, is a reason to stop resting; or another waiter of an
			// owner's, which may have the lock by now.
			// mutants: subscription-cut
			if acq.sub.HasMissed() || acq.joined.Swap(false) || !acq.stillFor(a) {
				return nil
			}
			// What Redisson's clients are told by ours, ours need not hear.
			if q.foreign && q.rank == 1 && slices.ContainsFunc(acq.overheard, (*notify.Listener).HasMissed) {
				return nil
			}
		case <-acq.queue.c.closing:
			return nil
		}
	}
}

// stillFor reports whether the attempt is what the head of the line wants.
func (acq *acquirer) stillFor(a *attempt) bool {
	acq.queue.mu.Lock()
	defer acq.queue.mu.Unlock()
	head := acq.queue.head()
	return head != nil && head.l.interchangeable(a.l)
}

// restTime is how long to wait for a notification before looking: until the lock may
// expire for the first in the queue, a little longer for those behind, and not at once for
// everybody. Programs that do not notify are looked after more often.
func (acq *acquirer) sleepTime(q queued) time.Duration {
	switch {
	case q.rank > 1:
		d := jitter(min(maxSleepBehind, 2*time.Second*time.Duration(q.rank)), 20)
		if q.expiry >= 0 {
			// Who is before this one may have died together with the holder.
			after := time.Duration(min(q.rank-1, 2))*100*time.Millisecond + rand.N(300*time.Millisecond)
			d = min(d, max(q.expiry, minSleepBehind)+after)
		}
		return d
	case q.foreign:
		d := min(max(time.Since(acq.began)/8, 10*time.Millisecond), 250*time.Millisecond)
		if slices.ContainsFunc(acq.overheard, (*notify.Listener).IsUp) {
			d = maxSleepRedisson
		}
		if q.expiry >= 0 {
			d = min(d, q.expiry+time.Millisecond)
		}
		return jitter(d, 20)
	case q.expiry < 0:
		return jitter(maxSleep, 20)
	}
	return min(q.expiry, maxSleep) + time.Millisecond + rand.N(10*time.Millisecond)
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
func (acq *acquirer) take(a *attempt, n *wire.Grant) *hold {
	if !a.l.set.renew || a.l.set.maxRenewals == 0 || a.l.set.isDurable() {
		return nil
	}
	// Somebody has the lock here, as far as is known: whoever can publish must not end that.
	if acq.queue.isHeld() || acq.queue.c.unqueuedFor(acq.queue.key).isLive() {
		return nil
	}
	h, ok := a.claimed(n)
	if !ok {
		return nil
	}
	acq.attempt = nil
	return h
}

// poll asks for the lock without queueing for it, for a server on which we cannot
// hear notifications.
func (acq *acquirer) poll(up bool) *hold {
	a := acq.attempt
	if a.placed {
		acq.renewAttempt(a.l)
		a = acq.attempt
		a.succeed() // there is no place to keep
	}
	got, err := acq.ask(modeTry)
	if err != nil {
		acq.failed(err)
		return nil
	}
	acq.answered = true
	if !up {
		acq.polls++
	}
	if acq.pollingSince.IsZero() {
		acq.pollingSince = time.Now()
	}
	acq.warnOfPolling()
	if h, ok := got.(*hold); ok {
		acq.attempt = nil
		return h
	}
	acq.pause(jitter(min(max(time.Since(acq.began)/8, 50*time.Millisecond), time.Second), 20))
	return nil
}
