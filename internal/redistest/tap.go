package redistest

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/adapter"
)

// Tap is a driver whose calls a test can watch, delay, fail and answer.
type Tap struct {
	*adapter.Driver
	// On is called in place of Run, which is next.
	On func(ctx context.Context, call driver.Call, next Run) (string, error)
}

// Run runs a script, as driver.Driver does.
type Run func(ctx context.Context, call driver.Call) (string, error)

// Run calls On.
func (t Tap) Run(ctx context.Context, call driver.Call) (string, error) {
	return t.On(ctx, call, t.Driver.Run)
}
