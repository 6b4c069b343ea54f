package holdfast_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// waitFor waits for a latch in a goroutine, and returns when that waiter is subscribed and has looked at it, if nobody had used it before.
func (s *space) waitFor(ctx context.Context, l *holdfast.Latch) <-chan error {
	s.t.Helper()
	waiting := s.watchers(l.Name())
	over := make(chan error, 1)
	go func() { over <- l.Wait(ctx) }()
	eventually(s.t, "the waiter is subscribed", func() bool { return s.watchers(l.Name()) == waiting+1 })
	eventually(s.t, "the waiter has looked", func() bool { return s.do("EXISTS", s.key(l.Name())) == "1" })
	return over
}

// watchers returns how many processes are subscribed to changes of a lock.
func (s *space) watchers(name string) int {
	s.t.Helper()
	_, reply, _ := strings.Cut(s.do("PUBSUB", "NUMSUB", s.prefix+"c:w:"+s.key(name)), "\n")
	n, err := strconv.Atoi(reply)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func wantCount(t *testing.T, l *holdfast.Latch, n int) {
	t.Helper()
	if got, err := l.Count(t.Context()); got != n || err != nil {
		t.Errorf("the count is %d, %v; want %d", got, err, n)
	}
}

func TestALatchOpensWhenAllHaveCountedDown(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	latch := func() *holdfast.Latch { return s.client().Latch("l", 3) }
	l := latch()
	wantCount(t, l, 3)
	one, two := s.waitFor(t.Context(), latch()), s.waitFor(t.Context(), latch())
	for left := 2; left >= 0; left-- {
		wantWaiting(t, "a waiter", one)
		wantWaiting(t, "a waiter", two)
		if err := latch().CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantCount(t, l, left)
	}
	for _, over := range []<-chan error{one, two} {
		if err := receive(t, over); err != nil {
			t.Errorf("Wait: %v", err)
		}
	}
	if err := l.Wait(t.Context()); err != nil {
		t.Errorf("Wait for a latch that is open: %v", err)
	}
	if err := l.CountDown(t.Context()); err != nil {
		t.Errorf("CountDown at 0: %v", err)
	}
	wantCount(t, l, 0)
}

func TestRegisteredPartiesCountDownThemselves(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	l := s.client().Latch("l", 2)
	var parties []*holdfast.LatchParty
	for range 2 {
		party, err := s.client().Latch("l", 2).Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		parties = append(parties, party)
	}
	_, err := l.Register(t.Context())
	want(t, "a third party of two", err, holdfast.ErrHeld)
	want(t, "CountDown for a party that has registered", l.CountDown(t.Context()), holdfast.ErrHeld)
	over := s.waitFor(t.Context(), l)
	for i, party := range parties {
		wantWaiting(t, "a waiter", over)
		for range 2 { // it counts once
			if err := party.CountDown(t.Context()); err != nil {
				t.Errorf("CountDown: %v", err)
			}
		}
		want(t, "the party's lease", party.Lease().Err(), holdfast.ErrReleased)
		if err := party.Leave(t.Context()); err != nil {
			t.Errorf("Leave after CountDown: %v", err)
		}
		wantCount(t, l, 1-i)
	}
	if err := receive(t, over); err != nil {
		t.Errorf("Wait: %v", err)
	}
}

// Nobody waits for a party that has left or died, and every waiter is told of it.
func TestPartiesThatDoNotCountDown(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(t *testing.T, l *holdfast.Latch){
		"leaves": func(t *testing.T, l *holdfast.Latch) {
			party, err := l.Register(t.Context())
			if err == nil {
				err = party.Leave(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
			want(t, "CountDown after Leave", party.CountDown(t.Context()), holdfast.ErrReleased)
		},
		"dies": func(t *testing.T, l *holdfast.Latch) {
			party, err := l.Register(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			receive(t, party.Lease().Done())
			want(t, "CountDown of a party that died", party.CountDown(t.Context()), holdfast.ErrLost)
		},
	} {
		s := newSpace(t)
		over := s.waitFor(t.Context(), s.client().Latch("l", 2))
		end(t, s.client().Latch("l", 2, holdfast.TTL(mortal), holdfast.NoRenew()))
		wantWaiting(t, "a waiter", over)
		if err := s.client().Latch("l", 2).CountDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		var incomplete *holdfast.LatchIncompleteError
		if err := receive(t, over); !errors.Is(err, holdfast.ErrLatchIncomplete) || !errors.As(err, &incomplete) || incomplete.Missing != 1 || incomplete.Parties != 2 || incomplete.Name != "l" {
			t.Errorf("Wait when a party %s: %v", what, err)
		}
	}
}

func TestResetAndDeleteOfALatch(t *testing.T) {
	t.Parallel()
	for what, begin := range map[string]func(*holdfast.Latch, context.Context) error{
		"Reset": (*holdfast.Latch).Reset, "Delete": (*holdfast.Latch).Delete,
	} {
		s := newSpace(t)
		l := s.client().Latch("l", 2)
		over := s.waitFor(t.Context(), s.client().Latch("l", 2)) // first, so that the latch exists once it has looked
		party, err := s.client().Latch("l", 2).Register(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := begin(l, t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, "Wait before "+what, receive(t, over), holdfast.ErrLatchReset)
		want(t, "CountDown of a party from before "+what, party.CountDown(t.Context()), holdfast.ErrLost)
		_ = party.Leave(t.Context())
		wantCount(t, l, 2)
		for range 2 {
			if err := l.CountDown(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Wait(t.Context()); err != nil {
			t.Errorf("Wait after %s: %v", what, err)
		}
	}
}

func TestWaitForALatchGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	ctx, cancel := context.WithCancel(t.Context())
	over := s.waitFor(ctx, s.client().Latch("l", 2))
	cancel()
	if err := receive(t, over); err != context.Canceled {
		t.Errorf("Wait: %v", err)
	}
}

func TestLatchRefuses(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	c := s.client()
	for what, l := range map[string]*holdfast.Latch{
		"no name": c.Latch("", 2), "no parties": c.Latch("l", 0), "too many": c.Latch("l", 1_000_001), "a TTL of 0": c.Latch("l", 2, holdfast.TTL(0)),
	} {
		_, err1 := l.Register(t.Context())
		_, err2 := l.Count(t.Context())
		_, err3 := l.Status(t.Context())
		for _, err := range []error{err1, err2, err3, l.Wait(t.Context()), l.CountDown(t.Context()), l.Reset(t.Context()), l.Delete(t.Context())} {
			want(t, what, err, holdfast.ErrInvalid)
		}
	}
	if err := c.Latch("l", 2).CountDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, "another number of parties", c.Latch("l", 3).CountDown(t.Context()), holdfast.ErrMismatch)
	want(t, "another kind of lock", tryAcquire(t, c.Mutex("l")), holdfast.ErrMismatch)
}

func TestStatusOfALatch(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	l := s.client().Latch("l", 3, holdfast.Owner("me"))
	party, err := l.Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := status(t, l)
	h, held := got.Holder()
	if l.Name() != "l" || got.Kind != holdfast.KindLatch || got.Limit != 3 || got.Count != 3 || !held || h.Mode != holdfast.ModeParty || h.Owner != "me" {
		t.Errorf("Status: %+v", got)
	}
	if err := party.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	if got := status(t, l); got.Count != 2 || got.Held() {
		t.Errorf("Status after the party left: %+v", got)
	}
}
