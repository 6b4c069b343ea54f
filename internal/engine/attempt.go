package engine

import (
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/pipe"
	"github.com/holdfast-go/holdfast/internal/schedule"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// attempt is one token's attempt to acquire a lock. Nothing else has its token. If the attempt ends without a hold, whatever the server has
// or gets under that token is taken back.
type attempt struct {
	l    *Target
	head wire.Head // how the lock's value begins if this attempt has the lock
	*particulars

	// owed reports that the server has, or may have, something under this token that must be taken back.
	owed bool
	// ending is how the lease ended, for the kinds of locks where that matters.
	ending ending
	// lead is noLead plus the fence, in ms, minus the time in the value with which the lock was set, in ms. It is 0 if a script granted the
	// lock, or if a renewal may have changed the value.
	lead uint32
}

// particulars are the fields that only some attempts need: those that can be queued and notified, and those with unanswered requests.
type particulars struct {
	// unanswered is the latest not-after of unanswered requests that may still be carried out: server time in µs; 0 if there are none.
	unanswered int64
	// ghost is when the lock expires that an unanswered SET may have set, or may still set: server time in ms; 0 if there is no such SET.
	// An attempt with a ghost has ended.
	ghost int64
	set   *pipe.Call // the ghost's SET
	// settled is called once the attempt has been taken back; it may be nil.
	settled func()

	score int64 // place in the server's queue, or the predecessor's; 0 if none
	// predecessor is the attempt whose place this one is to take; nil if there is none, or once the place is taken.
	predecessor *attempt
	channel     string
	claim       time.Duration     // how long a hand-over lasts before it must be renewed
	by          int64             // server time, ms, at which the attempt has promised to look; 0 if it has not
	owesLook    bool              // the promise is not kept: no reply came at that time or later
	member      string            // the attempt's entry in the server's queue
	inbox       chan wire.Message // notifications
	enqueued    bool              // the server has said that the attempt is queued
	anchor      exec.Anchor       // the latest reply's
	onFailure   func(error)       // called with the error of each request that will be repeated; may be nil
}

// nothingParticular is shared by all attempts without particulars of their own. It is never written to.
var nothingParticular particulars

// own returns particulars that belong to the attempt alone, so that they can be written to.
func (a *attempt) own() *particulars {
	if a.particulars == &nothingParticular {
		a.particulars = &particulars{}
	}
	return a.particulars
}

// ending says how a party of a latch or a barrier ended, in the words of its scripts. For other locks it makes no difference.
type ending byte

const (
	unaware ending = iota // the party was never told that it was one
	hasLeft
	hasDied
	hasCountedDown
)

func (e ending) word() codec.Ending {
	return [...]codec.Ending{codec.Unaware, codec.Left, codec.Died, codec.CountedDown}[e]
}

func (l *Target) newAttempt() *attempt {
	return &attempt{l: l, head: l.c.mint.head(), particulars: &nothingParticular}
}

// Token returns the attempt's token.
func (a *attempt) Token() string { return a.head.Token() }

// MinClaim is the least time that a waiter has to renew a lock that it was handed. It is long enough for a slow notification, and short
// enough for the other waiters if the waiter's process hangs. Only tests on real servers change it: such a server may stand still for
// longer.
var MinClaim = 1500 * time.Millisecond

// listen makes the attempt a waiter's, which can be queued and notified. It must be called before anything is sent.
func (a *attempt) listen(channel string) {
	c := a.l.c
	a.own().channel = channel
	a.claim = min(max(MinClaim, 4*c.Server.RTT.Mean()), a.l.Set.Term())
	// Do not promise a look if the wait is likely to be longer than the claim: the server would send the standby all the same, and the look
	// would be one request more.
	// mutants: long-wait
	if a.l.Set.Kind.Native && c.waited.Load() < int64(a.claim) {
		a.by, a.owesLook = c.Server.Time(a.l.Slot())/1000+a.claim.Milliseconds(), true
	}
	a.member = a.request(codec.Acquire{}).Member()
	a.inbox = make(chan wire.Message, 4)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts.Set(a.Token(), a)
}

// forget ends notifications to this attempt. A grant to its token that arrives later is given back, unless the lock was detached.
func (a *attempt) forget(detached bool) {
	if a.inbox == nil {
		return
	}
	c := a.l.c
	if !detached {
		c.givenUp.add(grant{a.l.Keys.Lock, a.Token()}.hash())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts.Delete(a.Token())
}

// notify passes on a notification for this attempt's token.
func (a *attempt) notify(m wire.Message) {
	select {
	case a.inbox <- m:
	default: // if the inbox is full, the attempt has a reason to check already
	}
}

// request completes a request for the lock with the fields that are the same in all of the attempt's requests.
func (a *attempt) request(q codec.Acquire) *codec.Acquire {
	q.Token, q.TTL, q.Info = a.Token(), a.l.Set.Term(), a.l.Set.Info
	q.Claim, q.By, q.Channel, q.Score = a.claim, a.by, a.channel, a.score
	if a.l.Set.Kind.IsShared {
		q.Share = a.l.Set.Kind.Share(a.l.Set)
	}
	return &q
}

// ask requests the lock and that many fences, for a caller that has been trying since began, or begins now if that is zero. It returns a
// hold if the lock is granted, otherwise a pointer to the reply: replies are so large that one on the stack would make it grow.
func (a *attempt) ask(ctx context.Context, began time.Time, mode codec.Mode, fences int) (*hold, *codec.Reply, error) {
	for range 3 {
		notAfter := a.l.NotAfter()
		q := a.request(codec.Acquire{Lock: a.l.Ref(), Mode: mode, NotAfter: notAfter, Fences: fences})
		r, unanswered, err := lock.Ask(ctx, lock.Request{Op: "acquire", Lock: &a.l.Lock, Durable: true, Began: began, OnFailure: a.onFailure}, q)
		a.owed = a.owed || mode != codec.Try
		if mode != codec.Look {
			a.sent(unanswered, notAfter)
		}
		if err != nil {
			a.owed = a.owed || !r.Sent.IsZero() // a reply came, but its meaning is unknown
			return nil, nil, err
		}
		if r.Reply.Word == codec.Late {
			continue
		}
		return a.heard(r)
	}
	return nil, nil, a.l.ClockJumps("acquire")
}

// sent notes whether a request that can acquire the lock went unanswered.
func (a *attempt) sent(unanswered bool, notAfter int64) {
	if unanswered {
		a.owed = true
		a.own().unanswered = max(a.unanswered, notAfter)
	}
}

// heard handles the reply to a request for the lock.
func (a *attempt) heard(r lock.Answer[codec.Reply]) (*hold, *codec.Reply, error) {
	switch reply := &r.Reply; reply.Word {
	case codec.Granted:
		a.owed = true
		h, err := a.takes(r.Sent, clock.Now(), reply.Now, reply.Grant.TTL, reply.Grant.Fence, reply.Grant.Block)
		return h, nil, err
	case codec.Queued:
		own := a.own()
		own.score, own.enqueued = reply.Place.Score, true
		a.l.c.Server.HasWritten()
		own.anchor = exec.Anchor{Sent: r.Sent, Server: reply.Now}
		// mutants: early-look
		own.owesLook = own.owesLook && reply.Now < own.by*1000
	case codec.Deep:
		return nil, nil, fmt.Errorf("%w: lock %q: %q has %d leases already, the most that MaxDepth allows",
			lock.ErrDepth, a.l.Name(), a.l.Set.Owner, a.l.Set.MaxDepth)
	}
	reply := r.Reply
	return nil, &reply, nil
}

// errLate is the error if the round trip to the server takes longer than the lease lasts.
const errLate = lock.Unadvised("the lock was granted, but the reply came after the lease's deadline; the lock is being released")

// takes makes a hold of a grant. The request was sent at sent, and the reply was read at heard; now is the server time in the reply, in µs.
func (a *attempt) takes(sent, heard clock.Instant, now int64, ttl time.Duration, fence uint64, block int64) (*hold, error) {
	term := a.l.Set.Term()
	if ttl >= 0 {
		term = min(ttl, a.l.c.Config.MaxTTL)
	}
	// mutants: grant-deadline
	h := newHold(a, sent, 0, term-drift(term), fence, block)
	h.at = now
	// mutants: fence-believed
	if !believable(fence, now) {
		wrong := fmt.Errorf("fence %d is more than a day ahead of the server's clock; set that clock right if it is behind; otherwise delete the fence counter %q, which somebody has set", fence, a.l.FenceKey())
		return nil, &exec.Failure{Op: "acquire", Name: a.l.Name(), Server: a.l.c.Server.Addr(), Kind: exec.ErrWrongType, Err: wrong}
	}
	h.renewAt(heard) // for firstLease
	if h.expired(heard) {
		late := fmt.Errorf("%w; it lasts for %s, and the server answers within %s on average", errLate, term, a.l.c.Server.RTT.Mean().Round(time.Microsecond))
		return nil, &exec.Failure{Op: "acquire", Name: a.l.Name(), Server: a.l.c.Server.Addr(), Kind: exec.ErrUnavailable, Err: late}
	}
	return h, nil
}

// longestLead bounds how far a fence may be ahead of the server's clock, which may have been set back. The scripts have the same bound.
const longestLead = 24 * time.Hour

// believable reports whether a fence, from a reply with server time now, may be shown to anybody. A guard that has seen too high a fence
// shuts out all later holders.
func believable(fence uint64, now int64) bool {
	return fence <= uint64(max(now, 0)+longestLead.Microseconds())
}

// maxLead bounds how far the fence in a notification may be ahead of the server's clock. A counter that leads the clock by more than a
// second issues fences one at a time. So a fence above this bound comes from a server whose clock went back, or from a message that the
// server did not send.
const maxLead = 2 * time.Second

// holdFromMessage makes a hold from a notification that the lock was handed to this attempt. It returns false if the claim is over or
// nearly so, or if only the server can tell whether the message is true: a false fence, once believed and shown to a guard, would shut out
// all lower ones.
func (a *attempt) holdFromMessage(n *wire.Grant) (*hold, bool) {
	claim := min(duration(n.Claim), a.claim)
	now := clock.Now()
	sinceAnchor := now.Sub(a.anchor.Sent)
	// A fence is at least the time of its grant, rounded down to a ms.
	fence := int64(n.Fence)
	if server := a.anchor.Server + sinceAnchor.Microseconds(); fence > server+maxLead.Microseconds() || fence < a.anchor.Server/1000*1000 {
		return nil, false
	}
	// The server answered the anchor's request after it was sent, so by the local clock the grant is at most this old.
	age := sinceAnchor - time.Duration(n.Now-a.anchor.Server)*time.Microsecond
	valid := sinceAnchor - max(age, 0) + claim - drift(sinceAnchor+claim)
	if valid-sinceAnchor < claim/4 {
		return nil, false
	}
	h := newHold(a, a.anchor.Sent, -sinceAnchor, valid, n.Fence, 1)
	h.claim, h.at = true, n.Now
	h.renewAt(now)
	return h, true
}

// drift is what a deadline allows for clocks that run at different speeds: 1% and 2 ms, as in
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/
func drift(d time.Duration) time.Duration { return d/100 + 2*time.Millisecond }

// Abandon takes back, in the background, what the server has or may get under this attempt's token.
func (a *attempt) Abandon() {
	a.abandonPredecessor()
	if !a.owed {
		a.forget(false)
		return
	}
	c := a.l.c
	departed := func() {}
	if a.inbox != nil { // the attempt may be in the queue
		departed = c.Departing.Add(a.l.Keys.Queue)
	}
	end := c.takingBackUntil(a.l)
	c.serverOf(a.l).reclaim(func(hopeless bool) bool {
		answered := false
		if !hopeless {
			// mutants: release-behind
			if a.ghost != 0 {
				a.releaseBehind()
			}
			// mutants: take-back
			answered = c.takeBack(a.l, codec.Release{Token: a.Token(), Member: a.member, Tombstone: a.unanswered}, a.ending, end)
			// mutants: ghost-abandoned
			if a.ghost != 0 {
				c.Tasks.Run(func() { a.releaseGhost(firstGhostPause) })
			}
		}
		departed()
		a.forget(false)
		if a.settled != nil {
			a.settled()
		}
		return answered
	})
}

// abandonPredecessor abandons the attempt whose place this one has taken.
func (a *attempt) abandonPredecessor() {
	if a.predecessor != nil {
		a.predecessor.Abandon()
		a.predecessor = nil
	}
}

// takingBackUntil returns the time at which to stop taking back what the server has, or may get, for l.
func (c *Client) takingBackUntil(l *Target) time.Time {
	return time.Now().Add(l.Set.Term() + c.Config.RetryTimeout + c.Config.CommandTimeout)
}

// takeBack sends a release until the server answers or refuses it for good, end passes, or the client closes. It reports whether the server
// answered.
func (c *Client) takeBack(l *Target, q codec.Release, how ending, end time.Time) bool {
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		_, _, err := c.release(ctx, time.Now(), l, q, how)
		switch kind := exec.KindOf(err); {
		case err == nil, kind == exec.ErrWrongType, kind == exec.ErrUnsupported:
			return true
		case ctx.Err() != nil:
			return false
		}
		select {
		case <-time.After(schedule.Jitter(pause, 20)):
		case <-ctx.Done():
			return false
		case <-c.Closing:
			return false
		}
	}
}

// release ends whatever the server has under a token, for a caller that has been trying since began. It retries as lock.Ask does. If the
// lock's keys are, or may be, on different nodes, it deletes the lock's own key, provided that nobody is waiting.
func (c *Client) release(ctx context.Context, began time.Time, l *Target, q codec.Release, how ending) (reply codec.Reply, unanswered bool, err error) {
	rq := lock.Request{Op: exec.OpRelease, Lock: &l.Lock, Durable: how == hasCountedDown}
	q.Lock = l.Ref()
	if l.Set.Kind.HasParties {
		q.Ending = how.word()
	}
	return exec.Persist(ctx, c.Server, rq.Op, l.Name(), began, func(ctx context.Context) (codec.Reply, error) {
		a, err := lock.AskOnce(ctx, rq, &q)
		if !exec.IsDivided(err) || q.Tombstone != 0 || l.Set.Kind.IsShared {
			return a.Reply, err
		}
		dropped, dropErr := lock.AskOnce(ctx, rq, codec.ReleaseByKey(q.Lock, q.Token))
		if outcome, _ := exec.Classify(dropErr); dropErr != nil && outcome == exec.Unknown {
			return codec.Reply{}, dropErr
		}
		if dropErr == nil && dropped.Reply.Word == codec.Released {
			return dropped.Reply, nil
		}
		return a.Reply, err
	})
}

// duration converts milliseconds from a script. It caps them, since a server can name more than a time.Duration holds.
func duration(ms int64) time.Duration {
	return time.Duration(min(max(ms, -1), lock.MaxMaxTTL.Milliseconds()*10)) * time.Millisecond
}

// tokenMint makes a client's tokens. Each has 128 bits of ChaCha8 with a secret seed: nobody can guess it from earlier ones.
type tokenMint struct {
	mu     sync.Mutex
	random *rand.ChaCha8
}

func (t *tokenMint) init() {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails, since Go 1.24
	t.random = rand.NewChaCha8(seed)
}

// head makes a token, and returns how the value of a lock begins with it.
func (t *tokenMint) head() wire.Head {
	t.mu.Lock()
	// mutants: new-token
	high, low := t.random.Uint64(), t.random.Uint64()
	t.mu.Unlock()
	var bits [16]byte
	binary.BigEndian.PutUint64(bits[:], high)
	binary.BigEndian.PutUint64(bits[8:], low)
	var memory [len(wire.HeadBegin) + (len(bits)*8+5)/6 + len(wire.HeadEnd)]byte
	text := append(memory[:0], wire.HeadBegin...)
	text = base64.RawURLEncoding.AppendEncode(text, bits[:])
	return wire.Head(append(text, wire.HeadEnd...))
}
