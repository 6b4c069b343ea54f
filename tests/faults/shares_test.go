package faults

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

// Fault: The server of locks that several may hold is out of memory. All holds are checked when the first would have
// expired, and outlast that.
func TestOutOfMemoryWithShares(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 5 * time.Second
		c := b.Client(t, nil)
		leases := map[string]*holdfast.Lease{
			"permit": backend.Acquire(t, c.Semaphore("s", 2, holdfast.TTL(ttl)).Permits(1)),
			"reader": backend.Acquire(t, c.RWMutex("a", holdfast.TTL(ttl)).Reader()),
			"writer": backend.Acquire(t, c.RWMutex("b", holdfast.TTL(ttl)).Writer()),
		}
		downgraded := backend.Acquire(t, c.RWMutex("d").Writer())
		first := map[string]time.Time{}
		for what, l := range leases {
			first[what] = l.Deadline()
		}
		do(t, b.Server, "CONFIG", "SET", "maxmemory", "1")
		for what, l := range map[string]*holdfast.Lock{
			"permit": c.Semaphore("s", 2).Permits(1), "reader": b.Client(t, nil).RWMutex("a").Reader(), "writer": c.RWMutex("c").Writer(),
		} {
			if _, err := l.TryAcquire(t.Context()); !backend.HasCode(err, "OOM") {
				t.Errorf("TryAcquire of a %s: %v", what, err)
			}
		}
		reader, err := c.RWMutex("d").Downgrade(t.Context(), downgraded)
		if err != nil {
			t.Errorf("Downgrade: %v", err)
		} else {
			backend.Release(t, reader)
		}
		for what, l := range leases {
			backend.Eventually(t, "renewals go on", func() bool { return l.Err() != nil || l.Deadline().Sub(first[what]) > ttl })
			if err := l.Err(); err != nil {
				t.Errorf("the %s: %v", what, err)
				continue
			}
			backend.Release(t, l)
		}
		do(t, b.Server, "CONFIG", "SET", "maxmemory", "0")
		b.Cleaned(t)
	})
}

// Fault: The server is out of memory when a share is released. The release needs none, even if it is the first to
// check all holds.
func TestReleaseOfAShareWithoutMemory(t *testing.T) {
	t.Parallel()
	eachPlace(t, func(t *testing.T, b *place) {
		const ttl = 5 * time.Second
		lease := backend.Acquire(t, b.Client(t, nil).Semaphore("s", 1, holdfast.TTL(ttl), holdfast.NoRenew()).Permits(1))
		if err := lease.Extend(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		b.pass(t, ttl) // past its first expiry
		do(t, b.Server, "CONFIG", "SET", "maxmemory", "1")
		backend.Release(t, lease)
		do(t, b.Server, "CONFIG", "SET", "maxmemory", "0")
		b.Cleaned(t)
	})
}

// Fault: A copy of a downgrade comes when its lease is a writer's again, with the same token. It must not make the
// present writer a reader.
func TestLateCopyOfADowngradeLetsNobodyIn(t *testing.T) {
	t.Parallel()
	b := onePlace(t)
	p := proxy.New(t, b.Server.Addr())
	rw := b.through(t, p, patient).RWMutex("a", holdfast.TTL(time.Minute))
	held := p.Hold(running(script.ShareWeigh(), "a"), proxy.Cut)
	reader, err := rw.Downgrade(t.Context(), backend.Acquire(t, rw.Writer()))
	if err != nil {
		t.Fatal(err)
	}
	writer, err := rw.TryUpgrade(t.Context(), reader)
	if err != nil {
		t.Fatal(err)
	}
	if reply := held.Forward(t); !strings.Contains(reply, "gone") {
		t.Errorf("the late copy is answered %q", reply)
	}
	other := b.Client(t, nil).RWMutex("a").Reader()
	if lease, err := other.TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrHeld) || writer.Err() != nil {
		t.Errorf("a reader beside a writer (%v): %v, %v", writer.Err(), lease, err)
	}
	backend.Release(t, writer)
	b.Cleaned(t)
}

// Fault: A copy of an upgrade comes when its lease is a reader's again. It does not make the reader a writer.
func TestLateCopyOfAnUpgradeKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	b := onePlace(t)
	p := proxy.New(t, b.Server.Addr())
	rw := b.through(t, p, patient).RWMutex("a", holdfast.TTL(time.Minute))
	held := p.Hold(running(script.ShareWeigh(), "a"), proxy.Cut)
	writer, err := rw.TryUpgrade(t.Context(), backend.Acquire(t, rw.Reader()))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := rw.Downgrade(t.Context(), writer)
	if err != nil {
		t.Fatal(err)
	}
	if reply := held.Forward(t); !strings.Contains(reply, "gone") {
		t.Errorf("the late copy is answered %q", reply)
	}
	backend.Release(t, backend.Acquire(t, b.Client(t, nil).RWMutex("a").Reader()))
	if err := reader.Extend(t.Context(), time.Minute); err != nil {
		t.Errorf("Extend by the reader: %v", err)
	}
	backend.Release(t, reader)
	b.Cleaned(t)
}

// Fault: The reply to a downgrade or an upgrade is lost. A repeated one is answered as the first was.
func TestLostRepliesToChangesOfWeight(t *testing.T) {
	t.Parallel()
	b := onePlace(t)
	p := proxy.New(t, b.Server.Addr())
	rw := b.through(t, p, patient).RWMutex("a", holdfast.TTL(time.Minute))
	writer := backend.Acquire(t, rw.Writer())
	reader, err := rw.Downgrade(t.Context(), writer) // the server has the script from now on
	if err != nil {
		t.Fatal(err)
	}
	trap := p.LoseReply(running(script.ShareWeigh(), "a"), proxy.Cut)
	writer, err = rw.TryUpgrade(t.Context(), reader)
	if err != nil {
		t.Fatal(err)
	}
	if lost := trap.Reply(t); !strings.Contains(lost, "weighed") {
		t.Errorf("the lost reply was %q", lost)
	}
	if writer.Fence() <= reader.Fence() {
		t.Errorf("the writer's fence is %d, the reader's %d", writer.Fence(), reader.Fence())
	}
	trap = p.LoseReply(running(script.ShareWeigh(), "a"), proxy.Cut)
	reader, err = rw.Downgrade(t.Context(), writer)
	if err != nil {
		t.Fatal(err)
	}
	if lost := trap.Reply(t); !strings.Contains(lost, "weighed") {
		t.Errorf("the lost reply was %q", lost)
	}
	if reader.Fence() != writer.Fence() {
		t.Errorf("the reader's fence is %d, the writer's %d", reader.Fence(), writer.Fence())
	}
	if err := reader.Extend(t.Context(), time.Minute); err != nil {
		t.Errorf("Extend: %v", err)
	}
	backend.Release(t, reader)
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
