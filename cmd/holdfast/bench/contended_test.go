package main

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
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

// Ratios are computed for each round. A machine that is slow in one round slows both ways, so the ratios do not change.
func TestSumUp(t *testing.T) {
	r := &result{figures: freeFigures, rounds: [][2]values{
		{ours: {"cycles_per_s": 10, "p50_us": 4, "lost": 1}, bare: {"cycles_per_s": 20, "p50_us": 0, "p99_us": 9}},
		{ours: {"cycles_per_s": 30, "p50_us": 6}, bare: {"cycles_per_s": 10, "p50_us": 2, "p99_us": 7}},
		{ours: {"cycles_per_s": 20, "p50_us": 5, "lost": 2}, bare: {"cycles_per_s": 20, "p99_us": 8}},
	}}
	r.sumUp()
	_, measured := r.Holdfast["p99_us"]
	if r.Holdfast["cycles_per_s"] != 20 || r.Holdfast["p50_us"] != 5 || measured || r.Bare["p99_us"] != 8 {
		t.Errorf("sums: %v and %v", r.Holdfast, r.Bare)
	}
	if r.Holdfast["lost"] != 3 {
		t.Errorf("%v were lost, want 3", r.Holdfast["lost"])
	}
	if got, want := r.Ratios["cycles_per_s"], (ratio{Median: 1, Lowest: 0.5, Highest: 3}); got != want {
		t.Errorf("ratio of rates: %+v, want %+v", got, want)
	}
	if got, want := r.Ratios["p50_us"], (ratio{Median: 3, Lowest: 3, Highest: 3}); got != want { // the only round with both
		t.Errorf("ratio of medians: %+v, want %+v", got, want)
	}
	if q, is := r.Ratios["p99_us"]; is {
		t.Errorf("ratio to what was not measured: %+v", q)
	}
}

// Of a round that was not completed, overlaps and losses count, and nothing else.
func TestFaultsOfUnfinishedRoundsCount(t *testing.T) {
	r := &result{figures: freeFigures}
	r.addFaults([2]values{ours: {"cycles_per_s": 10, "lost": 1}})
	if r.sumUp(); len(r.Holdfast) != 1 || r.Holdfast["lost"] != 1 {
		t.Errorf("sums: %v", r.Holdfast)
	}
}

func TestValues(t *testing.T) {
	v := values{}
	v.set("none", math.NaN())
	v.set("endless", math.Inf(1))
	v.setTimes("p50", "p99", nil)
	v.setCPU(cpu{server: 5, client: math.NaN()}, cpu{server: 2, client: 3}, 1)
	if len(v) > 0 {
		t.Errorf("%v was not measured", v)
	}
	v.setTimes("p50", "p99", []time.Duration{1500})
	v.setCPU(cpu{server: 2, client: 1}, cpu{server: 8, client: 2}, 2)
	if v["p50"] != 1.5 || v["p99"] != 1.5 || v["server_cpu_us"] != 3 || v["client_cpu_us"] != 0.5 {
		t.Errorf("%v", v)
	}
}

func TestNumbersInText(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{duration(87.04), "87.0 µs"},
		{duration(12_345), "12.3 ms"},
		{duration(2_500_000), "2.50 s"},
		{lost.of(values{}), "-"},
		{lost.of(values{"lost": 1234}), "1,234"},
		{console.Count(1, "round"), "1 round"},
		{console.Count(3, "round"), "3 rounds"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, d := range []time.Duration{minTime / 4, 2 * time.Second, 10 * time.Second, time.Minute, maxTime} {
		for _, turns := range []int{2, 8} {
			rounds, turn := split(d, turns, 400*time.Millisecond, 5)
			if sum := time.Duration(rounds*turns) * turn; sum > d || sum < d-time.Millisecond || rounds%2 == 0 || rounds > 5 || turn <= 0 {
				t.Errorf("%s in turns of %d: %d rounds of %s", d, turns, rounds, turn)
			}
		}
	}
	if rounds, _ := split(27*time.Second, 8, 400*time.Millisecond, 5); rounds != 5 {
		t.Errorf("in a minute free has %d rounds", rounds)
	}
}

func TestParseCPU(t *testing.T) {
	got, err := parseCPU("# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_sys_children:40.0\r\n")
	if want := 3750000.0; err != nil || got != want {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, text := range []string{"", "# CPU\r\nused_cpu_sys:1.5\r\n", "used_cpu_sys:x\r\nused_cpu_user:1\r\n"} {
		if got, err := parseCPU(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
