package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// A lease that Extend has made as long as MaxHold allows wants no more renewals. One that was about to be sent then is not why
// it ends.
func TestALeaseThatReachedItsBoundEndsByIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(clock.SetBoot(func() time.Duration { return 0 }))
		c, err := New(&fake{holders: map[string]string{}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		lease, err := c.Mutex("a", kind.MaxHold(20*time.Second)).Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Extend(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		h := lease.(*holdLease).g
		time.Sleep(10 * time.Second) // longer than a renewal takes to become due
		synctest.Wait()
		h.mu.Lock()
		if h.renewAfter != 0 {
			t.Error("another renewal is due")
		}
		h.renewalQueued = true // as long as its goroutine has not run, on a slow machine
		h.mu.Unlock()
		<-lease.Context().Done()
		var lost *lock.LostError
		if !errors.As(lease.Err(), &lost) || lost.Reason != lock.LossBound {
			t.Errorf("it ended with %v", lease.Err())
		}
	})
}

// A hold's other times are kept as distances from the request that its deadline counts from. They stay when that moves.
func TestALaterDeadlineMovesNoOtherTime(t *testing.T) {
	t.Run("with a clock that runs through suspension", otherTimesStay)
	t.Run("without", func(t *testing.T) {
		t.Cleanup(clock.SetBoot(func() time.Duration { return 0 }))
		otherTimesStay(t)
	})
}

func otherTimesStay(t *testing.T) {
	c, err := New(&fake{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	asked := clock.Now()
	at := func(d time.Duration) clock.Instant { return asked.Add(d) }
	h := newHold(c.Mutex("a").newAttempt(), asked, -time.Second, 10*time.Second, 1, 1)
	for i, c := range []struct{ sent, renew, want time.Duration }{
		{sent: 3 * time.Second, renew: 5 * time.Second, want: 5 * time.Second},
		{sent: 2 * time.Second, renew: 5 * time.Second, want: 5 * time.Second}, // answered late, and for longer
		{sent: 8 * time.Second, renew: 7 * time.Second, want: 8*time.Second + 1},
	} {
		h.renewAt(at(c.renew))
		h.prolong(at(c.sent), at(9*time.Second), time.Duration(i+1)*time.Hour)
		if h.anchor != at(c.sent) {
			t.Fatalf("the deadline does not count from the request sent at %s", c.sent)
		}
		if got := h.anchor.Add(h.renewAfter); got != at(c.want) {
			t.Errorf("after a request sent at %s the renewal is due at %s, want %s", c.sent, got.Sub(asked), c.want)
		}
		if h.since() != at(time.Second) {
			t.Errorf("after a request sent at %s the hold is from %s, want 1s", c.sent, h.since().Sub(asked))
		}
	}
	h.renewAfter = 0
	h.prolong(at(9*time.Second), at(9*time.Second), 4*time.Hour)
	if h.renewAfter != 0 {
		t.Error("a renewal is due, although there is to be none")
	}
}
