package virtual

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// hesitant is the driver of a server that takes its time before it says whether a run may begin.
type hesitant struct{ holdfast.Driver }

func (d hesitant) Eval(ctx context.Context, s holdfast.Script, keys, args []string, urgent bool) (string, error) {
	if s.Name == "once_begin" {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return d.Driver.Eval(ctx, s, keys, args, urgent)
}

// A job that a client's Close keeps from beginning tells so, and not of a context that is none of its
// caller's.
func TestAJobThatCannotBeginBecauseOfClose(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		c := client(t, srv, func(d holdfast.Driver) holdfast.Driver { return hesitant{d} })
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
