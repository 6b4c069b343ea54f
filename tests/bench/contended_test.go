package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// sham is a lock that has as many holders at once as its channel has room for.
type sham chan struct{}

func (s sham) acquire(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s sham) release() error {
	<-s
	return nil
}

// compete has 4 goroutines compete for a lock with room for so many holders, until enough was seen.
func compete(t *testing.T, room, readers int, enough func(outcome, *board) bool) (o outcome, b *board) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		var err error
		shared := make(sham, room)
		one := func(string) lock { return shared }
		if b, _, err = newBoard(t.TempDir(), 1); err != nil {
			t.Fatal(err)
		}
		j := job{cell: cell{Kind: "contended", Goroutines: 4, Readers: readers, For: 200 * time.Millisecond, Hold: time.Millisecond, Think: 2 * time.Millisecond}, Names: "lock"}
		o, err = contended(t.Context(), &locker{lock: one, reader: one, writer: one}, j, b, func() error { return nil })
		if err != nil || o.Errors > 0 || len(o.Grants) != 4 {
			t.Fatalf("%v, %+v", err, o)
		}
		if enough(o, b) {
			return o, b
		}
	}
	t.Fatal("it was not seen in 30 s")
	return
}

func TestWhatIsSeenOfHolders(t *testing.T) {
	overlaps := func(_ outcome, b *board) bool { return b.overlaps.Load() > 0 }
	busy := func(o outcome, _ *board) bool { return o.Cycles > 10 }
	for what, c := range map[string]struct {
		room, readers int
		enough        func(outcome, *board) bool
		overlap       bool
	}{
		"a lock with two holders":    {2, 0, overlaps, true},
		"a writer among readers":     {2, 3, overlaps, true},
		"readers together":           {4, 4, busy, false},
		"readers, and writers apart": {1, 2, func(o outcome, _ *board) bool { return o.Written > 10 && o.Written < o.Cycles }, false},
		"a lock that excludes":       {1, 0, func(o outcome, _ *board) bool { return o.Cycles > 10 && len(o.Handovers) > 10 }, false},
	} {
		t.Run(what, func(t *testing.T) {
			began := time.Now()
			o, b := compete(t, c.room, c.readers, c.enough)
			if n := b.overlaps.Load(); (n > 0) != c.overlap {
				t.Errorf("%d overlaps were seen", n)
			}
			if read := o.Cycles - o.Written; len(o.Writers) < o.Written || len(o.Waits) < read {
				t.Errorf("%d cycles of writers with %d waits, %d of readers with %d", o.Written, len(o.Writers), read, len(o.Waits))
			}
			if writes := c.readers > 0 && c.readers < 4; !writes && (o.Written > 0 || len(o.Writers) > 0) {
				t.Errorf("nobody writes, but writers had %d cycles and %d waits", o.Written, len(o.Writers))
			}
			if sum := o.Grants[0] + o.Grants[1] + o.Grants[2] + o.Grants[3]; sum != o.Cycles {
				t.Errorf("%d cycles, but grants %v", o.Cycles, o.Grants)
			}
			for _, d := range o.Handovers {
				if !c.overlap || d > 0 { // the next holder of a lock that does not exclude may enter before this one has left
					expect.Between(t, "a hand-over's time", d, 0, time.Since(began))
				}
			}
		})
	}
}

// The lock is handed over only when the last of several readers leaves.
func TestAHandOverIsFromTheLastHolderToTheFirst(t *testing.T) {
	b, _, err := newBoard(t.TempDir(), 1)
	expect.OK(t, err)
	b.waiting.Store(1)
	for i, step := range []struct {
		do   func() bool
		want bool
	}{
		{func() bool { _, ok := b.enter(true); return ok }, false},
		{func() bool { _, ok := b.enter(true); return ok }, false},
		{func() bool { b.leave(true); return b.released.Load() != 0 }, false},
		{func() bool { b.leave(true); return b.released.Load() != 0 }, true},
		{func() bool { _, ok := b.enter(false); return ok }, true},
	} {
		expect.Equal(t, fmt.Sprint("step ", i), step.do(), step.want)
	}
	expect.AtMost(t, "overlaps were seen", b.overlaps.Load(), 0)
}
