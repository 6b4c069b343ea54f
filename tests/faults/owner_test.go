package faults

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

// ownedThrough returns a client through p, and its lock of the owner "me". The server has the script of ReleaseOwner.
func ownedThrough(t *testing.T, p *proxy.Proxy, cfg holdfast.Config) (*holdfast.Client, *holdfast.Lock) {
	t.Helper()
	c := through(t, p, cfg)
	l := c.OwnerMutex("a", "me", holdfast.TTL(time.Minute))
	backend.Acquire(t, l)
	if left, err := c.ReleaseOwner(t.Context(), "a", "me"); left != 0 || err != nil {
		t.Fatalf("ReleaseOwner: %d, %v", left, err)
	}
	return c, l
}

// Fault: The reply to a ReleaseOwner is lost, or its context ends before it is answered. It goes on, ends one lease, and reports what it did.
func TestLostRepliesToReleaseOwner(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	c, l := ownedThrough(t, p, steady)
	for _, after := range []proxy.After{proxy.Cut, proxy.Hang} {
		first, second := backend.Acquire(t, l), backend.Acquire(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		trap := p.LoseReply(running(script.ShareDisown(), "a"), after)
		go func() {
			if trap.Wait(t); after == proxy.Hang {
				cancel()
			}
		}()
		if left, err := c.ReleaseOwner(ctx, "a", "me"); left != 1 || err != nil {
			t.Errorf("ReleaseOwner, repeated after a lost reply: %d, %v; want 1", left, err)
		}
		if all, err := backend.HoldersOf(t.Context(), l); err != nil || len(all) != 1 {
			t.Errorf("%d leases, %v; want 1", len(all), err)
		}
		for _, lease := range []*holdfast.Lease{first, second} {
			_ = lease.Release(t.Context()) // the server chose which of them is over
		}
	}
}

// Fault: A copy of a ReleaseOwner comes late, which ended a lease, or found no holder, or another owner. It ends no lease that was acquired
// later.
func TestLateCopyOfReleaseOwner(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	c, mine := ownedThrough(t, p, patient)
	yours := b.Client(t, nil).OwnerMutex("a", "you", holdfast.TTL(time.Minute))
	for _, found := range []error{nil, holdfast.ErrNotHeld, holdfast.ErrNotOwner} {
		var other *holdfast.Lease
		switch found {
		case nil:
			backend.Acquire(t, mine)
		case holdfast.ErrNotOwner:
			other = backend.Acquire(t, yours)
		}
		held := p.Hold(running(script.ShareDisown(), "a"), proxy.Cut)
		if _, err := c.ReleaseOwner(t.Context(), "a", "me"); !errors.Is(err, found) {
			t.Fatalf("ReleaseOwner: %v; want %v", err, found)
		}
		if other != nil {
			backend.Release(t, other)
		}
		lease := backend.Acquire(t, mine)
		if reply := held.Forward(t); found == nil && !strings.Contains(reply, "released") {
			t.Errorf("the late copy is answered %q", reply)
		}
		if err := lease.Extend(t.Context(), time.Minute); err != nil {
			t.Errorf("after the late copy of one that was answered with %v: %v", found, err)
		}
		backend.Release(t, lease)
	}
}
