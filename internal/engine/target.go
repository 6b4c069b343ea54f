package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// target is a lock on one server. It is immutable and free to make: it holds no connection, and nothing is sent before
// it is used.
type target struct {
	c    *Client
	name string
	keys keys.Set
	set  *settings // not to be changed: locks share them
}

// Name returns the lock's name.
func (l *target) Name() string { return l.name }

// Key returns the lock's key.
func (l *target) Key() string { return l.keys.Lock }

// Form says what kind of lock it is, as whatis.lua does.
func (l *target) Form() string { return l.set.kind.form }

// Limit returns how many permits a semaphore has, or parties a latch or a barrier, as their user says; else 0.
func (l *target) Limit() int {
	if !l.set.kind.isShared() || l.set.limit == everything {
		return 0
	}
	return l.set.limit
}

// Now returns about what time it is by the server's clock, once the server has answered something.
func (l *target) Now() time.Time { return time.UnixMicro(l.c.server.Time(l.c.slot(l))) }

// Acquire waits for the lock until it has it or ctx ends. Waiters are served in the
// order in which their processes came, and within a process in the order of their
// calls. A free lock costs one round trip; a waiter sleeps until it is handed the
// lock, and polls nobody.
//
// Errors: ctx.Err() as it is when others had the lock until ctx ended, and a *ServerError
// that matches both ctx.Err() and, most often, ErrUnavailable when the server had left
// a request unanswered by then; ErrClosed; ErrInvalid, before any I/O; a *ServerError
// for what the server, or the way to it, does not allow; with Poll, ErrHeld. After
// an error the caller has no lock and no place in the queue; what may still be on
// its way is taken back in the background.
func (l *target) Acquire(ctx context.Context) (Lease, error) { return l.AcquireBy(ctx, time.Time{}) }

// acquire waits for the lock until ctx ends, or until end if that is not zero.
func (l *target) acquire(ctx context.Context, end time.Time) (*holdLease, error) {
	l.c.tasks.Begin() // Close waits for what this brings
	defer l.c.tasks.End()
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	if lease, err := l.reenter(ctx); lease != nil || err != nil {
		return lease, err
	}
	if l.set.pollInterval > 0 {
		return poll(ctx, l.c, l.set, end, l.try)
	}
	return l.c.queueOf(l.queueKey()).acquire(ctx, l, end)
}

// TryAcquire takes the lock if it is free and nobody queues for it. Otherwise it
// returns a *HeldError, which matches ErrHeld; in Strict mode ErrQuarantine, when nothing
// is granted yet. Other errors as those of Acquire.
func (l *target) TryAcquire(ctx context.Context) (Lease, error) { return leased(l.tryAcquire(ctx)) }

func (l *target) tryAcquire(ctx context.Context) (*holdLease, error) {
	l.c.tasks.Begin()
	defer l.c.tasks.End()
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	if lease, err := l.reenter(ctx); lease != nil || err != nil {
		return lease, err
	}
	return l.try(ctx)
}

// ready refuses what cannot work before any I/O, and learns what the server is.
func (l *target) ready(ctx context.Context) error { return l.c.ready(ctx, l.name, l, l.set.err) }

// ready is that of a lock of that name, of which one is a target; wrong is what is wrong with its name or options.
func (c *Client) ready(ctx context.Context, name string, one *target, wrong error) error {
	if wrong != nil {
		return wrong
	}
	if c.isClosing() {
		return exec.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.server.Connect(ctx, name); err != nil {
		return err
	}
	c.checkOnce.Do(func() { c.tasks.Run(func() { c.checkServer(one) }) })
	return nil
}

// interchangeable reports whether holders of l and m cannot be told apart, but by their tokens.
func (l *target) interchangeable(m *target) bool {
	if l == m {
		return true
	}
	return l.c == m.c && l.keys == m.keys && (l.set == m.set || l.set.interchangeable(m.set))
}

func (s *settings) interchangeable(t *settings) bool {
	a, b := *s, *t
	a.meta, b.meta = nil, nil // which info has
	return a == b
}

// lineKey names the line in which those wait who are in each other's way: not those of other
// owners with the same name, which are the server's business, or the one who has the lock
// would wait behind them for itself.
func (l *target) queueKey() string {
	if l.set.kind.byOwner {
		return l.keys.Queue + "\n" + l.set.owner
	}
	return l.keys.Queue
}

// try takes the lock if it is free, without a place in the local line.
func (l *target) try(ctx context.Context) (*holdLease, error) {
	a := l.newAttempt()
	got, err := a.begin(ctx, codec.Try, 1)
	if err != nil {
		a.abandon()
		return nil, err
	}
	if got.hold != nil {
		l.noteUnqueued(got.hold)
		return got.hold.begin(ctx), nil
	}
	a.abandon()
	switch got.Word {
	case codec.Held:
		return nil, &HeldError{Name: l.name, Holder: l.holderOf(&got.Holder)}
	case codec.Quarantined:
		return nil, l.c.quarantineError("acquire", l.name, got.Refusal.Quarantine)
	}
	return nil, l.malformed("acquire")
}

// replaces ends the grant that this process had of the lock before, if it has not noticed that it was lost, and
// notes the one that it has now.
func (l *target) noteUnqueued(h *hold) {
	if l.set.kind.isShared() {
		return
	}
	key := l.queueKey()
	l.c.mu.Lock()
	wq, tried := l.c.queues.Get(key), l.c.unqueued.Get(key)
	l.c.unqueued.Set(key, h)
	h.unqueued = true
	l.c.mu.Unlock()
	tried.replacedBy(h)
	if wq != nil {
		wq.mu.Lock()
		defer wq.mu.Unlock()
		wq.held.replacedBy(h)
	}
}

// jitter returns d, up to so many percent longer or shorter.
func jitter(d time.Duration, percent int) time.Duration {
	spread := d * time.Duration(percent) / 100
	if spread <= 0 {
		return d
	}
	return d - spread + rand.N(2*spread)
}

func (l *target) malformed(op string) error {
	return &exec.Failure{Op: op, Name: l.name, Server: l.c.server.Addr(), Err: wire.ErrMalformed}
}
