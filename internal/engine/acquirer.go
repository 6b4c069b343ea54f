package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/schedule"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// acquirer acquires a lock from the server for the waiters of a wait queue. It runs while there are waiters, and makes one attempt after
// another, each for the waiter that is first at the time. An attempt sleeps in the server's queue until it is notified. Since notifications
// can be lost, the acquirer also checks its place from time to time.
type acquirer struct {
	queue               *waitQueue
	attempt             *attempt // nil between attempts
	sub                 *notify.Listener
	overheard           []*notify.Listener // on Redisson's channels; nil until a client of Redisson has held the lock
	wakeups             wakeups            // when the wait queue or a subscription has changed
	subscriptionUnknown bool               // at the last check the server did not have the subscription
	polls               int                // polls answered in a row while no subscription was confirmed
	pollingSince        time.Time          // when polling began; zero if the server had the subscription at the last check
	began               time.Time          // when the attempt began; if it took another's place, when that one did

	// answered reports that the server has answered a request for this queue: later failures may pass.
	answered bool
	// standing is the reply that queued the attempt before the acquirer had asked: askFirst's, or that of a release (see follow). It is nil
	// once it has been used.
	standing *standing
	// leaving ends the departure that began when the last waiter left; it is nil if there is none. Guarded by queue.mu.
	leaving func()
	// lastLook is closed once the server has been asked again for a waiter: one whose time is up, or one that joins others for an owner's
	// lock, which its owner may hold by now. When a request is sent, lastLook moves to looking, which is closed when the request has ended.
	// Both may be nil; guarded by queue.mu.
	lastLook, looking chan struct{}
}

// standing is the reply that queued an attempt, and the subscription that could notify the attempt when the request was sent.
type standing struct {
	of    *attempt
	place codec.Place
	by    notify.Confirmation
}

// maxSleep is the longest time between two checks. The server keeps the queue's key for twice as long.
const maxSleep = 30 * time.Second

// maxSleepBehind is the longest time between two checks by a waiter that is not first.
const maxSleepBehind = 10 * time.Second

// minSleepBehind is the shortest time between two such checks, however short the leases are.
const minSleepBehind = 500 * time.Millisecond

// maxSleepStrict is the longest time between two checks by the first waiter in Strict mode: nobody is told when a quarantine is ended.
const maxSleepStrict = 5 * time.Second

// maxSleepRedisson is the longest time between two checks of a lock held by a client of Redisson. Such clients announce their releases,
// except a RedissonSpinLock. Nothing announces that an operator has deleted the lock.
const maxSleepRedisson = time.Second

// startAcquirer starts an acquirer unless one is running. If a is not nil, it is queued already, and the acquirer begins with it. answered
// reports that the server has answered a request for this queue. The caller holds wq.mu.
func (wq *waitQueue) startAcquirer(a *attempt, answered bool) {
	if wq.acquirer != nil {
		return
	}
	acq := &acquirer{queue: wq, attempt: a, wakeups: make(wakeups, 1), began: time.Now(), answered: answered}
	wq.acquirer = acq
	wq.refs.Add(1)
	wq.l.c.Tasks.Run(acq.run)
}

// wakeups holds an item if whoever waits for it has a reason to look again.
type wakeups chan struct{}

func (w wakeups) wake() {
	select {
	case w <- struct{}{}:
	default:
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
		l := acq.next()
		if l == nil {
			return
		}
		// Check before subscribing. If this acquirer is the client's last task, Close may have closed the subscriptions already, and
		// nothing would close a new one.
		if acq.queue.l.c.IsClosing() {
			acq.queue.fail(exec.ErrClosed)
			continue
		}
		if acq.sub == nil {
			acq.sub = acq.queue.l.c.notifier.Hear(acq.queue.l.c.channelOf(l), acq.queue.l.c.notified, acq.wakeups.wake)
			defer acq.sub.Leave()
		}
		if a := acq.attempt; a != nil && !a.l.interchangeable(l) {
			acq.renewAttempt(l)
		} else if a == nil {
			acq.begin(l)
			acq.began = time.Now()
		}
		switch h := acq.step(); {
		case h == nil:
		case acq.queue.deliver(h):
			if h.attempt.enqueued {
				acq.queue.l.c.waited.Store(int64(time.Since(acq.began)))
			}
			// Let the waiter run first: asking for the next lock takes longer than everything since the message came. But if the lock can
			// be passed on within the process, ask for it at once: by the time its waiters have run, the passes may be used up.
			if !acq.follow(h) && acq.queue.fences(l) == 0 {
				runtime.Gosched()
			}
		default:
			// The waiter has left. The attempt keeps its place for the waiter that is first now.
			acq.attempt = &h.attempt
		}
	}
}

// next returns the lock that the first waiter wants. If there is none, next ends the acquirer and returns nil.
func (acq *acquirer) next() *Target {
	acq.queue.mu.Lock()
	defer acq.queue.mu.Unlock()
	acq.endLook()
	head := acq.queue.first
	if head == nil {
		acq.queue.acquirer = nil
		if acq.attempt != nil {
			acq.attempt.Abandon()
		}
	}
	if acq.leaving != nil { // the attempt was abandoned above, or another waiter keeps its place
		acq.leaving()
		acq.leaving = nil
	}
	if head == nil {
		return nil
	}
	return head.l
}

// renewAttempt starts another attempt, which takes the present one's place in the server's queue. The present attempt keeps the place until
// then: if it left first, the next process would move up.
func (acq *acquirer) renewAttempt(l *Target) {
	old := acq.attempt
	acq.begin(l)
	acq.attempt.score, acq.attempt.predecessor = old.score, old
}

// begin begins an attempt that can be queued and notified.
func (acq *acquirer) begin(l *Target) {
	acq.attempt = l.newAttempt()
	acq.attempt.listen(acq.sub.Channel())
}

// ask asks the server for the lock and notes the outcome in the wait queue.
func (acq *acquirer) ask(mode codec.Mode) (*hold, *codec.Reply, error) {
	acq.queue.noteAsked()
	acq.queue.mu.Lock()
	acq.looking, acq.lastLook = acq.lastLook, nil
	acq.queue.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a := acq.attempt
	var met error
	a.own().onFailure = func(err error) {
		met = err
		acq.queue.noteFailure(err)
		// mutants: grant-beside-failures
		if len(a.inbox) > 0 {
			cancel() // read the message before trying again
		}
	}
	h, reply, err := a.ask(ctx, time.Time{}, mode, max(acq.queue.fences(a.l), 1))
	if ctx.Err() != nil {
		err = met // callers know nothing of ctx
	}
	acq.queue.mu.Lock()
	defer acq.queue.mu.Unlock()
	acq.queue.noteOutcome(err)
	if h == nil { // otherwise next ends the look, once the hold is delivered
		acq.endLook()
	}
	return h, reply, err
}

// step asks the server once, and waits until there is a reason to ask again or the wait queue has changed. If it returns a hold, the
// attempt has ended.
func (acq *acquirer) step() *hold {
	a := acq.attempt
	if acq.sub.Confirmations() > 0 && !acq.sub.IsUp() {
		acq.queue.noteAsked() // the connection broke, so the server owes an answer again
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
	if known != nil && known.of == a && known.place.Receivers > 0 && !known.place.Foreign && acq.sub.Since(known.by) {
		return acq.sleep(a, known.place)
	}
	mode := codec.Wait
	if a.enqueued {
		mode = codec.Look
	}
	for _, u := range acq.overheard {
		u.CatchUp()
	}
	h, reply, err := acq.ask(mode)
	replaces := a.predecessor != nil
	behindOwn := replaces && a.predecessor.enqueued
	a.abandonPredecessor()
	if err != nil && replaces && errors.Is(err, lock.ErrDepth) {
		// If the predecessor was handed the lock, it counts as one of the owner's leases until it is taken back.
		acq.pause(schedule.Jitter(100*time.Millisecond, 50))
		return nil
	}
	if err != nil {
		return acq.failed(err)
	}
	acq.answered = true
	if h != nil {
		acq.attempt = nil
		return h
	}
	switch reply.Word {
	case codec.Gone:
		// The server skipped the attempt as dead, or lost its queue.
		a.enqueued = false
		acq.renewAttempt(a.l)
		if mode == codec.Wait {
			// The server does not know a token that it was just sent. Do not hammer it.
			acq.pause(schedule.Jitter(500*time.Millisecond, 50))
		}
		return nil
	case codec.Queued:
		place := *reply.Place
		// mutants: place-taken
		if behindOwn && place.Rank > 1 {
			// The predecessor was counted, and its departure is news to nobody if it stands behind this attempt: both have the same score.
			place.Rank--
		}
		// mutants: subscription-seen
		if place.Receivers == 0 {
			acq.subscriptionUnknown = up
			acq.sub.NotHeard(confirmations)
			return nil
		}
		acq.subscriptionUnknown, acq.pollingSince = false, time.Time{}
		acq.sub.Heard()
		if place.Foreign && place.Rank == 1 && acq.overheard == nil {
			acq.overheard = acq.queue.l.c.overhear(a.l, acq.wakeups.wake)
		}
		return acq.sleep(a, place)
	}
	return acq.failed(a.l.Malformed("acquire"))
}

// failed handles an error of the attempt. A waiter outlives an outage: once the server has answered it, only its context bounds the wait.
// If a message grants the lock meanwhile, failed returns the hold.
func (acq *acquirer) failed(err error) *hold {
	l := acq.attempt.l
	// A single late reply may be bad luck. If leases are shorter than the round trip, every reply is late.
	if acq.answered && errors.Is(err, errLate) && l.c.Server.RTT.Mean() < l.Set.Term() {
		acq.renewAttempt(l)
		if acq.sub.Polls() {
			acq.attempt.abandonPredecessor() // a poll has no place to keep
		}
		return nil
	}
	// These errors concern only this attempt: the next waiter may want less.
	own := errors.Is(err, errLate) || errors.Is(err, exec.ErrReplicas) || errors.Is(err, exec.ErrPermits) ||
		errors.Is(err, exec.ErrParties) || errors.Is(err, lock.ErrDepth)
	// A message is an answer, too: the server has queued the attempt, whose reply was lost.
	// mutants: answered-by-message
	answered := acq.answered || len(acq.attempt.inbox) > 0
	if answered && !own && exec.Passing(exec.KindOf(err)) {
		// mutants: failed-listens
		return acq.sleepFor(acq.attempt, codec.Place{}, schedule.Jitter(500*time.Millisecond, 50))
	}
	acq.attempt.Abandon()
	acq.attempt = nil
	if own {
		acq.queue.failHead(l, err)
		return nil
	}
	acq.queue.fail(err)
	return nil
}

// pause sleeps for d, until the acquirer is woken, or until the client closes.
func (acq *acquirer) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-acq.wakeups:
	case <-acq.queue.l.c.Closing:
	}
}

// sleep waits in the server's queue for a notification, or until the next check is due.
func (acq *acquirer) sleep(a *attempt, q codec.Place) *hold {
	d := acq.sleepTime(q)
	if a.owesLook {
		// mutants: promised-look
		d = min(d, a.untilDue(&wire.Standby{Now: a.anchor.Server, Due: a.by * 1000})+rand.N(20*time.Millisecond))
	}
	return acq.sleepFor(a, q, d)
}

// sleepFor is sleep with the next check after d, or earlier if a message asks for that.
func (acq *acquirer) sleepFor(a *attempt, q codec.Place, d time.Duration) *hold {
	checkAt := time.Now().Add(d)
	timer := time.NewTimer(d)
	defer timer.Stop()
	var look <-chan time.Time
	if c := acq.queue.l.c; c.Config.Strict {
		wait := quarantineLook
		if c.quarantineLeft() == 0 {
			wait = max(wait, quarantineKnown-clock.Mono()+clock.Reading(c.grantingFrom.Load()))
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		look = timer.C
	}
	for {
		select {
		case <-look:
			acq.queue.l.c.Tasks.Run(func() { acq.queue.lookForQuarantine(a.l) })
		case m := <-a.inbox:
			if m.Standby != nil {
				// A standby only moves the check forward. It may be older than the server's last reply, and a series of standbys must not
				// keep the waiter from ever checking.
				// mutants: standby-earlier
				if d := a.untilDue(m.Standby) + rand.N(20*time.Millisecond); d < time.Until(checkAt) {
					checkAt = time.Now().Add(d)
					timer.Reset(d)
				}
				continue
			}
			return acq.accept(a, m.Grant)
		case <-timer.C:
			return nil
		case <-acq.wakeups:
			acq.queue.mu.Lock()
			head := acq.queue.first
			changed := head == nil || !head.l.interchangeable(a.l) || acq.lastLook != nil
			acq.queue.mu.Unlock()
			// Stop sleeping if messages may have been missed, or if the first waiter wants something else, or some waiter another look.
			// mutants: subscription-cut
			if acq.sub.HasMissed() || changed {
				return nil
			}
			// Messages on Redisson's channels matter only while a client of Redisson has the lock: Holdfast's clients announce their
			// releases there, too.
			if q.Foreign && q.Rank == 1 && slices.ContainsFunc(acq.overheard, (*notify.Listener).HasMissed) {
				return nil
			}
		case <-acq.queue.l.c.Closing:
			return nil
		}
	}
}

// sleepTime returns how long to wait for a notification before the next check. The first waiter in the queue checks when the lock may
// expire. Waiters behind it check a little later, and not all at once. If the holder will not notify this queue, checks are more frequent.
func (acq *acquirer) sleepTime(q codec.Place) time.Duration {
	switch {
	case q.Rank > 1:
		d := schedule.Jitter(min(maxSleepBehind, 2*time.Second*time.Duration(q.Rank)), 20)
		if q.TTL >= 0 {
			// The waiters ahead may have died together with the holder.
			after := time.Duration(min(q.Rank-1, 2))*100*time.Millisecond + rand.N(300*time.Millisecond)
			d = min(d, max(q.TTL, minSleepBehind)+after)
		}
		return d
	case q.Foreign:
		d := min(max(time.Since(acq.began)/8, 10*time.Millisecond), 250*time.Millisecond)
		if slices.ContainsFunc(acq.overheard, (*notify.Listener).IsUp) {
			d = maxSleepRedisson
		}
		if q.TTL >= 0 {
			d = min(d, q.TTL+time.Millisecond)
		}
		return schedule.Jitter(d, 20)
	case q.TTL < 0:
		return schedule.Jitter(maxSleep, 20)
	case acq.queue.l.c.Config.Strict:
		return min(q.TTL, maxSleepStrict) + time.Millisecond + rand.N(10*time.Millisecond)
	}
	return min(q.TTL, maxSleep) + time.Millisecond + rand.N(10*time.Millisecond)
}

// untilDue returns how long it is until a standby is due. It counts from the anchor, or from now if that is sooner: the server's clock may
// have been set forward since the anchor.
func (a *attempt) untilDue(s *wire.Standby) time.Duration {
	sinceAnchor := time.Duration(s.Due-a.anchor.Server)*time.Microsecond - clock.Since(a.anchor.Sent)
	sinceNow := time.Duration(s.Due-s.Now) * time.Microsecond
	return max(min(sinceAnchor, sinceNow), 0)
}

// accept makes a hold from a notification. It returns nil if the next check has to confirm the grant: because the claim is over or nearly
// so, or because the lease may not begin with a claim, which no replica has confirmed.
func (acq *acquirer) accept(a *attempt, n *wire.Grant) *hold {
	if !a.l.Set.Renew || a.l.Set.Durable {
		return nil
	}
	// If this process believes that it holds the lock, only the server's own reply may end that: anyone who can publish could have sent the
	// notification.
	acq.queue.mu.Lock()
	held := acq.queue.current.isLive()
	acq.queue.mu.Unlock()
	if held {
		return nil
	}
	h, ok := a.holdFromMessage(n)
	if !ok {
		return nil
	}
	acq.attempt = nil
	return h
}

// poll asks for the lock without queueing, because notifications from this server do not arrive. up reports whether the subscription is
// confirmed all the same.
func (acq *acquirer) poll(up bool) *hold {
	a := acq.attempt
	if a.enqueued {
		acq.renewAttempt(a.l)
		a = acq.attempt
		a.abandonPredecessor() // a poll has no place to keep
	}
	h, reply, err := acq.ask(codec.Try)
	if err != nil {
		return acq.failed(err)
	}
	acq.answered = true
	if !up {
		acq.polls++
	}
	if acq.pollingSince.IsZero() {
		acq.pollingSince = time.Now()
	}
	acq.warnOfPolling()
	if h != nil {
		acq.attempt = nil
		return h
	}
	if reply.Word == codec.Quarantined {
		acq.queue.l.c.noteQuarantine(reply.Refusal.Quarantine)
	}
	acq.pause(schedule.Jitter(min(max(time.Since(acq.began)/8, 50*time.Millisecond), time.Second), 20))
	return nil
}

// lookOnceMore makes the acquirer ask the server again. The channel it returns is closed once that is done, and the first waiter has been
// served if the lock was granted. The caller holds queue.mu.
func (acq *acquirer) lookOnceMore() <-chan struct{} {
	if acq.lastLook == nil {
		acq.lastLook = make(chan struct{})
	}
	acq.wakeups.wake()
	return acq.lastLook
}

// endLook tells waiters whose time is up that the server has been asked again. The caller holds queue.mu.
func (acq *acquirer) endLook() {
	if acq.looking != nil {
		close(acq.looking)
		acq.looking = nil
	}
}

// silentPolls is how many polls are answered without a confirmed subscription before the client warns.
const silentPolls = 3

// warnOfPolling warns if the server answers but its notifications do not reach this waiter. It is not in a hurry: after an outage, a
// subscription may come back later than the first replies.
func (acq *acquirer) warnOfPolling() {
	w := lock.Warning{
		What:        "waiters cannot be notified, so they poll",
		Consequence: "they get the lock late, have no place in the queue, and load the server",
		Remedy:      "let pub/sub reach the server itself, or poll on purpose, with the Poll option",
	}
	switch {
	case acq.sub.IsRefused():
		w.Seen = "the server's ACL refuses the subscription"
		w.Remedy = "allow subscribe, publish and the channels; see docs/SECURITY.md"
	case acq.subscriptionUnknown && acq.queue.l.c.Server.InCluster():
		// While a slot moves key by key, its old node has the subscription and its new one the lock. That passes.
		if time.Since(acq.pollingSince) < maxSleep {
			return
		}
		w.Seen = "a subscription is confirmed, but the lock's node does not have it; is its slot being moved, or is there a proxy in front of the Cluster?"
		w.Remedy = "wait if slots are being moved: it passes; otherwise let pub/sub reach the nodes themselves, or poll on purpose, with the Poll option"
	case acq.subscriptionUnknown:
		w.Seen = "a subscription is confirmed, but the server does not have it; is there a proxy in front of it?"
	case acq.polls >= silentPolls:
		w.Seen = "no subscription is confirmed, although scripts are answered; is there a proxy in front of the server?"
	default:
		return
	}
	acq.queue.l.c.Warn(w)
}
