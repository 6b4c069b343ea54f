// Package behaviour tests what a mutex does when nothing goes wrong, and what it
// refuses, on the embedded server and on every real one.
package behaviour

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// acquire acquires, or fails the test.
func acquire(t *testing.T, l *holdfast.Lock) *holdfast.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lease, err := l.Acquire(ctx)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", l.Name(), err)
	}
	return lease
}

// release releases, or fails the test.
func release(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Fatalf("Release(%q): %v", l.Name(), err)
	}
}

// queue has a goroutine acquire the lock, and returns when it waits on the server.
func queue(t *testing.T, l *holdfast.Lock, place int) <-chan *holdfast.Lease {
	t.Helper()
	leases := make(chan *holdfast.Lease, 1)
	go func() {
		lease, err := l.Acquire(t.Context())
		if err != nil && t.Context().Err() == nil {
			t.Errorf("Acquire(%q): %v", l.Name(), err)
		}
		leases <- lease
	}()
	waitForWaiters(t, l, place)
	return leases
}

// receive waits for the lease of a queued goroutine.
func receive(t *testing.T, leases <-chan *holdfast.Lease) *holdfast.Lease {
	t.Helper()
	select {
	case l := <-leases:
		if l == nil {
			t.Fatal("no lease")
		}
		return l
	case <-time.After(20 * time.Second):
		t.Fatal("a waiter was not served within 20s")
	}
	return nil
}
