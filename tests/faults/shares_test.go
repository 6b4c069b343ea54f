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

// change changes the mode of an RWMutex's lease.
type change = func(context.Context, *holdfast.Lease) (*holdfast.Lease, error)

// changed changes the mode of a lease.
func changed(t *testing.T, by change, lease *holdfast.Lease) *holdfast.Lease {
	t.Helper()
	next, err := by(t.Context(), lease)
	if err != nil {
		t.Fatal(err)
	}
	return next
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
		if reply := held.Forward(t); !strings.Contains(reply, "gone") {
			t.Errorf("the late copy of a %s is answered %q", what, reply)
		}
		other, err := b.Client(t, nil).RWMutex("a").Reader().TryAcquire(t.Context())
		if !errors.Is(err, c.others) {
			t.Errorf("a reader after a late %s: %v", what, err)
		}
		if err == nil {
			backend.Release(t, other)
		}
		if err := lease.Extend(t.Context(), time.Minute); err != nil {
			t.Errorf("the lease after a late %s: %v", what, err)
		}
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
		if lost := trap.Reply(t); !strings.Contains(lost, "weighed") {
			t.Errorf("the lost reply was %q", lost)
		}
		return next
	}
	writer := lossy(rw.TryUpgrade, reader)
	last := lossy(rw.Downgrade, writer)
	if writer.Fence() <= reader.Fence() || last.Fence() != writer.Fence() {
		t.Errorf("a reader's fence is %d, the writer's after it %d, the reader's after that %d", reader.Fence(), writer.Fence(), last.Fence())
	}
	if err := last.Extend(t.Context(), time.Minute); err != nil {
		t.Errorf("Extend: %v", err)
	}
	backend.Release(t, last)
	b.Cleaned(t)
}

// Fault: Replicas do not confirm an upgrade. It is a grant, and fails.
func TestUpgradeThatReplicasDoNotConfirm(t *testing.T) {
	t.Parallel()
	b := onePlace(t)
	rw := b.Client(t, nil).RWMutex("a", holdfast.MinReplicas(1, 50*time.Millisecond))
	reader := backend.Acquire(t, rw.Reader(holdfast.MinReplicas(0, 0)))
	if lease, err := rw.TryUpgrade(t.Context(), reader); !errors.Is(err, holdfast.ErrReplicas) {
		t.Errorf("TryUpgrade without a replica: %v, %v; want ErrReplicas", lease, err)
	}
	if err := reader.Err(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("the reader: %v; want ErrLost", err)
	}
	b.Cleaned(t)
}
