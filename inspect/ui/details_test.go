package ui

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// silentSource is the source of a client whose timeouts are longer than pages wait.
type silentSource struct{ source }

func (silentSource) Get(ctx context.Context, _ string) (holdfast.Status, error) {
	<-ctx.Done()
	return holdfast.Status{}, ctx.Err()
}

func TestALookAtALockIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := details{in: silentSource{}, of: map[string]*detail{}}
		defer d.enter("a")()
		began := time.Now()
		if _, _, err := d.get(t.Context(), "a"); err != context.DeadlineExceeded || time.Since(began) != lookTime {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}
