package main

import (
	"context"
	"testing"
	"time"
)

// sham is a locker whose locks let in as many at once as its channel holds.
type sham chan struct{}

func (s sham) lock(string) lock { return s }

func (s sham) close() {}

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

// compete has 4 goroutines want a lock that lets in so many, again until enough was seen.
func compete(t *testing.T, room int, enough func(outcome, *board) bool) (o outcome, b *board) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		var err error
		if b, _, err = newBoard(t.TempDir(), 1); err != nil {
			t.Fatal(err)
		}
		j := job{Kind: "contended", Names: "lock", Goroutines: 4, For: 200 * time.Millisecond, Hold: time.Millisecond, Think: 2 * time.Millisecond}
		o, err = contended(t.Context(), make(sham, room), j, b, func() error { return nil })
		if err != nil || o.Errors > 0 || len(o.Grants) != 4 {
			t.Fatalf("%v, %+v", err, o)
		}
		if enough(o, b) {
			return o, b
		}
	}
	t.Fatal("nothing of the kind was seen in 30 s")
	return
}

func TestALockThatLetsTwoInIsFoundOut(t *testing.T) {
	compete(t, 2, func(_ outcome, b *board) bool { return b.overlaps.Load() > 0 })
}

func TestALockThatExcludesIsNotBlamed(t *testing.T) {
	began := time.Now()
	o, b := compete(t, 1, func(o outcome, _ *board) bool { return o.Cycles > 10 && len(o.Handovers) > 10 })
	if n := b.overlaps.Load(); n > 0 {
		t.Errorf("%d overlaps were seen", n)
	}
	if sum := o.Grants[0] + o.Grants[1] + o.Grants[2] + o.Grants[3]; sum != o.Cycles {
		t.Errorf("%d cycles, but grants %v", o.Cycles, o.Grants)
	}
	for _, d := range o.Handovers {
		if d < 0 || d > time.Since(began) {
			t.Errorf("a hand-over took %v", d)
		}
	}
}
