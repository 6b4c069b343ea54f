package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

// Fault: A renewal that is never answered is under way when the client closes. Close ends with its context.
func TestCloseEndsWithItsContextWhileACommandHangs(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	eachWay(t, p, holdfast.Config{CommandTimeout: time.Minute}, func(t *testing.T, c *holdfast.Client, w way) { closeWhileARenewalHangs(t, p, c, w) })
}

func closeWhileARenewalHangs(t *testing.T, p *proxy.Proxy, c *holdfast.Client, w way) {
	name := w.release.Name // nobody gives up the first one
	renewal := p.Hold(running(w.renew, name), proxy.Hang)
	backend.Acquire(t, c.Mutex(name, holdfast.TTL(6*time.Second)))
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
	case <-time.After(20 * time.Second): // it would take CommandTimeout at least
		t.Error("Close does not return")
		p.Cut()
	}
}
