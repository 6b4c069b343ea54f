package bench

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// fake is a lock in memory. After 200 releases it ends the turn with errEnough, so that no test depends on time. A
// broken one lets everybody in.
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
	o, err := compete(f.ctx, f.locks(), time.Hour)
	if !errors.Is(err, errEnough) || o.overlaps == 0 {
		t.Fatalf("%d overlaps, %v: a lock that lets everybody in passes", o.overlaps, err)
	}
	r := &Report{Contended: &Contended{Holdfast: Rivals{Overlaps: o.overlaps}}}
	var fault *FaultError
	if err := verdict(r, holdfast.ErrLost); !errors.As(err, &fault) || !fault.Overlaps || len(r.Faults) != 1 {
		t.Errorf("the verdict is %v, and the faults are %q", err, r.Faults)
	}
	var text strings.Builder
	if err := r.Write(&text); err != nil || !strings.Contains(text.String(), "FAULT: ") || strings.Contains(text.String(), "No overlaps") {
		t.Errorf("%v: the report does not say so:\n%s", err, &text)
	}
}

func TestALockThatWorksDoesNotOverlap(t *testing.T) {
	f := newFake(t, false)
	o, err := compete(f.ctx, f.locks(), time.Hour)
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

// A holder that knows of its loss does not count: the other one holds the lock rightly.
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
		b := newBoard()
		b.wait()
		b.wait()
		b.enter(0, c.first)
		b.enter(1, c.next)
		if b.overlaps != c.want {
			t.Errorf("%s: %d overlaps", c.what, b.overlaps)
		}
	}
	b := newBoard() // one holder stays while others come and go
	for range 3 {
		b.wait()
	}
	stays, goes := &fakeLease{}, &fakeLease{}
	b.enter(0, stays)
	b.enter(1, goes)
	b.leave(1, goes)
	if b.enter(1, &fakeLease{}); b.overlaps != 2 {
		t.Errorf("%d overlaps with one that stays, want 2", b.overlaps)
	}
}

// Only releases with a waiter count, each once.
func TestHandoversAreFromReleaseToNextHolder(t *testing.T) {
	b := newBoard()
	a, c, d := &fakeLease{}, &fakeLease{}, &fakeLease{}
	b.wait()
	if h := b.enter(0, a); h.took != 0 {
		t.Errorf("the first was handed the lock after %s", h.took)
	}
	b.wait()
	b.leave(0, a)
	time.Sleep(20 * time.Millisecond)
	if h := b.enter(1, c); h.took < 20*time.Millisecond || !h.between {
		t.Errorf("handed over: %+v", h)
	}
	b.leave(1, c) // nobody waits
	b.wait()
	if h := b.enter(1, d); h.took != 0 {
		t.Errorf("taken when it was free, it was handed over: %+v", h)
	}
	b.wait()
	b.leave(1, d)
	if h := b.enter(1, a); h.took == 0 || h.between {
		t.Errorf("handed over within a client: %+v", h)
	}
	b.wait()
	b.giveUp()
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
		o, err := compete(f.ctx, f.locks(), time.Hour)
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
	if _, err := compete(f.ctx, f.locks(), 10*time.Millisecond); err != nil {
		t.Error(err)
	}
	f = newFake(t, false)
	f.releases.Store(1000) // never enough
	if s, _, err := spin(f.ctx, []acquire{f.acquire}, 10*time.Millisecond); err != nil || s.Took < 10*time.Millisecond {
		t.Errorf("after %s: %v", s.Took, err)
	}
}

// All leases that were taken are counted and released, even if not all could be taken.
func TestHeldCountsLostAndRenewedLeases(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	var leases []*timedLease
	taken := 0
	takes := make([]acquire, 100)
	for i := range takes {
		takes[i] = func(context.Context) (lease, error) {
			mu.Lock()
			defer mu.Unlock()
			if taken++; taken > 90 {
				return nil, errBareLost
			}
			l := &timedLease{until: now}
			leases = append(leases, l)
			return l, nil
		}
	}
	set := newLeaseSet(len(takes))
	if err := set.take(t.Context(), takes, now.Add(time.Hour)); !errors.Is(err, errBareLost) {
		t.Fatal(err)
	}
	if len(leases) != 90 || set.granted.Load() != 90 {
		t.Fatalf("%d leases, %d of them counted", len(leases), set.granted.Load())
	}
	for i, l := range leases {
		switch {
		case i < 5:
			l.err = holdfast.ErrLost // and the holder knows
		case i < 12:
			l.release = holdfast.ErrLost // which its release tells
		case i < 50:
			l.until = now.Add(time.Second)
		}
	}
	if n := set.renewed(); n != 38 {
		t.Errorf("%d renewed, want 38", n)
	}
	if lost, err := set.release(t.Context()); lost != 12 || err != nil {
		t.Errorf("%d lost, %v; want 12", lost, err)
	}
	for i, l := range leases {
		if l.released != 1 {
			t.Errorf("lease %d was released %d times", i, l.released)
		}
	}
	r := &Report{Held: &Held{Leases: 90, Lost: 12}}
	var fault *FaultError
	if err := verdict(r, nil); !errors.As(err, &fault) || fault.Overlaps {
		t.Errorf("the verdict is %v", err)
	}
	if err := verdict(r, errBareLost); !errors.Is(err, errBareLost) {
		t.Errorf("with another error the verdict is %v", err)
	}
}

type timedLease struct {
	err, release error
	until        time.Time
	released     int
}

func (l *timedLease) Err() error          { return l.err }
func (l *timedLease) Deadline() time.Time { return l.until }
func (l *timedLease) Release(context.Context) error {
	l.released++
	return l.release
}
