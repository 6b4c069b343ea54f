package ui_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Holders that wait for each other are drawn above the list while they do.
func TestADeadlockIsDrawn(t *testing.T) {
	s := newStage(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	names := []string{"orders", "stock", "invoices"}
	var clients []*holdfast.Client
	var leases []*holdfast.Lease
	for i, name := range names {
		clients = append(clients, s.b.Client(t, &holdfast.Config{Identity: []string{"api-3", "api-7", "<b>nightly</b>"}[i], IgnoreDeadlocks: true}))
		leases = append(leases, s.hold(clients[i].Mutex(name)))
	}
	over := make(chan error)
	for i := range names {
		go func() {
			over <- expect.ErrOf(clients[i].Mutex(names[(i+1)%len(names)]).Acquire(leases[i].Context(ctx)))
		}()
	}
	page := open(t, s.url, 1280, 800)
	page.until("the circle is told", `[...document.querySelectorAll("#circles li")].map((e) => e.textContent).sort().join() ===
		"<b>nightly</b> holds invoices and waits for orders,api-3 holds orders and waits for stock,api-7 holds stock and waits for invoices"`)
	page.until("it is drawn", `document.querySelectorAll("#circles svg .wait").length === 3`)
	page.save("deadlock.png")
	cancel()
	for range names {
		expect.Equal(t, "Acquire", <-over, context.Canceled)
	}
	page.until("it is gone", `document.getElementById("circles").hidden`)
}
