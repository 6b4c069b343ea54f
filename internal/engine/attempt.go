package engine

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// attempt is one token's way to a lock: nothing else has this token, and when the
// attempt ends without a grant, whatever the server has or gets of it is taken back.
type attempt struct {
	l    *Lock
	head string // with which the value of its lock begins
	*queueEntry

	// unanswered is the not-after of sendings that may have been, or may yet be,
	// carried out without our knowing; server time in µs, 0 when there are none.
	unanswered int64
	// settled is called once what is owed was taken back; or nil.
	settled func()
	// owed says that the server has, or may have, something of this token.
	owed bool
	// ending is how its lease was released, where that matters.
	ending ending
	// lead is by how many ms the fence in the lock's value is ahead of the time in it, and 1; 0 if that is
	// not known.
	lead uint32
}

// candidacy is what only an attempt has that can be queued and notified.
type queueEntry struct {
	score int64 // in the queue, or of the attempt whose place this one takes; 0 if none
	// before is the attempt whose place this one takes, until that is done.
	before  *attempt
	channel string
	claim   time.Duration
	member  string            // of the queue
	inbox   chan wire.Message // notifications
	placed  bool              // the server said that it is queued
	anchor  exec.Anchor       // of the server's latest answer
	met     func(error)       // told what requests meet that are sent again; or nil
}

// none is the candidacy of all attempts that have none. Nothing writes to it.
var noEntry queueEntry

// ending says how a party of a latch or a barrier ends, as its scripts have it. For other
// locks it makes no difference.
type ending byte

const (
	unaware ending = iota // it never knew that it was one
	hasLeft
	hasDied
	hasCountedDown
)

func (e ending) String() string { return [...]string{"", "left", "died", "done"}[e] }

func (l *Lock) newAttempt() *attempt {
	return &attempt{l: l, head: l.c.mint.between(valueFormat, ":", l.keys.Lock, 0), queueEntry: &noEntry}
}

// valueFormat is that of a lock's value, which goes on with the token and a colon.
const valueFormat = "hf1:"

func (a *attempt) token() string { return a.head[len(valueFormat) : len(a.head)-1] }

// minClaim is the least time for which a waiter is handed a lock before it must
// have renewed it: long enough for a notification on a slow way, short enough for
// the others when the waiter's process hangs.
const minClaim = 1500 * time.Millisecond

// listen makes the attempt a waiter's, which can be queued and notified, before anything is sent for it. It
// has another token then.
func (a *attempt) listen(channel string) {
	c := a.l.c
	a.head = c.mint.between(valueFormat, ":", a.l.keys.Lock, waiterBit)
	a.queueEntry = &queueEntry{channel: channel}
	a.claim = min(max(minClaim, 4*c.server.RTT.Mean()), a.l.set.term())
	a.member = a.token() + "\n" + milliseconds(a.claim) + "\n" + channel + "\n"
	if a.l.set.kind.isShared() {
		a.member += a.l.set.wish() + "\n"
	}
	a.member += a.l.set.info
	a.inbox = make(chan wire.Message, 4)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts.Set(a.token(), a)
}

// forget makes notifications for this attempt those of a stranger.
func (a *attempt) forget() {
	if a.inbox == nil {
		return
	}
	c := a.l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts.Delete(a.token())
}

// notify is told what the server sent for this attempt's token.
func (a *attempt) notify(m wire.Message) {
	select {
	case a.inbox <- m:
	default: // a full inbox has a reason to look already
	}
}

// The ways in which acquire.lua can be asked.
const (
	modeTry  = "t"
	modeWait = "w"
	modeLook = "l"
)

// maxRank is as far back in a queue as makes a difference.
const maxRank = 1 << 20

// What acquire.lua can say, besides a *grant and, in Strict mode, quarantined.
type (
	heldByOther struct {
		holder Holder
	}
	queued struct {
		expiry    time.Duration // of the lock; negative if it has none
		rank      int           // from 1
		receivers int           // of our channel
		foreign   bool          // whoever holds the lock will not tell us: another program, or a client with another queue
	}
	gone struct{} // neither holder nor queued
)

// ask asks for the lock, and for so many fences.
func (a *attempt) ask(ctx context.Context, mode string, fences int) (any, error) {
	return a.askSince(time.Time{}, ctx, mode, fences)
}

// askSince is ask for what has been tried since then, if that is not zero.
func (a *attempt) askSince(began time.Time, ctx context.Context, mode string, fences int) (any, error) {
	c := a.l.c
	fresh := !a.owed && a.unanswered == 0
	for range 3 {
		notAfter := c.notAfter(a.l)
		args := []string{a.l.flags(mode), a.token(), milliseconds(a.l.set.term()), strconv.FormatInt(notAfter, 10), strconv.Itoa(fences), a.l.set.info}
		args = append(args, a.l.set.shareArgs()...)
		if mode != modeTry {
			score := ""
			if a.score != 0 {
				score = strconv.FormatInt(a.score, 10)
			}
			args = append(args, milliseconds(a.claim), a.channel, score)
		}
		r, unanswered, err := c.call(ctx, request{op: "acquire", lock: a.l, script: a.l.set.kind.acquire, args: args, durable: true, began: began, met: a.met})
		a.owed = a.owed || mode != modeTry
		if mode != modeLook {
			a.sent(unanswered, notAfter)
		}
		if err != nil {
			return nil, err
		}
		if r.Word == "late" {
			continue
		}
		got, err := a.parse(r)
		if h, granted := got.(*hold); granted && err == nil && fresh && !unanswered { // by this request, and no other
			a.date(h.fence, r.Now)
		}
		return got, err
	}
	return nil, a.l.clockJumps("acquire")
}

// notAfter is the server's time past which no copy of a request that is sent now is carried
// out.
func (c *Client) notAfter(l *Lock) int64 {
	return c.server.Time(c.slot(l)) + (c.cfg.RetryTimeout + c.cfg.CommandTimeout + time.Second).Microseconds()
}

// sent notes that a request which can take the lock was sent.
func (a *attempt) sent(unanswered bool, notAfter int64) {
	if unanswered {
		a.owed = true
		a.unanswered = max(a.unanswered, notAfter)
	}
}

// clockJumps is the error of requests that are late again and again.
func (l *Lock) clockJumps(op string) error {
	return &exec.Failure{Op: op, Name: l.name, Server: l.c.server.Addr(), Kind: exec.ErrUnavailable, Err: errClockJumps}
}

const errClockJumps = unadvised("its clock jumps")

// unadvised is an error about which nobody can do anything.
type unadvised string

func (e unadvised) Error() string { return string(e) }

// Advice returns none.
func (unadvised) Advice() string { return "" }

// parse reads acquire.lua's answer.
func (a *attempt) parse(r exec.Answer) (any, error) {
	switch r.Word {
	case "granted":
		a.owed = true
		var pttl, fence, block int64
		if r.Ints(&pttl, &fence, &block) == nil && fence > 0 {
			return a.granted(r.Sent, clock.Now(), r.Now, pttl, uint64(fence), block)
		}
	case "held":
		if h, err := a.l.parseHolder(&r.Reply); err == nil {
			return heldByOther{h}, nil
		}
	case "queued":
		var pttl, score, rank, receivers int64
		if a.queueEntry != &noEntry && r.Ints(&pttl, &score, &rank, &receivers) == nil {
			a.score, a.placed = score, true
			a.l.c.server.HasWritten()
			a.anchor = exec.Anchor{Sent: r.Sent, Server: r.Now}
			return queued{duration(pttl), int(min(rank, maxRank)), int(receivers), r.Rest() == "foreign"}, nil
		}
	case "gone":
		return gone{}, nil
	case "deep":
		return nil, a.l.tooDeep()
	case "quarantined":
		if q, err := parseQuarantine(&r.Reply); err == nil {
			return q, nil
		}
	}
	return nil, a.l.malformed("acquire")
}

// date notes when, by the server's clock, in µs, the lock's value was written, with that fence.
func (a *attempt) date(fence uint64, now int64) {
	if ahead := int64(fence/1000) - now/1000; ahead >= 0 && ahead < 1<<30 {
		a.lead = uint32(ahead) + 1
	}
}

// since is the time in the lock's value, with that fence, in ms of the server's time; 0 if it is not known.
func (a *attempt) since(fence uint64) int64 {
	if a.lead == 0 {
		return 0
	}
	return int64(fence/1000) - int64(a.lead-1)
}

// errLate is met when the way to the server and back takes longer than a lease lasts.
const errLate = unadvised("the lock was granted, but the reply came past the lease's deadline; it is given back")

// granted makes a grant of an answer to a request that was sent, and answered, then, and at that time
// of the server's.
func (a *attempt) granted(sent, heard clock.Instant, now, pttl int64, fence uint64, block int64) (*hold, error) {
	term := a.l.set.term()
	if pttl >= 0 {
		term = min(duration(pttl), a.l.c.cfg.MaxTTL)
	}
	// mutants: grant-deadline
	h := newHold(a, sent, sent, term-drift(term), fence, block)
	h.at = now
	// mutants: fence-believed
	if !believable(fence, now) {
		return nil, &exec.Failure{Op: "acquire", Name: a.l.name, Server: a.l.c.server.Addr(), Kind: exec.ErrWrongType, Err: errUnbelievable(a.l, fence)}
	}
	if h.isLate(heard) {
		return nil, &exec.Failure{Op: "acquire", Name: a.l.name, Server: a.l.c.server.Addr(), Kind: exec.ErrUnavailable, Err: errLate}
	}
	return h, nil
}

// longestLead is by how much a fence may lead the server's clock at all, after that was set back: as the scripts have it.
const longestLead = 24 * time.Hour

// believable reports whether a fence that comes in an answer, at that time of the server's, may be shown to anybody. One
// that is too high would be kept by whoever has seen it, and shut out all holders after this one.
func believable(fence uint64, now int64) bool {
	return fence <= uint64(max(now, 0)+longestLead.Microseconds())
}

func errUnbelievable(l *Lock, fence uint64) error {
	return fmt.Errorf("fence %d leads the server's clock by more than a day; set that clock right if it is behind, and if it is not, delete the fence counter %q, which somebody has set", fence, l.c.fenceOf(l))
}

// maxLead is by how much a fence of a grant that is only told of may lead the server's clock. A counter that
// leads it by more than a second is drawn from one by one, so that it leads by more than this after the
// clock went back, or in a message that the server has not sent.
const maxLead = 2 * time.Second

// claimed makes a grant of the notification that the lock was handed to this
// attempt; false when the claim is over, or may soon be, or when the server is to be asked whether that is true.
// A fence that is believed can be raised at a guard, and shuts out all below it.
func (a *attempt) claimed(n *wire.Grant) (*hold, bool) {
	claim := min(duration(n.Claim), a.claim)
	now := clock.Now()
	sinceAnchor := now.Sub(a.anchor.Sent)
	if server := a.anchor.Server + sinceAnchor.Microseconds(); int64(n.Fence) > server+maxLead.Microseconds() || int64(n.Fence) < a.anchor.Server {
		return nil, false
	}
	// The anchor's request was sent before the server answered it, so by our clock
	// the grant was made no earlier than this. It was made before now, too.
	age := sinceAnchor - time.Duration(n.Now-a.anchor.Server)*time.Microsecond
	valid := sinceAnchor - max(age, 0) + claim - drift(sinceAnchor+claim)
	if valid-sinceAnchor < claim/4 {
		return nil, false
	}
	h := newHold(a, now, a.anchor.Sent, valid, n.Fence, 1)
	h.state, h.renewAt, h.at = claimed, now, n.Now
	return h, true
}

// drift is what a deadline allows for clocks that run at different speeds: 1% and
// 2 ms, as in https://redis.io/docs/latest/develop/use/patterns/distributed-locks/
func drift(d time.Duration) time.Duration { return d/100 + 2*time.Millisecond }

// abandon takes back, in the background, what the server has or may get of this
// attempt.
func (a *attempt) abandon() {
	a.succeed()
	if !a.owed {
		a.forget()
		return
	}
	c := a.l.c
	left := func() {}
	if a.inbox != nil { // it may be in the queue
		left = c.departing.begin(a.l.keys.Queue)
	}
	end := c.patienceFor(a.l)
	c.reclaimersOf(a.l).run(func(hopeless bool) bool {
		answered := false
		if !hopeless {
			// mutants: take-back
			answered = c.takeBack(a.l, a.token(), a.member, a.unanswered, a.ending, end)
		}
		left()
		a.forget()
		if a.settled != nil {
			a.settled()
		}
		return answered
	})
}

// takers take back what abandoned attempts have, or may get, on one server: so many at once, since callers can
// give up faster than a server that hangs is given up.
type reclaimers struct {
	crew    exec.Limiter
	closing <-chan struct{}
	silent  atomic.Bool // it did not answer one of them while the client was closing
}

func (t *reclaimers) init(c *Client) {
	t.crew, t.closing = exec.Limiter{Tasks: &c.tasks, Most: maxReclaiming}, c.closing
}

// maxTaking bounds how many are taken back at once from one server.
const maxReclaiming = 64

// run calls f, at once or after others. f says whether it was answered; it is told if there is no hope of that: while
// the client closes, each server is waited for once.
func (t *reclaimers) run(f func(hopeless bool) (answered bool)) {
	t.crew.Run(func() {
		if f(t.silent.Load()) {
			return
		}
		select {
		case <-t.closing:
			t.silent.Store(true)
		default:
		}
	})
}

// takersOf is who takes back what the server of that lock has.
func (c *Client) reclaimersOf(l *Lock) *reclaimers {
	if all, known := c.groupsFor(l); known {
		return &all.reclaimers
	}
	return &c.reclaimers
}

// succeed abandons the attempt whose place this one has taken.
func (a *attempt) succeed() {
	if a.before != nil {
		a.before.abandon()
		a.before = nil
	}
}

// patienceFor is when to stop taking back what the server has, or may get, of a token for l from now on.
func (c *Client) patienceFor(l *Lock) time.Time {
	return time.Now().Add(l.set.term() + c.cfg.RetryTimeout + c.cfg.CommandTimeout)
}

// takeBack sends a release for a token until it is answered, or there is nothing left that it could
// release, or until then. It reports whether it was answered.
func (c *Client) takeBack(l *Lock, token, member string, tombstone int64, how ending, end time.Time) bool {
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		_, _, err := c.release(ctx, l, token, member, tombstone, how)
		switch kind := exec.KindOf(err); {
		case err == nil, kind == exec.ErrWrongType, kind == exec.ErrUnsupported:
			return true
		case ctx.Err() != nil:
			return false
		}
		select {
		case <-time.After(jitter(pause, 20)):
		case <-ctx.Done():
			return false
		case <-c.closing:
			return false
		}
	}
}

// release ends whatever the server has of a token, as call does. Where the keys of a
// lock are on different nodes, or may be, it drops a lock that nobody waits for.
func (c *Client) release(ctx context.Context, l *Lock, token, member string, tombstone int64, how ending) (a exec.Answer, unanswered bool, err error) {
	return c.releaseSince(time.Now(), ctx, l, token, member, tombstone, how)
}

// releaseSince is release of what has been tried since then.
func (c *Client) releaseSince(began time.Time, ctx context.Context, l *Lock, token, member string, tombstone int64, how ending) (a exec.Answer, unanswered bool, err error) {
	rq := request{
		op: "release", lock: l, script: l.set.kind.release, urgent: true, durable: how == hasCountedDown,
		args: []string{l.flags(""), token, member, strconv.FormatInt(tombstone, 10)},
	}
	if l.set.kind.hasParties {
		rq.args = append(rq.args, how.String())
	}
	drop := request{
		op: "release", lock: l, script: script.ReleaseByKey, urgent: true, lockOnly: true,
		args: []string{l.flags(""), token},
	}
	return exec.PersistSince(began, ctx, c.server, rq.op, l.name, func(ctx context.Context) (exec.Answer, error) {
		a, err := c.send(ctx, rq)
		if !exec.IsDivided(err) || tombstone != 0 || l.set.kind.isShared() {
			return a, err
		}
		dropped, dropErr := c.send(ctx, drop)
		if outcome, _ := exec.Classify(dropErr); dropErr != nil && outcome == exec.Unknown {
			return exec.Answer{}, dropErr
		}
		if dropErr == nil && dropped.Word == "released" {
			return dropped, nil
		}
		return a, err
	})
}

// duration reads a script's ms. A server can say what clocks cannot count.
func duration(ms int64) time.Duration {
	return time.Duration(min(max(ms, -1), maxMaxTTL.Milliseconds()*10)) * time.Millisecond
}

// milliseconds writes d for a script, rounded up: a server's TTL counts whole ones.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}
