package faults

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

// change changes the mode of an RWMutex's lease.
type change = func(context.Context, *holdfast.Lease) (*holdfast.Lease, error)

// changed changes the mode of a lease.
func changed(t *testing.T, by change, lease *holdfast.Lease) *holdfast.Lease {
	t.Helper()
	return expect.Of(by(t.Context(), lease)).OK(t)
}

// Fault: A copy of a downgrade or an upgrade comes when its lease has changed back, with the same token. It changes nothing: it makes no
// reader of a writer, and no writer of a reader.
func TestLateCopiesOfChangesOfMode(t *testing.T) {
	t.Parallel()
	b := onePlace(t)
	p := proxy.New(t, b.Server.Addr())
	rw := b.through(t, p, patient).RWMutex("a", holdfast.TTL(time.Minute))
	for what, c := range map[string]struct {
		lock         *holdfast.Lock
		change, back change
		others       error // what another reader meets afterwards
	}{
		"downgrade": {rw.Writer(), rw.Downgrade, rw.TryUpgrade, holdfast.ErrHeld},
		"upgrade":   {rw.Reader(), rw.TryUpgrade, rw.Downgrade, nil},
	} {
		held := p.Hold(running(script.ShareWeigh(), "a"), proxy.Cut)
		lease := changed(t, c.back, changed(t, c.change, backend.Acquire(t, c.lock)))
		expect.Contains(t, "the late copy of a "+what+" is answered", held.Forward(t), "gone")
		other, err := b.Client(t, nil).RWMutex("a").Reader().TryAcquire(t.Context())
		expect.Err(t, "a reader after a late "+what, err, c.others)
		if err == nil {
			backend.Release(t, other)
		}
		expect.Err(t, "the lease after a late "+what, lease.Extend(t.Context(), time.Minute), nil)
		backend.Release(t, lease)
	}
	b.Cleaned(t)
}

// Fault: The reply to a downgrade or an upgrade is lost. A repeated one is answered as the first was.
func TestLostRepliesToChangesOfMode(t *testing.T) {
	t.Parallel()
	b := onePlace(t)
	p := proxy.New(t, b.Server.Addr())
	rw := b.through(t, p, patient).RWMutex("a", holdfast.TTL(time.Minute))
	reader := changed(t, rw.Downgrade, backend.Acquire(t, rw.Writer())) // the server has the script from now on
	lossy := func(by change, lease *holdfast.Lease) *holdfast.Lease {
		trap := p.LoseReply(running(script.ShareWeigh(), "a"), proxy.Cut)
		next := changed(t, by, lease)
		expect.Contains(t, "the lost reply", trap.Reply(t), "weighed")
		return next
	}
	writer := lossy(rw.TryUpgrade, reader)
	last := lossy(rw.Downgrade, writer)
	if writer.Fence() <= reader.Fence() || last.Fence() != writer.Fence() {
		t.Errorf("a reader's fence is %d, the writer's after it %d, the reader's after that %d", reader.Fence(), writer.Fence(), last.Fence())
	}
	expect.Err(t, "Extend", last.Extend(t.Context(), time.Minute), nil)
	backend.Release(t, last)
	b.Cleaned(t)
}

// Fault: Replicas do not confirm an upgrade. It is a grant, and fails.
func TestUpgradeThatReplicasDoNotConfirm(t *testing.T) {
	t.Parallel()
	b := onePlace(t)
	rw := b.Client(t, nil).RWMutex("a", holdfast.Durability{Replicas: 1, Timeout: 50 * time.Millisecond})
	reader := backend.Acquire(t, rw.Reader(holdfast.Durability{Replicas: 0, Timeout: 0}))
	expect.Err(t, "TryUpgrade without a replica", expect.ErrOf(rw.TryUpgrade(t.Context(), reader)), holdfast.ErrReplicas)
	expect.Err(t, "the reader", reader.Err(), holdfast.ErrLost)
	b.Cleaned(t)
}

// ownedThrough returns a client through p, and its lock of the owner "me". The server has the script of ReleaseOwner.
func ownedThrough(t *testing.T, p *proxy.Proxy, cfg holdfast.Config) (*holdfast.Client, *holdfast.Lock) {
	t.Helper()
	c := through(t, p, cfg)
	l := c.OwnerMutex("a", "me", holdfast.TTL(time.Minute))
	backend.Acquire(t, l)
	expect.Of(c.ReleaseOwner(t.Context(), "a", "me")).Is(t, "ReleaseOwner", 0)
	return c, l
}

// Fault: The reply to a ReleaseOwner is lost, or its context ends before it is answered. It goes on, ends one lease, and reports
// what it did.
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
		expect.Of(c.ReleaseOwner(ctx, "a", "me")).Is(t, "ReleaseOwner, repeated after a lost reply", 1)
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
		expect.Err(t, "ReleaseOwner", expect.ErrOf(c.ReleaseOwner(t.Context(), "a", "me")), found)
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
