package engine

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/notify"
)

// This file queues a process's next waiter with the request that releases the lock (docs/PROTOCOL.md, "release"): of a hold that is
// short, one request does what two would.

// follower is an attempt that is to be queued when a hold is released.
type follower struct {
	a       *attempt
	by      notify.Confirmation // of the subscription that will notify it
	after   *hold
	settled chan *standing // receives, once it was taken: what is known of its place, or nil
}

// maxFollow bounds how long a waiter is held back so that it can be queued with a release. Other processes that come meanwhile are
// before it.
const maxFollow = 10 * time.Millisecond

// follow waits for a short time for the release of the hold that the acquirer has just delivered, so that the next waiter, which wants
// the same lease, is queued with it. It returns false if it did not wait.
func (acq *acquirer) follow(h *hold) bool {
	wq := acq.queue
	c := wq.l.c
	by, up := c.listening(h.l)
	switch {
	case !up, acq.sub.Polls(), wq.waiting() == 0, !h.l.plain(), c.cfg.Strict, h.l.set.isDurable():
		return false
	case wq.fences(h.l) > 0: // the lock may be passed on within the process, for longer
		return false
	}
	f := &follower{a: h.l.newAttempt(), by: by, after: h, settled: make(chan *standing, 1)}
	acq.attempt, acq.began = f.a, time.Now()
	acq.listen()
	wq.mu.Lock()
	next := wq.head()
	waits := wq.current == h && next != nil && next.l.interchangeable(h.l)
	if waits {
		wq.contention.follower = f
	}
	wq.mu.Unlock()
	if !waits {
		return false
	}
	// mutants: follow-time
	timer := time.NewTimer(maxFollow)
	defer timer.Stop()
	settled := false
	select {
	case acq.standing = <-f.settled:
		settled = true
	case <-timer.C:
	case <-acq.wakeups:
		acq.wake() // whoever looks next is to know
	case <-c.closing:
	}
	if !settled && wq.takeFollower(h) == nil { // the release is under way
		acq.standing = <-f.settled
	}
	if acq.sub.HasMissed() {
		acq.standing = nil
	}
	return true
}

// takeFollower returns who is to be queued when the hold is released; or nil.
func (wq *waitQueue) takeFollower(h *hold) *follower {
	if wq == nil {
		return nil
	}
	wq.mu.Lock()
	defer wq.mu.Unlock()
	if wq.contention == nil || wq.contention.follower == nil || wq.contention.follower.after != h {
		return nil
	}
	f := wq.contention.follower
	wq.contention.follower = nil
	return f
}

// request returns what is asked for with the release. It does nothing if f is nil.
func (f *follower) request() *codec.Acquire {
	if f == nil {
		return nil
	}
	// mutants: follower-asked
	f.after.queue.noteAsked()
	a := f.a
	return &codec.Acquire{
		Token: a.token(), Info: a.l.set.info, NotAfter: a.l.c.notAfter(a.l), Claim: a.claim, Channel: a.channel,
	}
}

// settle notes what became of the release that asked for it, which was not sent before began. It does nothing if f is nil.
func (f *follower) settle(q *codec.Acquire, began clock.Instant, reply codec.ReleaseReply, unanswered bool, err error) {
	if f == nil {
		return
	}
	if err == nil { // or the attempt is about to ask
		wq := f.after.queue
		wq.mu.Lock()
		wq.noteOutcome(nil)
		wq.mu.Unlock()
	}
	// mutants: follower-unanswered
	f.a.sent(unanswered || err != nil && exec.MayBeDone(err), q.NotAfter)
	if err != nil || reply.Place == nil {
		f.settled <- nil
		return
	}
	// mutants: follower-owed
	f.a.owed = true
	own := f.a.own()
	own.score, own.enqueued, own.anchor = reply.Place.Score, true, exec.Anchor{Sent: began, Server: reply.Now}
	f.settled <- &standing{f.a, *reply.Place, f.by}
}
