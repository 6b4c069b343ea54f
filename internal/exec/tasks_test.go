package exec

import (
	"sync/atomic"
	"testing"
)

// Wait does not miss the end of the last task, even if that began while it waited, or ends just when it begins to wait.
func TestWaitReturnsAfterTheLastTask(t *testing.T) {
	var tasks Tasks
	var ended atomic.Int64
	for n := range int64(10_000) {
		tasks.Begin()
		go func() {
			tasks.Run(func() { ended.Add(1) })
			ended.Add(1)
			tasks.End()
		}()
		tasks.Wait()
		if got := ended.Load(); got != 2*(n+1) || !tasks.None() {
			t.Fatalf("%d of %d tasks have ended", got, 2*(n+1))
		}
	}
}
