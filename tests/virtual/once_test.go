package virtual

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// A completed run is recorded even if that takes longer than RetryTimeout. The client tries for as long as the
// run has its lock; after that it only repeats a request that it began under the lock.
func TestACompletedJobIsWrittenDownWhileItsLeaseLasts(t *testing.T) {
	const retrying = 3 * time.Second // the default of Config.RetryTimeout
	for _, c := range []struct {
		name  string
		moves time.Duration
		opts  []holdfast.OnceOption
		done  bool
	}{
		{"until the slot has moved", time.Minute, nil, true},
		{"until the lease is over", time.Hour, []holdfast.OnceOption{holdfast.MaxHold(time.Minute)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
				began := time.Now()
				locks := client(t, srv, meddle(func(r request) (string, error) {
					if r.Script.Name == "once_complete" && time.Since(began) < c.moves { // while lock and record are on different nodes
						return "", driver.ReplyError("TRYAGAIN Multiple keys request during rehashing of slot")
					}
					return r.send()
				}))
				job := locks.Once("job", holdfast.Every(24*time.Hour), c.opts...)
				runs := 0
				run, err := job.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
					runs++
					return "fine", nil
				})
				took := time.Since(began)
				if c.done && (err != nil || !run.Here || took < c.moves || took > c.moves+time.Second) {
					t.Errorf("Do returned %+v, %v after %s", run, err, took)
				}
				if !c.done && (!errors.Is(err, holdfast.ErrUnavailable) || !errors.Is(err, holdfast.ErrLost) || took < 50*time.Second || took > time.Minute+retrying) {
					t.Errorf("Do returned %+v, %v after %s; want ErrUnavailable and ErrLost when the lease is over", run, err, took)
				}
				if done, err := backend.IsDone(t.Context(), job); done != c.done || err != nil {
					t.Errorf("the job is done: %v, %v; want %v", done, err, c.done)
				}
				if runs != 1 {
					t.Errorf("it ran %d times", runs)
				}
			})
		})
	}
}

// If Close keeps a job from beginning, the error says so, and names no context other than the caller's.
func TestAJobThatCannotBeginBecauseOfClose(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c := client(t, srv, meddle(func(r request) (string, error) {
			if r.Script.Name == "once_begin" {
				return r.hang()
			}
			return r.send()
		}))
		ended := make(chan error, 1)
		go func() {
			_, err := c.Once("job", holdfast.Every(time.Hour)).Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
				t.Error("it runs")
				return "", nil
			})
			ended <- err
		}()
		time.Sleep(time.Millisecond)
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-ended; !errors.Is(err, holdfast.ErrClosed) || errors.Is(err, context.Canceled) {
			t.Errorf("Do returned %v", err)
		}
	})
}
