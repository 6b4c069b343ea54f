package engine

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/pipe"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// This file acquires a free mutex, and releases one that nobody waits for, with the server's own commands (docs/PROTOCOL.md, "The free
// path"). Everything else is left to the scripts, which handle every case.

// takeFree acquires the lock for a new token if the lock looks free and nobody waits for it. If it returns neither a hold nor an error, a
// script has to ask, with another token. began is when the request was sent; zero if none was.
func (l *Target) takeFree(ctx context.Context) (h *hold, began time.Time, err error) {
	c := l.c
	// mutants: free-scope
	if !l.Set.Kind.Native || l.Set.SeenAs != "" || c.Config.Strict || l.Set.Durable || c.contended.has(l.Keys.Lock) || c.transactions.areAvoided() {
		return nil, began, nil
	}
	p := c.Server.Pipe(l.Keys.Lock)
	if p == nil {
		return nil, began, nil
	}
	began = time.Now()
	a := *l.newAttempt() // a hold copies it, so it escapes to the heap only if it has to be ended
	call := a.newCall(pipe.Acquire)
	err = c.Server.SendOn(ctx, p, call)
	outcome := err
	if err == nil || !exec.MayBeDone(err) {
		c.noteTransaction(call, err)
	}
	switch {
	case err == nil && !call.Done:
		c.contended.add(l.Keys.Lock)
		c.calls.Put(call)
		return nil, began, nil
	case err == nil && l.isGrant(ctx, p, call):
		if h, err = a.takesSet(call); err == nil {
			c.calls.Put(call)
			return h, began, nil
		}
	// mutants: unanswered-set
	case err != nil && exec.MayBeDone(err):
		// mutants: ghost-noted
		a.own().ghost, a.own().set = call.Expiry, call
	// mutants: refused-set
	case err != nil && !call.Done:
		return nil, began, nil // nothing was done
	}
	// mutants: ended-token
	err = a.end(ctx, began)
	if err == nil { // the server answers scripts
		c.noteTransaction(call, outcome)
	}
	return nil, began, err
}

const noLead = 1 << 30

// forgetSet notes that the lock's value may have changed.
func (a *attempt) forgetSet() { atomic.StoreUint32(&a.lead, 0) }

// takesSet makes the hold of a lock that was set and is acquired.
func (a *attempt) takesSet(call *pipe.Call) (*hold, error) {
	a.owed = true
	if lead := int64(call.Fence.Ms) - call.Granted + noLead; 0 < lead && lead < 2*noLead {
		a.lead = uint32(lead)
	}
	// A fence that would overflow is replaced by one that is still too high to be believed.
	// mutants: fence-fits
	fence := min(call.Fence.Ms, 1<<50)*1000 + call.Fence.Seq
	// mutants: set-deadline
	return a.takes(call.Sent, call.Heard, call.Now, call.Left, fence, 1)
}

// isGrant reports whether a lock that was set is acquired: nobody waited for it, its fence can be used, and it lasts about as long as it
// should. It asks the server once more if the call does not tell whether somebody is queued.
func (l *Target) isGrant(ctx context.Context, p *pipe.Pipe, call *pipe.Call) bool {
	term, left := l.Set.Term(), call.Left
	leeway := max(term/20, 20*time.Millisecond)
	switch {
	// mutants: late-expiry
	case left <= 0, left > term+leeway, left < term-leeway && !l.Set.Unbounded(), call.Fence.Seq >= 1000:
		return false
	// mutants: barging
	case call.Queues > 0 && (call.Others == 0 || l.isAwaited(ctx, p)):
		l.c.contended.add(l.Keys.Lock)
		return false
	}
	return true
}

// isAwaited reports whether somebody may be queued for the lock.
func (l *Target) isAwaited(ctx context.Context, p *pipe.Pipe) bool {
	exists := pipe.Call{Words: []string{"EXISTS", l.Keys.Queue}}
	err := l.c.Server.SendOn(ctx, p, &exists)
	return err != nil || exists.Text != "0"
}

// end releases what the token has, or may get, after a SET that is no grant. Once end has returned nil, a script may ask for the lock, with
// another token.
func (a attempt) end(ctx context.Context, began time.Time) error {
	c, l := a.l.c, a.l
	a.owed = true
	err := ctx.Err()
	if err == nil {
		var reply codec.Reply
		if reply, _, err = c.release(ctx, began, l, codec.Release{Token: a.Token()}, a.ending); err == nil {
			// mutants: ghost-left
			if a.ghost != 0 && reply.Word != codec.Released {
				c.Tasks.Run(func() { a.releaseGhost(firstGhostPause) })
			}
			return nil
		}
	}
	// mutants: end-given-up
	a.Abandon()
	if err == ctx.Err() {
		return c.Server.Unheard(ctx, "acquire", l.Name(), began)
	}
	var f *exec.Failure
	if errors.As(err, &f) {
		f.Op, f.Ambiguous = "acquire", true
	}
	return err
}

// releaseGhost releases the lock repeatedly, first after pause, for as long as an unanswered SET may still be carried out: nothing makes
// the server refuse it. Whatever the SET sets expires by the end of that time. Once a release has released the lock, or the SET has been
// answered, no further release is needed. An outage can leave thousands of such tokens, so few releases run at once.
func (a *attempt) releaseGhost(pause time.Duration) {
	c, l := a.l.c, a.l
	rest := time.Duration(a.ghost-c.Server.Time(l.Slot())/1000) * time.Millisecond
	if rest < 0 {
		return
	}
	select {
	// mutants: ghosts-spread
	case <-time.After(min(schedule.Jitter(pause, 20), rest+time.Millisecond)):
	case <-c.Closing:
		return
	}
	// mutants: ghosts-bounded
	c.serverOf(l).reclaim(func(hopeless bool) bool {
		if hopeless {
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), rest+c.Config.CommandTimeout)
		defer cancel()
		settled := a.set.IsSettled() // before this release is sent: an earlier one may have overtaken the SET
		reply, _, err := c.release(ctx, time.Now(), l, codec.Release{Token: a.Token()}, a.ending)
		// mutants: ghost-released
		if err != nil || !settled && reply.Word != codec.Released {
			c.Tasks.Run(func() { a.releaseGhost(min(2*pause, 5*time.Second)) })
		}
		return err == nil
	})
}

// releaseBehind sends a release right behind an unanswered SET, and does not wait for its answer. A server that hangs carries out both when
// it goes on, even if the client has closed by then. The release is sent as its script's source, since nobody may be left to send that
// after a NOSCRIPT.
func (a *attempt) releaseBehind() {
	release := codec.Release{Lock: a.l.Ref(), Token: a.Token()}
	a.l.c.Server.StartBehind(a.set, &pipe.Call{Words: pipe.WordsOf(release.Call(), true)})
}

// firstGhostPause is the pause before the first release by releaseGhost.
const firstGhostPause = 250 * time.Millisecond

// newCall returns a call about the attempt's lock, from the client's pool if possible.
func (a *attempt) newCall(kind pipe.Kind) *pipe.Call {
	l, c := a.l, a.l.c
	call, known := c.calls.Get().(*pipe.Call)
	if !known {
		call = &pipe.Call{}
	}
	call.Kind, call.Lock, call.Fences, call.Queue = kind, l.Keys.Lock, l.FenceKey(), l.Keys.Queue
	call.Head, call.Info, call.TTL = string(a.head), l.Set.Info, l.Set.Term()
	return call
}

// giveBack releases the lock, as Client.release does, even if ctx has ended.
func (h *hold) giveBack(ctx context.Context, tombstone int64) (reply codec.Reply, unanswered bool, err error) {
	a, began := &h.attempt, time.Now()
	// mutants: release-with-tombstone
	if p := a.freePath(); tombstone == 0 && p != nil {
		var done bool
		if done, unanswered = a.free(p, h.first.fence); done {
			return released, false, nil
		}
	}
	q := codec.Release{Token: a.Token(), Member: a.member, Tombstone: tombstone}
	f := h.queue.takeFollower(h)
	if f != nil {
		q.Next = f.request()
	}
	sent := clock.Now()
	reply, again, err := a.l.c.release(context.WithoutCancel(ctx), began, a.l, q, a.ending)
	if f != nil {
		f.settle(q.Next, sent, reply, again, err)
	}
	return reply, unanswered || again, err
}

// released is the reply that the release script would give for a lock that was deleted.
var released = codec.Reply{Head: codec.Head{Word: codec.Released}}

// freePath returns the pipe on which the lock may be deleted; nil if somebody may be waiting, or the release script has to release it.
func (a *attempt) freePath() *pipe.Pipe {
	if l := a.l; (l.Set.Kind.Native || l.Set.Kind.IsVote) && !l.c.contended.has(l.Keys.Lock) {
		return l.c.Server.Pipe(l.Keys.Lock)
	}
	return nil
}

// free deletes the lock if nobody waits for it. If done is false, the script must release the lock; unanswered then reports that the lock
// may have been deleted all the same.
func (a *attempt) free(p *pipe.Pipe, fence uint64) (done, unanswered bool) {
	// mutants: native-release
	c, call := a.l.c, a.deletion(fence)
	err := c.Server.SendOn(context.Background(), p, call)
	done, unanswered = a.deleted(call, err)
	if err == nil {
		c.calls.Put(call)
	}
	return done, unanswered
}

// deletion returns the call that deletes the lock: by a command if the server has it and the value is known, otherwise by a script.
func (a *attempt) deletion(fence uint64) *pipe.Call {
	lead := atomic.LoadUint32(&a.lead)
	if lead == 0 || !a.l.c.Server.DeletesIfEqual.Load() {
		return a.newCall(pipe.Release)
	}
	call := a.newCall(pipe.Delete)
	call.Granted = int64(fence/1000) - int64(lead) + noLead
	return call
}

// deleted reads the answer to the call that deletes the lock.
func (a *attempt) deleted(call *pipe.Call, err error) (done, unanswered bool) {
	c := a.l.c
	if err != nil {
		if call.Kind == pipe.Delete && exec.IsLacking(err) {
			c.Server.DeletesIfEqual.Store(false)
		}
		// mutants: release-unanswered
		return false, exec.MayBeDone(err)
	}
	if !call.Done {
		c.contended.add(a.l.Keys.Lock)
	}
	return call.Done, false
}

// freeThen starts free and returns at once. It calls tell with the result; tell must not block.
func (a *attempt) freeThen(p *pipe.Pipe, fence uint64, tell func(done, unanswered bool)) {
	c, call := a.l.c, a.deletion(fence)
	c.Tasks.Begin()
	if c.Server.StartOn(p, call, func(err error) {
		defer c.Tasks.End()
		tell(a.deleted(call, err))
	}) {
		return
	}
	c.Tasks.End()
	c.Tasks.Run(func() { tell(a.free(p, fence)) })
}

// transactions is what a client knows about the transactions that acquire locks. The user may lack the right to one of their commands, and
// a proxy in front of the server may refuse transactions or close the connection.
type transactions struct {
	answered atomic.Bool  // a transaction was carried out
	lost     atomic.Int64 // the clock.Reading when a transaction first went unanswered; or 0
	avoided  atomic.Int64 // the clock.Reading until which scripts acquire locks instead; or 0
}

// avoidedFor is how long scripts acquire locks after a transaction was refused.
const avoidedFor = time.Minute

func (t *transactions) areAvoided() bool {
	until := t.avoided.Load()
	return until != 0 && until > int64(clock.Mono())
}

// noteTransaction records how a transaction ended. Until one has been answered, the second in a row to go unanswered counts as refused; the
// first may only have met a broken connection.
func (c *Client) noteTransaction(call *pipe.Call, err error) {
	t := &c.transactions
	// mutants: transaction-done
	if err == nil || call.Now != 0 { // it was carried out, even if one of its commands failed
		if !t.answered.Load() {
			t.answered.Store(true)
		}
		return
	}
	fate, _ := exec.Classify(err)
	// An ASK, or a missing right to this key, says nothing about other locks.
	// mutants: transaction-refused
	refused := exec.IsLacking(err) && (strings.HasPrefix(err.Error(), "ERR ") || strings.Contains(err.Error(), "command"))
	// mutants: transaction-unanswered
	if !refused && (fate != exec.Unknown || t.answered.Load()) {
		return
	}
	now := clock.Mono()
	// mutants: transaction-lost-once
	if !refused && (t.lost.CompareAndSwap(0, int64(now)) || int64(now-time.Since(call.Began)) < t.lost.Load()) {
		return
	}
	// mutants: transactions-avoided
	t.avoided.Store(int64(now + avoidedFor))
	c.Warn(lock.Warning{
		What:        "the server, or a proxy in front of it, carries out no transactions",
		Seen:        exec.Shown(err.Error()),
		Consequence: "locks are acquired by scripts, which take the server longer",
		Remedy:      "allow MULTI, EXEC and the other commands in docs/SECURITY.md; if that is not possible, set Config.ViaClient",
	})
}
