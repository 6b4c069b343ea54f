package engine

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A waiter whose context ends just as it is served takes its result with it: waiters are used again, and the next one must not
// be given what was another's.
func TestAWaiterThatIsServedAsItLeavesTakesItsResult(t *testing.T) {
	c := open(t, &fake{holders: map[string]string{}}, nil)
	defer c.Close(t.Context())
	l := c.Mutex("a")
	must(t, l.Ready(t.Context()))
	wq := l.queue()
	defer wq.unref()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late := errors.New("late")
	for range 200 { // a select chooses at random whether the result or the end of the context comes first
		w := c.newWaiter(ended, l)
		if len(w.results) > 0 {
			t.Fatal("a waiter begins with another's result")
		}
		wq.mu.Lock()
		wq.insert(w, false)
		wq.mu.Unlock()
		wq.fail(late)
		if lease, err := wq.await(ended, w, time.Time{}); lease != nil || !errors.Is(err, late) && !errors.Is(err, context.Canceled) {
			t.Fatalf("await: %v, %v", lease, err)
		}
	}
}

// Bug: A process that is handed a lock for which more of its goroutines wait gives it back at once, because a very short hold ended before
// fences were reserved for them.
func TestABriefHoldWaitsForTheFencesOfOthers(t *testing.T) {
	server := &fake{holders: map[string]string{}}
	c, err := New(server, nil)
	must(t, err)
	l := c.Mutex("a")
	must(t, l.Ready(t.Context()))
	wq := l.queue()
	first, second := c.newWaiter(t.Context(), l), c.newWaiter(t.Context(), l)
	wq.mu.Lock()
	wq.insert(first, false)
	wq.insert(second, false)
	wq.mu.Unlock()
	h := granted(l, 1)
	h.claim = true
	release := c.schedule.Hold() // it is as slow as it can be
	server.mu.Lock()             // and so is the server
	server.holders[l.Keys.Lock] = h.attempt.Token()
	wq.deliver(h)
	lease := (<-first.results).lease
	next, _, err := lease.giveUp(true, hasLeft)
	if err != nil || next.landed == nil {
		t.Errorf("a release just after a hand-over waits for %v, error %v; want it to wait for a renewal", next, err)
	}
	server.mu.Unlock()
	release()
	wantErr(t, "the release", lease.releaseAfter(t.Context(), next, hasLeft), nil)
	wq.mu.Lock()
	wq.withdraw(second)
	wq.mu.Unlock()
	wq.unref()
	wantErr(t, "Close", c.Close(t.Context()), nil)
}

// A release that fails can be called again, and then returns the later outcome.
func TestAReleaseThatFailsIsCalledAgain(t *testing.T) {
	l, c := fakeMutex(t)
	lease := l.keep(granted(l, 1))
	for _, outcome := range []error{errLate, nil} {
		_, _, err := lease.giveUp(true, hasLeft)
		wantErr(t, "the release that begins", err, nil)
		equal(t, "the release's error", lease.gaveBack(released, false, outcome), outcome)
	}
	wantErr(t, "Close", c.Close(t.Context()), nil)
}
