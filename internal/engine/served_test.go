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
		wq.pushBack(w)
		wq.mu.Unlock()
		wq.fail(late)
		if lease, err := wq.await(ended, w, time.Time{}); lease != nil || !errors.Is(err, late) && !errors.Is(err, context.Canceled) {
			t.Fatalf("await: %v, %v", lease, err)
		}
	}
}
