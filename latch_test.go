package holdfast_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/latch"
)

// waitFor waits for a latch in a goroutine, and returns when that waiter is subscribed and has looked at it, if nobody had used it before.
func (s *space) waitFor(ctx context.Context, l *latch.Latch) <-chan error {
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
	must(s.t, err)
	return n
}

func wantCount(t *testing.T, l *latch.Latch, n int) {
	t.Helper()
	if got, err := l.Count(t.Context()); got != n || err != nil {
		t.Errorf("the count is %d, %v; want %d", got, err, n)
	}
}

func TestALatchOpensWhenAllHaveCountedDown(t *testing.T) {
	s := inParallel(t)
	theLatch := func() *latch.Latch { return latch.New(s.client(), "l", 3) }
	l := theLatch()
	wantCount(t, l, 3)
	one, two := s.waitFor(t.Context(), theLatch()), s.waitFor(t.Context(), theLatch())
	for left := 2; left >= 0; left-- {
		wantWaiting(t, "a waiter", one)
		wantWaiting(t, "a waiter", two)
		must(t, theLatch().CountDown(t.Context()))
		wantCount(t, l, left)
	}
	for _, over := range []<-chan error{one, two} {
		want(t, "Wait", receive(t, over), nil)
	}
	want(t, "Wait for a latch that is open", l.Wait(t.Context()), nil)
	want(t, "CountDown at 0", l.CountDown(t.Context()), nil)
	wantCount(t, l, 0)
}

func TestRegisteredPartiesCountDownThemselves(t *testing.T) {
	s := inParallel(t)
	l := latch.New(s.client(), "l", 2)
	var parties []*latch.Party
	for range 2 {
		party, err := latch.New(s.client(), "l", 2).Register(t.Context())
		must(t, err)
		parties = append(parties, party)
	}
	_, err := l.Register(t.Context())
	want(t, "a third party of two", err, holdfast.ErrHeld)
	want(t, "CountDown for a party that has registered", l.CountDown(t.Context()), holdfast.ErrHeld)
	over := s.waitFor(t.Context(), l)
	for i, party := range parties {
		wantWaiting(t, "a waiter", over)
		for range 2 { // it counts once
			want(t, "CountDown", party.CountDown(t.Context()), nil)
		}
		want(t, "the party's lease", party.Lease().Err(), holdfast.ErrReleased)
		want(t, "Leave after CountDown", party.Leave(t.Context()), nil)
		wantCount(t, l, 1-i)
	}
	want(t, "Wait", receive(t, over), nil)
	_, err = l.Register(t.Context())
	want(t, "a party of a latch that is open", err, holdfast.ErrHeld)
}

// Whoever waits for a latch that is begun anew is told, and so is a party that has registered. If the server has lost the latch,
// they are told once somebody makes them look.
func TestALatchThatIsBegunAnew(t *testing.T) {
	t.Parallel()
	for what, begin := range map[string]func(s *space, l *latch.Latch) error{
		"Reset":  func(s *space, l *latch.Latch) error { return l.Reset(s.t.Context()) },
		"Delete": func(s *space, l *latch.Latch) error { return l.Delete(s.t.Context()) },
		"loss": func(s *space, l *latch.Latch) error {
			s.give("l")
			return l.Reset(s.t.Context())
		},
	} {
		s := newSpace(t)
		over := s.waitFor(t.Context(), latch.New(s.client(), "l", 2)) // first, so that the latch exists once it has looked
		party, err := latch.New(s.client(), "l", 2).Register(t.Context())
		must(t, err)
		l := latch.New(s.client(), "l", 3)
		_, err = l.Register(t.Context())
		for _, err := range []error{err, l.Wait(t.Context()), l.CountDown(t.Context())} {
			want(t, "another number of parties, before "+what, err, holdfast.ErrMismatch)
		}
		must(t, begin(s, l))
		want(t, "Wait before "+what, receive(t, over), latch.ErrReset)
		for range 2 {
			want(t, "CountDown of a party from before "+what, party.CountDown(t.Context()), holdfast.ErrLost)
		}
		if ttl, err := time.ParseDuration(s.do("PTTL", s.key("l")) + "ms"); what == "Delete" && (err != nil || ttl > time.Minute) {
			t.Errorf("after Delete, the latch stays for %s, %v", ttl, err)
		}
		_ = party.Leave(t.Context())
		for left := 3; left > 0; left-- {
			wantCount(t, l, left)
			must(t, l.CountDown(t.Context()))
		}
		want(t, "Wait after "+what, l.Wait(t.Context()), nil)
	}
}

func TestWaitersForALatchGiveUp(t *testing.T) {
	s := inParallel(t)
	ctx, cancel := context.WithCancel(t.Context())
	over := s.waitFor(ctx, latch.New(s.client(), "l", 2))
	cancel()
	equal(t, "Wait whose context ended", receive(t, over), context.Canceled)
	eventually(t, "nobody is subscribed", func() bool { return s.watchers("l") == 0 })
	c := s.client()
	over = s.waitFor(t.Context(), latch.New(c, "l", 2))
	want(t, "Close", c.Close(t.Context()), nil)
	want(t, "Wait of a client that closes", receive(t, over), holdfast.ErrClosed)
	eventually(t, "nobody is subscribed", func() bool { return s.watchers("l") == 0 })
}

// A party that may be counted on tries again, as one that waits does, and does not give up like TryAcquire when nothing listens at the
// server's address.
func TestPartiesOutlastAServerThatRefusesConnections(t *testing.T) {
	s := inParallel(t)
	var tries atomic.Int32
	c := s.clientWith(redistest.Tap{Driver: s.server.Driver(), On: func(ctx context.Context, call driver.Call, next redistest.Run) (string, error) {
		if call.Script.Name == "share_acquire" && tries.Add(1)%2 == 1 {
			return "", fmt.Errorf("%w: %w", driver.ErrNotSent, syscall.ECONNREFUSED)
		}
		return next(ctx, call)
	}})
	party, err := latch.New(c, "l", 2).Register(t.Context())
	must(t, err)
	must(t, party.Leave(t.Context()))
	member, err := barrier.New(c, "b", 1).TryJoin(t.Context())
	must(t, err)
	must(t, member.Leave(t.Context()))
}
