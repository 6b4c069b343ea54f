package engine

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/notify"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// This file queues a process's next waiter with the request that releases the lock (docs/PROTOCOL.md, "release"). That saves a request for
// each short hold.

// follower is an attempt that is to be queued by the release of a hold.
type follower struct {
	a       *attempt
	by      notify.Confirmation // the subscription that will notify the attempt
	after   *hold
	settled chan *standing // receives what is known of the attempt's place, or nil, once the follower was taken

	// Guarded by the wait queue.
	notAfter int64 // that of the release that carries the follower; 0 while there is none
	left     bool  // the acquirer has gone on without the reply, and alone has the attempt
}

// maxFollow bounds how long a waiter is held back so that it can be queued with a release. Other processes that enter the queue in that
// time get ahead of it.
const maxFollow = 10 * time.Millisecond

// follow waits briefly for the release of the hold that the acquirer has just delivered, so that the next waiter, if it wants the same
// lease, is queued with it. It returns false if it did not wait.
func (acq *acquirer) follow(h *hold) bool {
	wq := acq.queue
	c := wq.l.c
	by, up := c.listening(h.l)
	switch {
	case !up, acq.sub.Polls(), wq.waiting.Load() == 0, !h.l.Set.Kind.Native, c.Config.Strict, h.l.Set.Durable:
		return false
	case wq.fences(h.l) > 0: // the lock may be passed on within the process, for longer
		return false
	case h.attempt.freePath() != nil: // nobody else waits: if the next waiter queues by itself, it is handed the lock
		return false
	}
	acq.begin(h.l)
	acq.began = time.Now()
	f := &follower{a: acq.attempt, by: by, after: h, settled: make(chan *standing, 1)}
	f.a.anchor = h.attempt.anchor // in case a notification comes before the reply
	wq.mu.Lock()
	next := wq.first
	waits := wq.current == h && next != nil && next.l.interchangeable(h.l)
	if waits {
		wq.follower = f
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
		acq.wakeups.wake() // keep the item for the next look at the queue
	case <-c.Closing:
	}
	if !settled && wq.takeFollower(h) == nil { // the release is under way
		acq.standing = wq.awaitRelease(f)
	}
	if acq.sub.HasMissed() {
		acq.standing = nil
	}
	return true
}

// awaitRelease waits until the release that carries f is settled, and returns what is known of f's place, or nil. If f is notified that it
// has the lock, and the reply is still missing a few round trips later, awaitRelease gives up.
func (wq *waitQueue) awaitRelease(f *follower) *standing {
	var kept []wire.Message
	defer func() {
		for _, m := range kept {
			f.a.notify(m)
		}
	}()
	var late <-chan time.Time
	for {
		select {
		case s := <-f.settled:
			return s
		case m := <-f.a.inbox:
			kept = append(kept, m)
			if m.Grant != nil && late == nil {
				late = time.After(4*wq.l.c.Server.RTT.Mean() + renewalGrace)
			}
		case <-late:
			// mutants: follower-leaves
			return wq.leave(f)
		}
	}
}

// leave makes the acquirer go on with a notified attempt as if the release that carries it had gone unanswered.
func (wq *waitQueue) leave(f *follower) *standing {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	select {
	case s := <-f.settled:
		return s
	default:
	}
	f.left = true
	f.a.sent(true, f.notAfter)
	if f.a.anchor == (exec.Anchor{}) {
		return nil
	}
	f.a.enqueued = true
	return &standing{f.a, codec.Place{TTL: -1, Rank: 1, Receivers: 1}, f.by}
}

// takeFollower removes and returns the follower to be queued when the hold is released, or nil.
func (wq *waitQueue) takeFollower(h *hold) *follower {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	f := wq.follower
	if f == nil || f.after != h {
		return nil
	}
	wq.follower = nil
	return f
}

// dismissFollower lets the acquirer go on at once, since the hold has ended, and no request was sent that could have carried its follower.
// It does nothing if there is no follower.
func (wq *waitQueue) dismissFollower(h *hold) {
	if f := wq.takeFollower(h); f != nil {
		f.settled <- nil
	}
}

// request returns what the release asks for on behalf of f; nil if f has left.
func (f *follower) request() *codec.Acquire {
	a, wq := f.a, f.after.queue
	notAfter := a.l.NotAfter()
	// mutants: follower-asked
	wq.noteAsked()
	wq.mu.Lock()
	defer wq.mu.Unlock()
	if f.left { // because of a false notification: nothing was sent
		return nil
	}
	f.notAfter = notAfter
	// mutants: follower-promises
	return &codec.Acquire{Token: a.Token(), Info: a.l.Set.Info, NotAfter: notAfter, Claim: a.claim, By: a.by, Channel: a.channel}
}

// settle notes the outcome of the release that carried f, which was not sent before began.
func (f *follower) settle(q *codec.Acquire, began clock.Instant, reply codec.Reply, unanswered bool, err error) {
	wq := f.after.queue
	wq.mu.Lock()
	defer wq.mu.Unlock()
	if err == nil { // otherwise the acquirer is about to ask
		wq.noteOutcome(nil)
	}
	if f.left {
		return
	}
	// mutants: follower-unanswered
	f.a.sent(unanswered || err != nil && exec.MayBeDone(err), q.NotAfter)
	if err != nil || reply.Place == nil {
		// mutants: follower-placed
		f.settled <- nil
		return
	}
	// mutants: follower-owed
	f.a.owed = true
	own := f.a.own()
	own.score, own.enqueued, own.anchor = reply.Place.Score, true, exec.Anchor{Sent: began, Server: reply.Now}
	f.settled <- &standing{f.a, *reply.Place, f.by}
}
