package backend

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Counted is Client. It also returns a function that tells how many calls the client has sent for locks. What a client
// asks by itself, at a time of its own, does not count: about the server's settings, and about notices for operators.
func (b *Backend) Counted(tb testing.TB, cfg *holdfast.Config) (*holdfast.Client, func() int64) {
	tb.Helper()
	d := &counted{Driver: Connect(tb, b.options())}
	c, err := holdfast.New(d, patient(cfg))
	if err != nil {
		tb.Fatal(err)
	}
	CloseWith(tb, c)
	return c, d.calls.Load
}

// counted is a driver that counts calls for locks.
type counted struct {
	driver.Driver
	calls atomic.Int64
}

func (d *counted) Unwrap() driver.Driver { return d.Driver }

func (d *counted) Run(ctx context.Context, c driver.Call) (string, error) {
	if name := c.Script.Name; name != script.Survey().Name && name != script.Notes().Name {
		d.calls.Add(1)
	}
	return d.Driver.Run(ctx, c)
}
