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

// Fault: Replies to requests that acquire or end an owner's lease are lost. Each counts once, however often it is
// repeated.
func TestLostRepliesCountOnce(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	here, elsewhere := through(t, p, steady), b.Client(t, nil)
	l, there := here.OwnerMutex("a", "me", holdfast.TTL(time.Minute)), elsewhere.OwnerMutex("a", "me", holdfast.TTL(time.Minute))
	count := func(want int) {
		t.Helper()
		if all, err := backend.HoldersOf(t.Context(), there); err != nil || len(all) != want {
			t.Fatalf("%d leases, %v; want %d", len(all), err, want)
		}
	}
	backend.Acquire(t, l)
	if _, err := here.ReleaseOwner(t.Context(), "a", "me"); err != nil { // the server has the scripts from now on
		t.Fatal(err)
	}
	backend.Release(t, backend.Acquire(t, l))
	for what, after := range map[string]proxy.After{"connection cut": proxy.Cut, "silence": proxy.Hang} {
		t.Run(what, func(t *testing.T) {
			first := backend.Acquire(t, l)
			trap := p.LoseReply(running(script.ShareAcquire(), "a"), after)
			second := backend.Acquire(t, l)
			if lost := trap.Reply(t); !strings.Contains(lost, "granted") {
				t.Fatalf("the lost reply was %q", lost)
			}
			count(2)
			third := backend.Acquire(t, l)
			count(3)
			p.LoseReply(running(script.ShareRelease(), "a"), after)
			if err := third.Release(t.Context()); !errors.Is(err, holdfast.ErrAmbiguous) {
				t.Errorf("Release, repeated after a lost reply: %v", err)
			}
			count(2)
			trap = p.LoseReply(running(script.ShareDisown(), "a"), after)
			if left, err := here.ReleaseOwner(t.Context(), "a", "me"); left != 1 || err != nil {
				t.Errorf("ReleaseOwner, repeated after a lost reply: %d, %v; want 1", left, err)
			}
			if lost := trap.Reply(t); !strings.Contains(lost, "released") {
				t.Errorf("the lost reply was %q", lost)
			}
			count(1)
			if left, err := elsewhere.ReleaseOwner(t.Context(), "a", "me"); left != 0 || err != nil {
				t.Errorf("ReleaseOwner of the last: %d, %v; want 0", left, err)
			}
			for _, lease := range []*holdfast.Lease{first, second} {
				_ = lease.Release(t.Context()) // the server chose which of them is over
			}
			count(0)
		})
	}
}

// Fault: A copy of a ReleaseOwner that found no holder, or another owner, comes late. It ends nothing either.
func TestLateCopyOfReleaseOwnerThatEndedNothing(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	here := through(t, p, patient)
	mine := here.OwnerMutex("a", "me", holdfast.TTL(time.Minute))
	yours := b.Client(t, nil).OwnerMutex("a", "you", holdfast.TTL(time.Minute))
	backend.Acquire(t, mine)
	if _, err := here.ReleaseOwner(t.Context(), "a", "me"); err != nil { // the server has the script from now on
		t.Fatal(err)
	}
	for _, first := range []error{holdfast.ErrNotHeld, holdfast.ErrNotOwner} {
		var other *holdfast.Lease
		if first == holdfast.ErrNotOwner {
			other = backend.Acquire(t, yours)
		}
		held := p.Hold(running(script.ShareDisown(), "a"), proxy.Cut)
		if _, err := here.ReleaseOwner(t.Context(), "a", "me"); !errors.Is(err, first) {
			t.Fatalf("ReleaseOwner: %v; want %v", err, first)
		}
		if other != nil {
			backend.Release(t, other)
		}
		lease := backend.Acquire(t, mine)
		held.Forward(t)
		if err := lease.Extend(t.Context(), time.Minute); err != nil {
			t.Errorf("after the late copy of one that was answered with %v: %v", first, err)
		}
		backend.Release(t, lease)
	}
}

// Fault: The context of a ReleaseOwner ends before it is answered. It goes on, and reports what it did.
func TestReleaseOwnerWithAContextThatEnds(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	here := through(t, p, steady)
	l := here.OwnerMutex("a", "me", holdfast.TTL(time.Minute))
	backend.Acquire(t, l)
	if _, err := here.ReleaseOwner(t.Context(), "a", "me"); err != nil {
		t.Fatal(err)
	}
	backend.Acquire(t, l)
	backend.Acquire(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	trap := p.LoseReply(running(script.ShareDisown(), "a"), proxy.Hang)
	go func() {
		trap.Wait(t)
		cancel()
	}()
	if left, err := here.ReleaseOwner(ctx, "a", "me"); left != 1 || err != nil {
		t.Errorf("ReleaseOwner: %d, %v; want 1", left, err)
	}
}

// Fault: A copy of a ReleaseOwner comes late. It ends no lease that was acquired later.
func TestLateCopyOfReleaseOwner(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	here := through(t, p, patient)
	l := here.OwnerMutex("a", "me", holdfast.TTL(time.Minute))
	backend.Acquire(t, l)
	if left, err := here.ReleaseOwner(t.Context(), "a", "me"); left != 0 || err != nil {
		t.Fatalf("ReleaseOwner: %d, %v", left, err)
	}
	backend.Acquire(t, l)
	held := p.Hold(running(script.ShareDisown(), "a"), proxy.Cut)
	if left, err := here.ReleaseOwner(t.Context(), "a", "me"); left != 0 || err != nil {
		t.Fatalf("ReleaseOwner: %d, %v", left, err)
	}
	lease := backend.Acquire(t, l)
	if reply := held.Forward(t); !strings.Contains(reply, "released") {
		t.Errorf("the late copy is answered %q", reply)
	}
	if err := lease.Extend(t.Context(), time.Minute); err != nil {
		t.Errorf("the lease that was acquired since: %v", err)
	}
	backend.Release(t, lease)
}
