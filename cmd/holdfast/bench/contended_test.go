package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// fake is a lock in memory. After 200 releases it ends the turn with errEnough, so that no test depends on time. A broken one excludes
// nobody.
type fake struct {
	broken bool
	fail   error // of releases
	free   chan struct{}

	ctx      context.Context
	enough   context.CancelCauseFunc
	releases atomic.Int64
}

var errEnough = errors.New("enough")

func newFake(t *testing.T, broken bool) *fake {
	f := &fake{broken: broken, free: make(chan struct{}, 1)}
	f.free <- struct{}{}
	f.ctx, f.enough = context.WithCancelCause(t.Context())
	return f
}

func (f *fake) acquire(ctx context.Context) (lease, error) {
	if f.broken {
		return &fakeLease{f: f}, nil
	}
	select {
	case <-f.free:
		return &fakeLease{f: f}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type fakeLease struct {
	f   *fake
	err error
}

func (l *fakeLease) Err() error { return l.err }

func (l *fakeLease) Release(context.Context) error {
	if !l.f.broken {
		l.f.free <- struct{}{}
	}
	if l.f.releases.Add(1) == 200 {
		l.f.enough(errEnough)
	}
	return l.f.fail
}

// locks returns a handle for each goroutine of a turn.
func (f *fake) locks() (all []acquire) {
	for range contendedClients * contendedGoroutines {
		all = append(all, f.acquire)
	}
	return all
}

func TestABrokenLockOverlaps(t *testing.T) {
	f := newFake(t, true)
	o, _, err := compete(f.ctx, f.locks(), time.Hour)
	if !errors.Is(err, errEnough) || o.overlaps == 0 {
		t.Fatalf("%d overlaps, %v: a lock that lets everybody in passes", o.overlaps, err)
	}
	r := &report{}
	r.add(&result{Experiment: "contended", figures: contendedFigures, rounds: [][2]values{{ours: {overlaps.key: float64(o.overlaps)}}}})
	var exit *exitcode.Error
	if err := r.verdict(holdfast.ErrLost); !errors.As(err, &exit) || exit.Code != 1 || len(r.Faults) != 1 {
		t.Errorf("the verdict is %v, and the faults are %q", err, r.Faults)
	}
	if text := r.text(); !strings.Contains(text, "FAULT: ") || strings.Contains(text, "No overlaps") {
		t.Errorf("the report does not say so:\n%s", text)
	}
}

func TestALockThatWorksDoesNotOverlap(t *testing.T) {
	f := newFake(t, false)
	o, _, err := compete(f.ctx, f.locks(), time.Hour)
	if !errors.Is(err, errEnough) || o.overlaps != 0 || o.lost != 0 {
		t.Fatalf("%d overlaps, %d lost, %v", o.overlaps, o.lost, err)
	}
	grants := 0
	for _, n := range o.grants {
		grants += n
	}
	if grants == 0 || len(o.handovers) == 0 || len(o.handovers) > grants || len(o.between) > len(o.handovers) || len(o.waits) < grants {
		t.Errorf("%d grants, %d hand-overs, %d between clients, %d waits", grants, len(o.handovers), len(o.between), len(o.waits))
	}
}

// A holder that knows that its lease is lost is no overlap with the next holder.
func TestHoldersThatKnowOfTheirLossDoNotOverlap(t *testing.T) {
	knows := &fakeLease{err: holdfast.ErrLost}
	for _, c := range []struct {
		what        string
		first, next *fakeLease
		want        int
	}{
		{"neither knows", &fakeLease{}, &fakeLease{}, 1},
		{"the first knows", knows, &fakeLease{}, 0},
		{"the second knows", &fakeLease{}, knows, 0},
	} {
		b := newBoard(contendedClients * contendedGoroutines)
		b.enter(0, c.first, b.wait())
		b.enter(1, c.next, b.wait())
		if b.overlaps != c.want {
			t.Errorf("%s: %d overlaps", c.what, b.overlaps)
		}
	}
	b := newBoard(contendedClients * contendedGoroutines) // one holder stays while others come and go
	goes := &fakeLease{}
	b.enter(0, &fakeLease{}, b.wait())
	b.enter(1, goes, b.wait())
	b.leave(1, goes)
	if b.enter(1, &fakeLease{}, b.wait()); b.overlaps != 2 {
		t.Errorf("%d overlaps with one that stays, want 2", b.overlaps)
	}
}

// A release is a hand-over only if there is a waiter. Each counts once.
func TestHandoversAreFromReleaseToNextHolder(t *testing.T) {
	b := newBoard(contendedClients * contendedGoroutines)
	const other = contendedGoroutines // a goroutine of another client than 0 and 1
	a, c, d := &fakeLease{}, &fakeLease{}, &fakeLease{}
	if b.enter(0, a, b.wait()); len(b.handovers) != 0 {
		t.Errorf("the first was handed the lock after %s", b.handovers)
	}
	asked := b.wait()
	b.leave(0, a)
	time.Sleep(20 * time.Millisecond)
	if b.enter(other, c, asked); len(b.handovers) != 1 || b.handovers[0] < 20*time.Millisecond || len(b.between) != 1 {
		t.Errorf("handed over: %v, between clients %v", b.handovers, b.between)
	}
	b.leave(other, c) // nobody waits
	if b.enter(0, d, b.wait()); len(b.handovers) != 1 {
		t.Errorf("taken when it was free, it was handed over: %v", b.handovers)
	}
	asked = b.wait()
	b.leave(0, d)
	if b.enter(1, a, asked); len(b.handovers) != 2 || len(b.between) != 1 {
		t.Errorf("handed over within a client: %v, between clients %v", b.handovers, b.between)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := func(context.Context) (lease, error) { cancel(); return nil, ctx.Err() }
	if err := b.rival(ctx, 2, gaveUp); err != nil {
		t.Error(err)
	}
	if b.leave(1, a); !b.released.IsZero() {
		t.Error("one that gave up still counts as waiting")
	}
}

func TestErrorsEndATurnAndLossesDoNot(t *testing.T) {
	errServer := errors.New("no server")
	for _, c := range []struct {
		what       string
		fail, want error
		lost       bool
	}{
		{"another error", errServer, errServer, false},
		{"a lost lease", holdfast.ErrLost, errEnough, true},
		{"a lost bare lock", errBareLost, errEnough, true},
	} {
		f := newFake(t, false)
		f.fail = c.fail
		o, _, err := compete(f.ctx, f.locks(), time.Hour)
		if !errors.Is(err, c.want) || (o.lost > 0) != c.lost {
			t.Errorf("contended, %s: %v, %d lost", c.what, err, o.lost)
		}
		f = newFake(t, false)
		f.fail = c.fail
		s, lost, err := spin(f.ctx, []acquire{f.acquire}, time.Hour)
		if !errors.Is(err, c.want) || (lost > 0) != c.lost || s.Cycles > 0 {
			t.Errorf("free, %s: %v, %d lost, %d cycles", c.what, err, lost, s.Cycles)
		}
	}
}

func TestTurnsEndByThemselves(t *testing.T) {
	f := newFake(t, false)
	if _, _, err := compete(f.ctx, f.locks(), 10*time.Millisecond); err != nil {
		t.Error(err)
	}
	f = newFake(t, false)
	f.releases.Store(1000) // never enough
	if s, _, err := spin(f.ctx, []acquire{f.acquire}, 10*time.Millisecond); err != nil || s.Took < 10*time.Millisecond {
		t.Errorf("after %s: %v", s.Took, err)
	}
}

// All leases that were acquired are counted and released, even if an acquire failed.
func TestHeldCountsLostLeases(t *testing.T) {
	var mu sync.Mutex
	var all []*heldLease
	takes := make([]acquire, 100)
	for i := range takes {
		takes[i] = func(context.Context) (lease, error) {
			mu.Lock()
			defer mu.Unlock()
			if len(all) == 90 {
				return nil, errBareLost
			}
			l := &heldLease{}
			all = append(all, l)
			return l, nil
		}
	}
	leases, err := takeAll(t.Context(), takes, time.Now().Add(time.Hour))
	if !errors.Is(err, errBareLost) || len(all) != 90 || len(leases) != 90 {
		t.Fatalf("%d of %d leases, %v", len(leases), len(all), err)
	}
	for i, l := range all {
		switch {
		case i < 5:
			l.err = holdfast.ErrLost // and the holder knows
		case i < 12:
			l.release = holdfast.ErrLost // which its release tells
		}
	}
	if losses, err := releaseAll(t.Context(), leases); losses != 12 || err != nil {
		t.Errorf("%d lost, %v; want 12", losses, err)
	}
	for i, l := range all {
		if l.released != 1 {
			t.Errorf("lease %d was released %d times", i, l.released)
		}
	}
	r := &report{}
	r.add(&result{Experiment: "held", figures: heldFigures, rounds: [][2]values{{{lost.key: 12}}}})
	var exit *exitcode.Error
	if err := r.verdict(nil); !errors.As(err, &exit) || exit.Code != 1 {
		t.Errorf("the verdict is %v", err)
	}
	if err := r.verdict(errBareLost); !errors.Is(err, errBareLost) {
		t.Errorf("with another error the verdict is %v", err)
	}
}

type heldLease struct {
	err, release error
	released     int
}

func (l *heldLease) Err() error { return l.err }
func (l *heldLease) Release(context.Context) error {
	l.released++
	return l.release
}
