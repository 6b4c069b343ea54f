package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// Lock is something that can be acquired: a lock on one server, several locks as one, or a lock that a majority of servers grants.
type Lock interface {
	Name() string
	String() string

	// AcquireBy waits for the lock until ctx ends or, unless end is zero, end comes. Then it returns a *HeldError; in Strict mode, if
	// nothing is granted yet, an error that matches exec.ErrQuarantine; if the server has not answered the last request, one that matches
	// exec.ErrUnavailable. A lock that is granted while the waiter leaves is returned.
	AcquireBy(ctx context.Context, end time.Time) (Lease, error)
	// TryAcquire takes the lock if it is free and nobody is queued for it. Otherwise it returns a *HeldError; in Strict mode, if nothing is
	// granted yet, an error that matches exec.ErrQuarantine. Other errors are those of AcquireBy.
	TryAcquire(ctx context.Context) (Lease, error)
	// Status returns who holds the lock and who waits for it. It changes nothing.
	Status(ctx context.Context) (lock.Status, error)
	// AsElection returns the lock whose holders lead.
	AsElection() *Electorate
}

// Lease is one lock that is held, or several that are held as one. holdfast.Lease documents the methods that are not documented here.
type Lease interface {
	Name() string
	Owner() string
	String() string

	Err() error
	Done() <-chan struct{}
	// WhenOver calls f when the lease ends, or at once if it has ended, with the error that Err returns from then on. The end of the lease
	// waits for f, which must not block and may call no method of the lease but Tokens. After forget, f is not called.
	WhenOver(f func(error)) (forget func())
	Token() uint64
	Tokens() map[string]uint64 // fences by the names of locks
	IsShared() bool
	Deadline() time.Time
	Extend(ctx context.Context, ttl time.Duration) error
	Release(ctx context.Context) error
	// Revoked returns a channel that is closed when an operator asks the holder to let go.
	Revoked() <-chan struct{}

	// singles returns the leases of single locks that it is made of, including those that have ended.
	singles() []*holdLease
	// observeBy makes o the lease's observation.
	observeBy(o *observation)
}

// leased returns the lease as a Lease; nil if there is an error.
func leased[L Lease](lease L, err error) (Lease, error) {
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// Target is a lock on one server. It is immutable and cheap to make: it holds no connection, and sends nothing before it is used.
type Target struct {
	lock.Lock
	c *Client
}

// Mutex returns the lock of that name. It has one holder at a time, unless the options make it a lock of another kind. Mutex sends nothing:
// if the name or an option is bad, every use of the lock returns ErrInvalid.
func (c *Client) Mutex(name string, opts ...kind.Option) *Target {
	l := &Target{lock.Lock{Of: &c.Keyspace, Set: &c.Defaults}, c}
	l.Resolve(name, opts)
	return l
}

// With returns the lock with other options.
func (l *Target) With(opts ...kind.Option) *Target {
	m := &Target{lock.Lock{Of: l.Of, Set: l.Set}, l.c}
	m.Resolve(l.Name(), opts)
	return m
}

// String names the lock.
func (l Target) String() string { return fmt.Sprintf("holdfast.Lock(%q)", l.Name()) }

// AcquireBy implements Lock.
func (l *Target) AcquireBy(ctx context.Context, end time.Time) (Lease, error) {
	if l.c.Config.Observer == nil && end.IsZero() {
		// Without acquireUnseen's stack frame, which thousands of waiting goroutines would keep in the CPU's caches.
		lease, err := l.acquire(ctx, end, false)
		if err != nil {
			return nil, err
		}
		return lease, nil
	}
	o, ctx := l.c.observe(ctx, l, false)
	return o.end(l.acquireUnseen(ctx, end))
}

// acquireUnseen is AcquireBy without telling observers.
func (l *Target) acquireUnseen(ctx context.Context, end time.Time) (Lease, error) {
	acquire := func(asking context.Context) (Lease, error) { return leased(l.acquire(asking, end, false)) }
	try := func(asking context.Context) (Lease, error) { return leased(l.try(asking)) }
	return acquireBy(ctx, l.c, l.Name(), end, acquire, try, l.Holder)
}

// acquireBy calls acquire, which waits until end, or as long as it takes if end is zero. If acquire returns ErrTimeUp, holder says who has
// the lock. In Strict mode try does, unless it is nil: only a try is told of a quarantine. It may be granted the lock.
func acquireBy(ctx context.Context, c *Client, name string, end time.Time, acquire, try func(asking context.Context) (Lease, error),
	holder func(asking context.Context) (lock.Holder, error)) (Lease, error) {
	if end.IsZero() {
		return acquire(ctx)
	}
	defer c.Enter().End()
	asking, cancel := c.asking(ctx, end)
	defer cancel()
	lease, err := acquire(asking)
	if err == ErrTimeUp {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, c.Server.AnswerGrace())
		defer cancel()
		if c.Config.Strict && try != nil {
			lease, err = try(asking)
		} else {
			err = heldBy(asking, name, holder)
		}
	}
	switch {
	case err != nil && ctx.Err() != nil && asking.Err() != nil && errors.Is(err, lock.ErrHeld):
		return nil, EndedWhileHeld(ctx, err)
	case err != nil && asking.Err() != nil && ctx.Err() == nil:
		return nil, c.unanswered(name, err)
	}
	return lease, err
}

// acquire waits for the lock until ctx ends or, unless end is zero, end comes. If try is true, it does not wait.
func (l *Target) acquire(ctx context.Context, end time.Time, try bool) (*holdLease, error) {
	defer l.c.Enter().End() // Close waits for this acquire
	if err := l.Ready(ctx); err != nil {
		return nil, err
	}
	outer, err := l.outer(ctx)
	if err != nil {
		return nil, err
	}
	if outer != nil {
		if lease, err := l.reenter(outer); lease != nil || err != nil {
			return lease, err
		}
	}
	if try {
		return l.try(ctx)
	}
	if w, is := ctx.Value(withinKey{}).(*within); is {
		return l.acquireWithin(ctx, w, end)
	}
	return l.wait(ctx, end)
}

// wait waits for the lock as acquire does.
func (l *Target) wait(ctx context.Context, end time.Time) (*holdLease, error) {
	if l.Set.PollInterval > 0 {
		return poll(ctx, l.c, l.Set, end, l.try)
	}
	return l.queue().acquire(ctx, l, end)
}

// TryAcquire implements Lock.
func (l *Target) TryAcquire(ctx context.Context) (Lease, error) {
	o, ctx := l.c.observe(ctx, l, true)
	return o.end(leased(l.acquire(ctx, time.Time{}, true)))
}

// try takes the lock if it is free. It does not wait in the local wait queue.
func (l *Target) try(ctx context.Context) (*holdLease, error) {
	h, began, err := l.takeFree(ctx)
	if err != nil {
		return nil, err
	}
	if h == nil {
		var reply *codec.Reply
		a := l.newAttempt()
		h, reply, err = a.ask(ctx, began, codec.Try, 1)
		if h == nil {
			a.Abandon()
		}
		switch {
		case err != nil:
			return nil, err
		case h != nil:
			l.c.contended.remove(l.Keys.Lock)
		case reply.Word == codec.Held:
			return nil, &lock.HeldError{Name: l.Name(), Holder: l.HolderOf(reply.Holder)}
		case reply.Word == codec.Quarantined:
			return nil, l.c.QuarantineError("acquire", l.Name(), reply.Refusal.Quarantine)
		default:
			return nil, l.Malformed("acquire")
		}
	}
	return l.keep(h), nil
}

// keep makes h, which was acquired past the wait queue, the queue's hold, and returns its first lease.
func (l *Target) keep(h *hold) *holdLease {
	wq := l.queue()
	defer wq.unref()
	wq.mu.Lock()
	defer wq.mu.Unlock()
	return wq.keep(h)
}

// poll calls try at an interval until it succeeds, end comes or ctx ends.
func poll[L any](ctx context.Context, c *Client, s *kind.Settings, end time.Time, try func(context.Context) (L, error)) (L, error) {
	var none L
	limit, stop := TimeUp(end)
	defer stop()
	var refused error // the latest refusal
	for {
		asked := time.Now()
		lease, err := try(ctx)
		if refused != nil && err != nil && ctx.Err() != nil && !c.Server.IsSilent(asked) {
			if IsOver(end) {
				return none, ErrTimeUp
			}
			return none, EndedWhileHeld(ctx, refused)
		}
		if rest := (*exec.Quarantine)(nil); errors.As(err, &rest) {
			c.WarnOfQuarantine(rest.Error())
		} else if !errors.Is(err, lock.ErrHeld) {
			return lease, err
		}
		refused = err
		c.observing(ctx).wait(0, holderIn(err))
		select {
		case <-time.After(schedule.Jitter(s.PollInterval, 10)):
		case <-limit:
			return none, err
		case <-ctx.Done():
			if IsOver(end) {
				return none, err
			}
			return none, EndedWhileHeld(ctx, err)
		case <-c.Closing:
			return none, exec.ErrClosed
		}
	}
}

// queueKey returns the key of the local wait queue. Each owner has a queue of its own. An owner that holds the lock does not wait for
// itself, so it must not wait behind another owner.
func (l *Target) queueKey() string {
	if l.Set.Kind.ByOwner {
		return l.Keys.Queue + "\n" + l.Set.Owner
	}
	return l.Keys.Queue
}

// interchangeable reports whether holders of l and m differ only in their tokens.
func (l *Target) interchangeable(m *Target) bool {
	if l == m {
		return true
	}
	return l.c == m.c && l.Keys == m.Keys && (l.Set == m.Set || l.Set.Interchangeable(m.Set))
}

// asking returns the context for requests that are sent until end, unless end is zero. It ends a little after end, so that they can be
// answered.
func (c *Client) asking(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end.Add(c.Server.AnswerGrace()))
}

// ErrTimeUp reports that a waiter's time to wait has passed.
var ErrTimeUp = errors.New("not acquired in time")

// TimeUp returns a channel that receives a value at end; nil if end is zero.
func TimeUp(end time.Time) (_ <-chan time.Time, stop func() bool) {
	if end.IsZero() {
		return nil, func() bool { return true }
	}
	timer := time.NewTimer(time.Until(end))
	return timer.C, timer.Stop
}

// IsOver reports whether end has passed. It returns false if end is zero.
func IsOver(end time.Time) bool { return !end.IsZero() && !time.Now().Before(end) }

// heldBy returns the error of a lock that was not granted in time. If holder fails, the lock is still known to be held: the server told the
// waiter so.
func heldBy(asking context.Context, name string, holder func(context.Context) (lock.Holder, error)) error {
	held := &lock.HeldError{Name: name}
	if h, err := holder(asking); err == nil {
		held.Holder = h
	}
	return held
}

// EndedWhileHeld returns the error of an acquire whose context ended while it waited. last is the latest answer, as an error, or nil. If
// last is a *HeldError and the deadline has passed, the error matches both. A caller that cancels an acquire gets the context's error
// alone.
func EndedWhileHeld(ctx context.Context, last error) error {
	var held *lock.HeldError
	if ctx.Err() == context.DeadlineExceeded && errors.As(last, &held) {
		return fmt.Errorf("%w: %w", held, ctx.Err())
	}
	return exec.EndedBy(ctx, last)
}

// A waiter whose deadline has passed waits for the holder's name for holderGrace or holderRoundTrips, whichever is longer.
const (
	holderGrace      = 50 * time.Millisecond
	holderRoundTrips = 3 // the waiter leaves the queue first
)

// stillHeld returns the error of a waiter whose context has ended, and whose server is not known to be silent.
func (l *Target) stillHeld(ctx context.Context) error {
	if ctx.Err() != context.DeadlineExceeded {
		return ctx.Err()
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(holderGrace, holderRoundTrips*l.c.Server.RTT.Mean()))
	defer cancel()
	return EndedWhileHeld(ctx, heldBy(asking, l.Name(), l.Holder))
}

// holderIn returns the holder that a *HeldError names, or nil for any other error.
func holderIn(err error) *lock.Holder {
	var held *lock.HeldError
	if errors.As(err, &held) {
		return &held.Holder
	}
	return nil
}

// unanswered returns the error of an acquire whose time to wait passed before the server answered, while its caller's context had not
// ended.
func (c *Client) unanswered(name string, err error) error {
	var failure *exec.Failure
	if e, ok := err.(interface{ WithoutEnd() error }); ok { // a *voting.Error
		return e.WithoutEnd()
	}
	switch {
	case errors.As(err, &failure) && err == error(failure):
		own := *failure
		own.Ended = nil
		return &own
	case errors.Is(err, context.DeadlineExceeded):
		return &exec.Failure{
			Op: "acquire", Name: name, Server: c.Server.Addr(), Kind: exec.ErrUnavailable, Ambiguous: true,
			Err: fmt.Errorf("no answer for %s", c.Server.AnswerGrace().Round(time.Millisecond)),
		}
	}
	return err
}
