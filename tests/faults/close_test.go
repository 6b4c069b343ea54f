package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/backend"
	"github.com/holdfast-go/holdfast/tests/proxy"
)

// A renewal is under way that nothing answers.
func TestCloseEndsWithItsContextWhileACommandHangs(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	c := through(t, p, holdfast.Config{})
	renewal := p.Hold(running(script.Renew, "a"), proxy.Hang)
	backend.Acquire(t, c.Mutex("a", holdfast.TTL(600*time.Millisecond)))
	renewal.Wait(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- c.Close(ctx) }()
	select {
	case err := <-closed:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
	case <-time.After(4 * time.Second): // CommandTimeout, twice
		t.Error("Close does not return")
		p.Cut()
	}
}
