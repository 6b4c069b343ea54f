package holdfast_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// lossOf waits for a lease to be lost, and returns its error.
func lossOf(t *testing.T, lease *holdfast.Lease) *holdfast.LostError {
	t.Helper()
	receive(t, lease.Done())
	var lost *holdfast.LostError
	if err := lease.Err(); !errors.Is(err, holdfast.ErrLost) || !errors.As(err, &lost) || lost.Name != lease.Name() || lost.Fence != lease.Fence() {
		t.Fatalf("Err: %v", err)
	}
	return lost
}

func TestReleaseEndsALease(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	l := s.client().Mutex("m")
	lease := acquire(t, l)
	if fences := lease.Fences(); len(fences) != 1 || fences["m"] != lease.Fence() || lease.IsShared() {
		t.Errorf("the fences are %v, shared: %t; want %d", fences, lease.IsShared(), lease.Fence())
	}
	select {
	case <-lease.Done():
		t.Error("Done is closed while the lease is held")
	default:
	}
	release(t, lease)
	receive(t, lease.Done())
	want(t, "Err", lease.Err(), holdfast.ErrReleased)
	want(t, "Extend", lease.Extend(t.Context(), time.Hour), holdfast.ErrReleased)
	release(t, lease) // a second release does nothing
	next := acquire(t, l)
	release(t, lease)
	if err := next.Err(); err != nil {
		t.Errorf("a late release ends the next lease: %v", err)
	}
	release(t, next)
}

// A context made from a lease ends with its parent or with the lease, whichever is first, and says why.
func TestContextOfALease(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	c := s.client()
	type key struct{}
	for what, l := range map[string]*holdfast.Lock{"a mutex": c.Mutex("m"), "several": c.Multi([]string{"a", "b"})} {
		lease := acquire(t, l)
		parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
		first, second := lease.Context(parent), lease.Context(context.Background())
		if first.Value(key{}) != "value" {
			t.Errorf("%s: the context lacks its parent's value", what)
		}
		cancel(errBroken)
		receive(t, first.Done())
		if context.Cause(first) != errBroken || second.Err() != nil || lease.Err() != nil {
			t.Errorf("%s: with its parent it ends with %v; the other context: %v; the lease: %v", what, context.Cause(first), second.Err(), lease.Err())
		}
		release(t, lease)
		receive(t, second.Done())
		for _, ctx := range []context.Context{second, lease.Context(t.Context())} {
			if ctx.Err() == nil || context.Cause(ctx) != holdfast.ErrReleased {
				t.Errorf("%s: with its lease it ends with %v", what, context.Cause(ctx))
			}
		}
	}
}

func TestReleaseWorksAfterItsContextEnded(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	l := s.client().Mutex("m")
	ctx, cancel := context.WithCancel(t.Context())
	lease, err := l.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := lease.Err(); err != nil {
		t.Errorf("the lease ended with the context of Acquire: %v", err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Errorf("Release: %v", err)
	}
	if status(t, l).Held() {
		t.Error("the lock is still held")
	}
}

func TestExtend(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	lease := acquire(t, s.client().Mutex("m", holdfast.NoRenew()))
	before := lease.Deadline()
	if err := lease.Extend(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	long := lease.Deadline()
	if long.Sub(before) < 50*time.Minute {
		t.Errorf("the deadline was %s and is %s", before, long)
	}
	if err := lease.Extend(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := lease.Deadline(); long.Sub(got) > time.Second { // the server counts whole milliseconds
		t.Errorf("a shorter Extend takes the deadline from %s to %s", long, got)
	}
	for _, ttl := range []time.Duration{-1, 0, time.Microsecond, 25 * time.Hour} {
		want(t, "Extend by "+ttl.String(), lease.Extend(t.Context(), ttl), holdfast.ErrInvalid)
	}
	if err := lease.Err(); err != nil {
		t.Errorf("the lease after an Extend that was refused: %v", err)
	}
	release(t, lease)
}

// A lease that is not, or no longer, renewed ends at its deadline, and the lock is free.
func TestLeasesThatEndByThemselves(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		opts   []holdfast.MutexOption
		reason holdfast.LossReason
	}{
		"NoRenew":     {[]holdfast.MutexOption{holdfast.TTL(mortal), holdfast.NoRenew()}, holdfast.LossExpired},
		"MaxRenewals": {[]holdfast.MutexOption{holdfast.TTL(mortal), holdfast.MaxRenewals(1)}, holdfast.LossBound},
		"MaxHold":     {[]holdfast.MutexOption{holdfast.MaxHold(mortal)}, holdfast.LossBound},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t)
			lease := acquire(t, s.client().Mutex("m", c.opts...))
			work := lease.Context(t.Context())
			if lost := lossOf(t, lease); lost.Reason != c.reason {
				t.Errorf("the lease is lost: %q, want %q", lost.Reason, c.reason)
			}
			receive(t, work.Done())
			want(t, "the cause", context.Cause(work), holdfast.ErrLost)
			want(t, "Extend", lease.Extend(t.Context(), time.Hour), holdfast.ErrLost)
			want(t, "Release", lease.Release(t.Context()), holdfast.ErrLost)
			release(t, acquire(t, s.client().Mutex("m")))
			s.cleaned()
		})
	}
}

// Without any call a lease is renewed.
func TestALeaseIsRenewed(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	c := s.client()
	type held struct {
		lease *holdfast.Lease
		until time.Time
	}
	var all []held
	for _, l := range []*holdfast.Lock{
		c.Mutex("m", holdfast.TTL(6*time.Second)), c.Mutex("bounded", holdfast.TTL(6*time.Second), holdfast.MaxHold(time.Hour)),
		c.RWMutex("rw", holdfast.TTL(6*time.Second)).Reader(), c.Multi([]string{"a", "b"}, holdfast.TTL(6*time.Second)),
	} {
		lease := acquire(t, l)
		all = append(all, held{lease, lease.Deadline()})
	}
	for _, h := range all {
		eventually(t, h.lease.String()+" is renewed", func() bool {
			if err := h.lease.Err(); err != nil {
				t.Fatalf("%s: %v", h.lease, err)
			}
			return h.lease.Deadline().After(h.until)
		})
		release(t, h.lease)
	}
}

// A lease whose renewals fail is held until its deadline, and then lost, with the error of the last renewal.
func TestALeaseWhoseRenewalsFailIsLost(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	var failed atomic.Bool
	l := s.tapped(func(ctx context.Context, call driver.Call, next redistest.Run) (string, error) {
		if strings.Contains(call.Script.Name, "renew") {
			failed.Store(true)
			return "", io.ErrUnexpectedEOF
		}
		return next(ctx, call)
	}).Mutex("m", holdfast.TTL(mortal))
	for {
		failed.Store(false)
		lease := acquire(t, l)
		lost := lossOf(t, lease)
		if !failed.Load() && lost.Reason == holdfast.LossExpired {
			continue // the process slept through all renewals
		}
		if lost.Reason != holdfast.LossUnreachable || !errors.Is(lost, holdfast.ErrUnavailable) || !errors.Is(lost, io.ErrUnexpectedEOF) {
			t.Errorf("the lease is lost: %q, %v", lost.Reason, lost)
		}
		_ = lease.Release(t.Context())
		return
	}
}

// A renewal notices that the lock is somebody else's.
func TestALeaseThatIsTakenIsLost(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	lease := acquire(t, s.client().Mutex("m", holdfast.TTL(6*time.Second)))
	s.steal("m")
	if lost := lossOf(t, lease); lost.Reason != holdfast.LossTaken {
		t.Errorf("the lease is lost: %q", lost.Reason)
	}
	want(t, "Release", lease.Release(t.Context()), holdfast.ErrLost)
	if got := s.do("GET", s.key("m")); got != "theirs" {
		t.Errorf("the other's lock is now %q", got)
	}
}

// A mutex survives the loss of the server's data: its renewal acquires it again.
func TestALeaseOutlivesTheServersData(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	l := s.client().Mutex("m", holdfast.TTL(6*time.Second))
	lease := acquire(t, l)
	for key := range strings.Lines(s.do("KEYS", s.prefix+"*")) {
		s.do("DEL", strings.TrimSpace(key))
	}
	eventually(t, "the lock is there again", func() bool {
		if err := lease.Err(); err != nil {
			t.Fatalf("Err: %v", err)
		}
		return s.do("EXISTS", s.key("m")) == "1"
	})
	wantHeld(t, s.client().Mutex("m"))
	release(t, lease)
	next := acquire(t, s.client().Mutex("m"))
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d follows %d", next.Fence(), lease.Fence())
	}
	release(t, next)
}

// A release that the server does not answer is repeated.
func TestAReleaseIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	var down atomic.Bool
	l := s.tapped(func(ctx context.Context, call driver.Call, next redistest.Run) (string, error) {
		if down.Load() {
			return "", io.ErrUnexpectedEOF
		}
		return next(ctx, call)
	}, func(cfg *holdfast.Config) { cfg.RetryTimeout = 20 * time.Millisecond }).Mutex("m")
	lease := acquire(t, l)
	down.Store(true)
	err := lease.Release(t.Context())
	if !errors.Is(err, holdfast.ErrUnavailable) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Release while the server is down: %v", err)
	}
	want(t, "Err", lease.Err(), holdfast.ErrReleased)
	wantHeld(t, s.client().Mutex("m"))
	down.Store(false)
	eventually(t, "the lock is released in the background", func() bool { return s.do("EXISTS", s.key("m")) == "0" })
}
