package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// maxPassing bounds how long after its grant a lock is passed on within one process while other processes may be
// waiting for it. A process that stalls for less keeps its turn: otherwise its goroutines would wait for another round.
const maxPassing = 100 * time.Millisecond

// renewalGrace is how long, besides four round trips, a release waits for a renewal that is under way, so that the lock can
// be passed on after it.
const renewalGrace = 50 * time.Millisecond

// holdLease is one lease of a hold. It is safe for concurrent use.
type holdLease struct {
	g     *hold
	fence uint64

	// Guarded by g.mu.
	extra     *leaseExtra // nil until some of it is needed
	depth     int32       // leases of this lock under whose context it was acquired
	over      bool        // it is not held any more
	released  bool        // nothing is left to release
	releasing bool        // the release is under way
	part      bool        // it is part of a JointLease
}

// leaseExtra is what only some leases have.
type leaseExtra struct {
	loss    error    // why it is over; nil while it is not, or if it was released
	trouble *trouble // with the release; nil while there is none
	scope            // who is told when it ends
}

// needExtra returns l.extra, which it makes if there is none. The caller holds l.g.mu.
func (l *holdLease) needExtra() *leaseExtra {
	if l.extra == nil {
		l.extra = &leaseExtra{}
	}
	return l.extra
}

// ended returns nil while the lease is held, and then why it is over. The caller holds l.g.mu.
func (l *holdLease) ended() error {
	switch {
	case !l.over:
		return nil
	case l.extra != nil && l.extra.loss != nil:
		return l.extra.loss
	}
	return ErrReleased
}

// scope is who is told when a lease ends.
type scope struct {
	ctx      context.Context // that ends with the lease; nil until somebody asks for it
	cancel   context.CancelCauseFunc
	calls    calls
	revoked  func(wire.Remark) // called when the holder is asked to let go; or nil
	observed *observation      // what observers are told of the lease; nil if nobody is
}

// observed returns what observers are told of the lease; nil if nobody is told. The caller holds l.g.mu.
func (l *holdLease) observed() *observation {
	if l.extra == nil {
		return nil
	}
	return l.extra.observed
}

// trouble is the state of a release that is called twice, or fails.
type trouble struct {
	leaving  bool          // the release has ended the lease, and may still pass the lock on
	answered chan struct{} // closed when the one under way is answered; nil if nobody waits for it
	unsure   bool          // one that was not answered may have been carried out
	failed   error         // of the latest one that was not answered at all
	missed   error         // when the server knew the lease no more
}

// trouble returns that with the lease's release; nil if there is none. The caller holds l.g.mu.
func (l *holdLease) trouble() *trouble {
	if l.extra == nil {
		return nil
	}
	return l.extra.trouble
}

// troubled is trouble, but makes it if there is none. The caller holds l.g.mu.
func (l *holdLease) troubled() *trouble {
	if l.needExtra().trouble == nil {
		l.extra.trouble = &trouble{}
	}
	return l.extra.trouble
}

// isLeaving reports whether a release has ended the lease, and waits for a renewal. The caller holds l.g.mu.
func (l *holdLease) isLeaving() bool { return l.trouble() != nil && l.trouble().leaving }

// Name returns the lock's name; of Multi, all names, with commas between them.
func (l *holdLease) Name() string { return l.lock().name() }

// Owner returns the owner's name, as set by Owner or Config.Owner.
func (l *holdLease) Owner() string { return l.lock().set.owner }

// lock returns the lock that is held.
func (l *holdLease) lock() *target {
	return l.g.l
}

// Token returns the fence: a number above those of all earlier leases of this lock. Readers that hold the lock at the same
// time have the same fence (see RWMutex), and so have an owner's leases (see Reentrant). Fences go on rising after the
// server has lost its data, unless its clock went back too.
func (l *holdLease) Token() uint64 {
	return l.fence
}

// Tokens returns the fence of each lock of the lease, by the lock's name.
func (l *holdLease) Tokens() map[string]uint64 {
	return map[string]uint64{l.Name(): l.fence}
}

// IsShared reports whether other holders may have the same fence: whether the lease is a reader's, of an RWMutex. An
// owner's leases (see Reentrant) have the same fence, too, but one owner.
func (l *holdLease) IsShared() bool { return l.lock().set.kind.joinable }

// Deadline returns the local time until which the lease is certainly held unless it is renewed or released: when the last
// successful request for it was sent, plus its TTL, less 1% and 2 ms for drift. It has a monotonic reading. A lock that was
// handed over begins with a claim of about 1.5 s; the first renewal, after 5 ms, makes that a TTL, and Extend waits for it.
func (l *holdLease) Deadline() time.Time {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	return l.g.deadline(clock.Now()).Time()
}

// Err returns nil while the lease is held; then ErrReleased, ErrClosed, or a *LostError, which matches ErrLost. It compares
// clocks itself, so it is right even in a process that was paused past the deadline, and on Linux after the machine was
// suspended. It sends nothing.
func (l *holdLease) Err() error {
	return l.errAt(clock.Now())
}

// errAt is Err by clocks that were read a moment ago.
func (l *holdLease) errAt(now clock.Instant) error {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.checkAt(now)
	return l.ended()
}

// check ends the lease if its deadline has passed. The caller holds l.g.mu.
func (l *holdLease) check() { l.checkAt(clock.Now()) }

func (l *holdLease) checkAt(now clock.Instant) {
	// mutants: deadline-by-clock
	if !l.over && l.g.expired(now) {
		l.g.lose(l.g.expiry())
	}
}

// Context returns a context that ends when the lease does, with Err's error as its cause: at the deadline at the latest,
// and earlier if the server says that the lock is lost. It carries the lease, and no other values.
func (l *holdLease) Context() context.Context {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	x := l.needExtra()
	if x.ctx == nil {
		x.ctx, x.cancel = context.WithCancelCause(l.Within(context.Background()))
		l.check()
		if l.over {
			x.cancel(l.ended())
		}
	}
	return x.ctx
}

// whenEnded calls f with the lease's error when the lease ends, or now if it has ended. It calls revoked when the holder is
// asked to let go. A JointLease uses it for the leases that are its parts, which have no contexts of their own. f must not block.
func (l *holdLease) whenEnded(f context.CancelCauseFunc, revoked func(wire.Remark)) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.part = true
	if l.over {
		f(l.ended())
		return
	}
	l.needExtra().cancel, l.extra.revoked = f, revoked
}

// end ends the lease; further calls do nothing. The caller holds l.g.mu.
func (l *holdLease) end(err error) {
	if lost, is := err.(*LostError); is && l.isLeaving() {
		l.troubled().missed = lost
	}
	if l.over {
		return
	}
	l.over = true
	if err != ErrReleased {
		l.needExtra().loss = err
	}
	if l.extra == nil {
		return
	}
	if l.extra.cancel != nil {
		l.extra.cancel(err)
	}
	l.extra.calls.make(err)
}

// checkExtension returns an error if no lease can have this TTL.
func (c *Client) checkExtension(name string, ttl time.Duration) error {
	return c.checkTerm("Extend by", name, ttl)
}

// checkTerm returns an error if ttl is not between 1 ms and MaxTTL. what says in the error which operation asked for it.
func (c *Client) checkTerm(what, name string, ttl time.Duration) error {
	if most := c.cfg.MaxTTL; ttl < time.Millisecond || ttl > most {
		return fmt.Errorf("%w: lock %q: %s %s; from 1ms to %s is allowed", ErrInvalid, name, what, ttl, most)
	}
	return nil
}

// Extend makes the lease last at least ttl from now. It never shortens the lease, and never extends it beyond MaxHold.
// Renewals go on as before. After ErrLost the lease is over; after another error it lasts as long as before, or longer.
func (l *holdLease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := l.g.l.c.checkExtension(l.Name(), ttl); err != nil {
		return err
	}
	h := l.g
	h.l.c.beginTelling()
	defer h.l.c.endTelling()
	if err := l.Err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	h.mu.Lock()
	if l.over {
		defer h.mu.Unlock()
		return l.ended()
	}
	ttl, final := h.renewTTL(ttl)
	// From now on, whatever the answer is: a lock that the server may keep for so long must not be passed on.
	// mutants: extension-asked
	h.extended = h.extended || ttl > h.l.set.ttl
	h.mu.Unlock()
	rq := request{op: "renew", lock: h.l, durable: true}
	a, _, err := ask(ctx, h.l.c, rq, h.renewal(ttl, 0))
	if again := h.reassertion(a, err, ttl, false); again != nil {
		a, _, err = ask(ctx, h.l.c, rq, again)
	}
	if err != nil {
		return err
	}
	defer h.flush()
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.over || h.state == over {
		return l.ended()
	}
	if h.state == changing {
		return fmt.Errorf("%w: lock %q: Extend while the lease is being changed", ErrInvalid, l.Name())
	}
	slack, lost, err := h.apply(a, final, false)
	if lost != nil {
		h.lose(lost)
		return lost
	}
	var q *exec.Quarantine
	if errors.As(err, &q) {
		return h.l.c.quarantineError("renew", l.Name(), q.Left)
	}
	h.observeRenewal(clock.Now(), slack, nil)
	h.plan()
	l.check()
	return l.ended()
}

// Release is holdfast.Lease.Release, without its lease's fence in a *LostError.
func (l *holdLease) Release(ctx context.Context) error {
	return l.release(ctx, hasLeft)
}

// release is Release for a party that ends in that way. It ends the lease before it waits for anything.
func (l *holdLease) release(ctx context.Context, how ending) error {
	c := l.g.l.c
	c.beginTelling()
	defer c.endTelling()
	first, done, err := l.giveUp(true, how)
	if done {
		l.flush()
		return err
	}
	if !limits(ctx) {
		return l.releaseAfter(ctx, first, how)
	}
	return c.releaseUntil(ctx, l.Name(), func(ctx context.Context) error { return l.releaseAfter(ctx, first, how) })
}

// limits reports whether a caller with ctx waits for a release only until a deadline. A context that has ended sets none: the lock is
// released all the same.
func limits(ctx context.Context) bool {
	_, bounded := ctx.Deadline()
	return bounded && ctx.Err() == nil
}

// releaseUntil calls release and waits for it until the deadline of ctx, which limits. Then release goes on in the background.
func (c *Client) releaseUntil(ctx context.Context, name string, release func(context.Context) error) error {
	end, _ := ctx.Deadline()
	began := time.Now()
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
	over := make(chan error, 1)
	c.tasks.Run(func() {
		defer cancel()
		over <- release(ctx)
	})
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
		select {
		case err := <-over: // whose end ended ctx
			return err
		default:
			if waited, usual := time.Since(began), c.server.RTT.Mean(); waited < usual {
				return exec.EndedBy(ctx, &exec.Failure{Op: "release", Name: name, Server: c.server.Addr(), Ambiguous: true,
					Err: fmt.Errorf("the server had %s to answer, and needs %s on average", waited.Round(time.Microsecond), usual.Round(time.Microsecond))})
			}
			return c.server.Unheard(ctx, "release", name, began)
		}
	}
}

// releaseAfter completes a release once what giveUp waits for has happened. It has no time limit of its own, and goes on after ctx
// has ended.
func (l *holdLease) releaseAfter(ctx context.Context, first prior, how ending) error {
	h := l.g
	c := h.l.c
	for patient := true; first != (prior{}); {
		if first.released != nil {
			<-first.released
			if err := l.releaseFailed(); err != nil {
				return err
			}
		} else {
			select {
			case <-first.landed:
			case <-time.After(4*c.server.RTT.Mean() + renewalGrace):
				patient = false
			}
		}
		var done bool
		var err error
		if first, done, err = l.giveUp(patient, how); done {
			l.flush()
			return err
		}
	}
	tombstone := h.attempt.unanswered
	if h.attempt.ending == hasCountedDown {
		tombstone = max(tombstone, c.notAfter(h.l)) // by which a copy is known
	}
	reply, unanswered, err := h.giveBack(ctx, tombstone)
	return l.gaveBack(reply, unanswered, err)
}

// releaseFailed returns why another call's release failed; nil if it did not fail.
func (l *holdLease) releaseFailed() error {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	if l.released || l.releasing {
		return nil
	}
	return l.troubled().failed
}

// releaseThen is Release, but returns at once and calls done, in any goroutine, with what Release would have returned. If
// nobody is known to wait for the lock, it starts no goroutine.
func (l *holdLease) releaseThen(ctx context.Context, done func(error)) {
	h := l.g
	c := h.l.c
	first, finished, err := l.giveUp(true, hasLeft)
	p := h.attempt.freePath()
	switch {
	case finished:
		l.flush()
		done(err)
		return
	case first != (prior{}) || h.attempt.unanswered != 0 || p == nil:
		c.tasks.Run(func() {
			if first != (prior{}) {
				done(l.releaseAfter(ctx, first, hasLeft))
				return
			}
			done(l.gaveBack(h.giveBack(ctx, h.attempt.unanswered)))
		})
		return
	}
	began := time.Now()
	h.attempt.freeThen(p, h.fence(), func(freed, unanswered bool) {
		if freed && c.cfg.Observer == nil { // an observer may take its time, or ask the server
			done(l.gaveBack(released, false, nil))
			return
		}
		c.tasks.Run(func() {
			if freed {
				done(l.gaveBack(released, false, nil))
				return
			}
			reply, again, err := c.releaseSince(began, context.WithoutCancel(ctx), h.l, codec.Release{Token: h.attempt.token(), Member: h.attempt.member}, h.attempt.ending)
			done(l.gaveBack(reply, unanswered || again, err))
		})
	})
}

// gaveBack records the outcome of the release, and returns the error for the caller.
func (l *holdLease) gaveBack(reply codec.ReleaseReply, unanswered bool, err error) error {
	err = l.noteOutcome(reply, unanswered, err)
	l.flush()
	if lost, is := err.(*LostError); is && !l.part && l.g.attempt.ending != unaware {
		l.g.l.c.logLoss(l.lock().subject(), l.fence, lost)
	}
	return err
}

func (l *holdLease) noteOutcome(reply codec.ReleaseReply, unanswered bool, err error) (outcome error) {
	h := l.g
	h.queue.dismissFollower(h) // if a command has released the lock
	if err != nil {
		h.attempt.abandon()
	} else {
		h.attempt.forget()
	}
	h.uncount()

	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { l.endObserved(HandoverNone, outcome) }()
	l.releasing = false
	if t := l.trouble(); t != nil && t.answered != nil {
		close(t.answered)
		t.answered = nil
	}
	if unanswered || err != nil {
		t := l.troubled()
		t.unsure, t.failed = true, err
	}
	if err != nil {
		return err
	}
	l.released = true
	if reply.Word == codec.Released || reply.Word == codec.LeftQueue {
		return nil
	}
	t := l.troubled()
	if t.unsure {
		t.missed = &exec.Failure{Op: "release", Name: l.Name(), Server: h.l.c.server.Addr(), Ambiguous: true, Kind: exec.ErrUnavailable,
			Err: errors.New("an earlier try was not answered; the lock is no longer this lease's, which that try may have brought about")}
	} else {
		t.missed = h.missing(reply.Word)
	}
	return t.missed
}

// prior is what a release has to wait for: nothing, or the closing of one of these channels.
type prior struct {
	landed   <-chan struct{} // no renewal is under way
	released <-chan struct{} // another call has released the lease, or failed
}

// giveUp ends the lease, and passes the lock on within the process if that is allowed; then it is done. Otherwise the release has
// to be sent. first is what to wait for before calling again; without patience, only what is unavoidable.
func (l *holdLease) giveUp(patient bool, how ending) (first prior, done bool, err error) {
	h := l.g
	h.queue.lock()
	defer h.queue.unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	now := clock.Awake() // whether it was lost in a suspension, the server will say
	if h.queue != nil && h.queue.waiting() > 0 {
		now = clock.Now()
	}
	// mutants: look-at-release
	l.checkAt(now)
	// mutants: lost-at-release
	if lost, ok := l.ended().(*LostError); ok && h.state == over {
		return prior{}, true, lost
	}
	if l.isLeaving() && h.state == over && !l.releasing { // lost, while it waited for a renewal
		l.released = true
		return prior{}, true, l.troubled().missed
	}
	switch {
	case l.released && how != hasCountedDown:
		return prior{}, true, nil
	case l.released && h.attempt.ending != hasCountedDown:
		return prior{}, true, ErrReleased
	case l.released && l.trouble() != nil:
		return prior{}, true, l.trouble().missed
	case l.released:
		return prior{}, true, nil
	}
	if l.releasing {
		t := l.troubled()
		if t.answered == nil {
			t.answered = make(chan struct{})
		}
		return prior{released: t.answered}, false, nil
	}
	if h.state != over && h.removeLease(l) { // also when the client closes
		l.end(ErrReleased)
		l.endObserved(HandoverNone, nil)
		l.released = true
		h.retireIfIdle()
		return prior{}, true, nil
	}
	// mutants: pass-on
	if !l.over || l.isLeaving() && h.state != over && !h.expired(now) {
		next := h.queue.successor(h, now)
		if next != nil && h.flying > 0 && patient {
			// An answer to a renewal that is under way must not reach the next
			// lease.
			l.troubled().leaving = true
			l.end(ErrReleased)
			if h.needMore().landed == nil {
				h.more.landed = make(chan struct{})
			}
			return prior{landed: h.more.landed}, false, nil
		}
		if next != nil && h.flying == 0 {
			l.end(ErrReleased)
			l.endObserved(HandoverLocal, nil)
			l.released = true
			h.more.passed++ // it has more, since a fence is reserved
			h.queue.pass(next, h.nextLease())
			return prior{}, true, nil
		}
	}
	l.end(ErrReleased)
	l.releasing = true
	if h.attempt.ending == unaware {
		h.attempt.ending = how
	}
	h.stop()
	h.queue.releaseLocked(h)
	return prior{}, false, nil
}

// calls are functions that are called when a lease ends.
type calls struct {
	last int
	all  map[int]func(error)
}

// add adds a function and returns its number.
func (c *calls) add(f func(error)) int {
	if c.all == nil {
		c.all = map[int]func(error){}
	}
	c.last++
	c.all[c.last] = f
	return c.last
}

// make calls all of the functions.
func (c *calls) make(err error) {
	for _, f := range c.all {
		f(err)
	}
	c.all = nil
}

// WhenOver implements Lease.
func (l *holdLease) WhenOver(f func(error)) (forget func()) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.check()
	if l.over {
		f(l.ended())
		return func() {}
	}
	number := l.needExtra().calls.add(f)
	return func() {
		l.g.mu.Lock()
		defer l.g.mu.Unlock()
		delete(l.extra.calls.all, number)
	}
}

// FenceOf implements Lease.
func (l *holdLease) FenceOf(string) uint64 { return l.fence }

// String names the lease's lock and its fence.
func (l *holdLease) String() string {
	return fmt.Sprintf("holdfast.Lease(%q, fence %d)", l.Name(), l.Token())
}
