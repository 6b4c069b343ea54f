package exec

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// watched returns a server, and counters of how often it was lost and found.
func watched(f *fake) (s *Server, lost, found *atomic.Int32) {
	lost, found = new(atomic.Int32), new(atomic.Int32)
	s = New(f, Config{
		CommandTimeout: time.Second, RetryTimeout: 10 * time.Second, Tasks: &Tasks{}, Closing: make(chan struct{}),
		Lost: func(error) { lost.Add(1) }, Found: func(time.Duration) { found.Add(1) },
	})
	return s, lost, found
}

// send sends a request that takes this long and ends with err.
func send(s *Server, took time.Duration, err error) {
	_, _ = Try(context.Background(), s, time.Second, func(ctx context.Context) (int, error) {
		return shielded(ctx, s, func(context.Context) (int, error) {
			time.Sleep(took)
			return 0, err
		})
	})
}

func TestAServerIsNotLostWhileItAnswersOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, lost, found := watched(&fake{})
		for range 10 {
			go send(s, 900*time.Millisecond, errBroken)
			time.Sleep(500 * time.Millisecond)
			send(s, 0, nil)
		}
		time.Sleep(time.Minute)
		send(s, 0, errBroken) // once, as when an idle connection was closed
		send(s, 0, nil)
		send(s, 0, errBroken)
		synctest.Wait()
		if lost.Load() != 0 || found.Load() != 0 {
			t.Errorf("it was lost %d times", lost.Load())
		}
	})
}

func TestNothingIsSentAgainOnceTheClientIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := watched(&fake{})
		closed := fmt.Errorf("%w: %w", driver.ErrNotSent, driver.ErrClientClosed)
		tries := 0
		_, unanswered, err := Persist(t.Context(), s, "acquire", "a", time.Time{}, func(context.Context) (int, error) {
			tries++
			return 0, closed
		})
		if tries != 1 || unanswered || KindOf(err) != ErrClientClosed || !RefusesAll(err) {
			t.Errorf("%d tries, unanswered: %t, %v", tries, unanswered, err)
		}
	})
}
