package topology

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A job's lock and record are on different nodes of a Cluster for longer than RetryTimeout while it is
// completed. It counts once its slot has moved, and is not done again.
func TestAJobIsDoneWhileItsSlotIsOnTheMove(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		const retry = time.Second
		open := clusterOf(c)
		job := func() *once.Job {
			cfg := &holdfast.Config{CommandTimeout: 6 * time.Second, RetryTimeout: retry}
			return once.New(open.client(t, cfg), "job", once.Slot("x{y}:z", time.Hour), holdfast.TTL(time.Minute))
		}
		working, moved := make(chan struct{}), make(chan struct{})
		type result struct {
			run once.Completion
			err error
		}
		done := make(chan result, 1)
		here := job()
		go func() {
			run, err := here.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
				close(working)
				<-moved
				return "fine", nil
			})
			done <- result{run, err}
		}()
		select {
		case <-working:
		case r := <-done:
			t.Fatalf("Do: %+v, %v", r.run, r.err)
		}
		slot := slotOf("job")
		m := c.StartMove(slot, otherMaster(c, slot))
		m.Key("holdfast:{job}")
		before := rejected(c)
		close(moved)
		select {
		case r := <-done:
			t.Errorf("Do, after %d refused scripts: %+v, %v", rejected(c)-before, r.run, r.err)
			done <- r
		case <-time.After(3 * retry):
		}
		m.Finish()
		r := <-done
		if r.err != nil || !r.run.Here {
			t.Errorf("Do: %+v, %v", r.run, r.err)
		}
		if n := rejected(c) - before; n == 0 {
			t.Error("no script was refused: nothing was tested")
		}
		expect.Of(backend.IsDone(t.Context(), job())).Is(t, "the job is done", true)
	})
}
