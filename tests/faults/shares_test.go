package faults

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/backend"
	"github.com/holdfast-go/holdfast/tests/proxy"
)

func TestLateCopyOfADowngradeLetsNobodyIn(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	rw := through(t, p, impatient).RWMutex("a", holdfast.TTL(time.Minute))
	held := p.Hold(running(script.ShareWeigh, "a"), proxy.Cut)
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

func TestLateCopyOfAnUpgradeKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	rw := through(t, p, impatient).RWMutex("a", holdfast.TTL(time.Minute))
	held := p.Hold(running(script.ShareWeigh, "a"), proxy.Cut)
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

func TestLostRepliesToChangesOfWeight(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	rw := through(t, p, impatient).RWMutex("a", holdfast.TTL(time.Minute))
	writer := backend.Acquire(t, rw.Writer())
	reader, err := rw.Downgrade(t.Context(), writer) // the server has the script from now on
	if err != nil {
		t.Fatal(err)
	}
	trap := p.LoseReply(running(script.ShareWeigh, "a"), proxy.Cut)
	writer, err = rw.TryUpgrade(t.Context(), reader)
	if err != nil {
		t.Fatal(err)
	}
	if lost := trap.Reply(t); !strings.Contains(lost, "weighed") {
		t.Errorf("the lost reply was %q", lost)
	}
	if writer.Token() <= reader.Token() {
		t.Errorf("the writer's fence is %d, the reader's %d", writer.Token(), reader.Token())
	}
	trap = p.LoseReply(running(script.ShareWeigh, "a"), proxy.Cut)
	reader, err = rw.Downgrade(t.Context(), writer)
	if err != nil {
		t.Fatal(err)
	}
	if lost := trap.Reply(t); !strings.Contains(lost, "weighed") {
		t.Errorf("the lost reply was %q", lost)
	}
	if reader.Token() != writer.Token() {
		t.Errorf("the reader's fence is %d, the writer's %d", reader.Token(), writer.Token())
	}
	if err := reader.Extend(t.Context(), time.Minute); err != nil {
		t.Errorf("Extend: %v", err)
	}
	backend.Release(t, reader)
	b.Cleaned(t)
}
