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
	bubble(t, func(t *testing.T) {
		c := open(t, &fake{holders: map[string]string{}}, nil)
		defer c.Close(t.Context())
		lease := take(t, c.Mutex("a", kind.MaxHold(20*time.Second)))
		must(t, lease.Extend(t.Context(), time.Hour))
		h := lease.(*holdLease).g
		time.Sleep(10 * time.Second) // longer than a renewal takes to become due
		synctest.Wait()
		h.mu.Lock()
		equal(t, "another renewal", h.renewAfter, 0)
		h.renewalQueued = true // as long as its goroutine has not run, on a slow machine
		h.mu.Unlock()
		<-lease.Done()
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
	c := open(t, &fake{}, nil)
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
		equal(t, "when the renewal is due, after a request sent at "+c.sent.String(), h.anchor.Add(h.renewAfter), at(c.want))
		equal(t, "since when there is the hold, after a request sent at "+c.sent.String(), h.since(), at(time.Second))
	}
	h.renewAfter = 0
	h.prolong(at(9*time.Second), at(9*time.Second), 4*time.Hour)
	equal(t, "a renewal, although there is to be none", h.renewAfter, 0)
}
