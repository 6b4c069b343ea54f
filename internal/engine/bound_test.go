package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
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
		lease, err := c.Mutex("a", MaxHold(20*time.Second)).Acquire(t.Context())
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
		if !h.renewAt.IsZero() {
			t.Error("another renewal is due")
		}
		h.renewalQueued = true // as long as its goroutine has not run, on a slow machine
		h.mu.Unlock()
		<-lease.Context().Done()
		var lost *LostError
		if !errors.As(lease.Err(), &lost) || lost.Reason != LossBound {
			t.Errorf("it ended with %v", lease.Err())
		}
	})
}
