package holdfast_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestDowngradeLeavesNoGap(t *testing.T) {
	s := inParallel(t)
	rw, other := s.client().RWMutex("rw"), s.client().RWMutex("rw")
	writing := acquire(t, rw.Writer())
	reader := start(t, s.client().RWMutex("rw").Reader().Acquire)
	awaitWaiters(t, rw, 1)
	writer := start(t, other.Writer().Acquire)
	awaitWaiters(t, rw, 2)

	reading, err := rw.Downgrade(t.Context(), writing)
	must(t, err)
	if reading.Fence() != writing.Fence() || !reading.IsShared() {
		t.Errorf("the fence was %d and is %d; shared: %t", writing.Fence(), reading.Fence(), reading.IsShared())
	}
	want(t, "the writer's lease", writing.Err(), holdfast.ErrReleased)
	second := succeeded(t, reader) // a reader that waits goes in
	release(t, writing)            // changes nothing
	release(t, second)
	wantWaiting(t, "another writer", writer)
	want(t, "Extend after Downgrade", reading.Extend(t.Context(), time.Minute), nil)
	release(t, reading)
	release(t, succeeded(t, writer))
	s.cleaned()
}

func TestTryUpgrade(t *testing.T) {
	s := inParallel(t)
	rw := s.client().RWMutex("rw")
	reading, other := acquire(t, rw.Reader()), acquire(t, s.client().RWMutex("rw").Reader())
	if !reading.IsShared() || other.Fence() != reading.Fence() {
		t.Errorf("readers at the same time have the fences %d and %d; shared: %t", reading.Fence(), other.Fence(), reading.IsShared())
	}
	_, err := rw.TryUpgrade(t.Context(), reading)
	want(t, "TryUpgrade beside another reader", err, holdfast.ErrHeld)
	var held *holdfast.HeldError
	if !errors.As(err, &held) || held.Name != "rw" || !held.Holder.IsZero() {
		t.Errorf("TryUpgrade beside another reader: %#v", err)
	}
	want(t, "the reader's lease after it was refused", reading.Err(), nil)
	release(t, other)
	writing, err := rw.TryUpgrade(t.Context(), reading)
	must(t, err)
	if writing.Fence() <= reading.Fence() || writing.IsShared() {
		t.Errorf("the writer's fence %d follows %d; shared: %t", writing.Fence(), reading.Fence(), writing.IsShared())
	}
	want(t, "the reader's lease", reading.Err(), holdfast.ErrReleased)
	wantHeld(t, s.client().RWMutex("rw").Reader())
	want(t, "Extend after TryUpgrade", writing.Extend(t.Context(), time.Minute), nil)
	_, err = rw.TryUpgrade(t.Context(), reading)
	want(t, "TryUpgrade of a lease that is over", err, holdfast.ErrReleased)
	release(t, writing)
	s.cleaned()
}

// Downgrade and TryUpgrade refuse leases of the wrong side or of another lock, and change nothing then.
func TestChangesOfSideRefuseOtherLeases(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	rw := c.RWMutex("rw")
	for what, l := range map[string]*holdfast.Lock{
		"a mutex":           c.Mutex("m"),
		"another RWMutex":   c.RWMutex("other").Writer(),
		"several locks":     c.Multi([]string{"a", "b"}),
		"the wrong options": c.RWMutex("rw").Writer(),
	} {
		lease := acquire(t, l)
		to := rw
		if what == "the wrong options" {
			to = c.RWMutex("rw", holdfast.TTL(0))
		}
		_, err := to.Downgrade(t.Context(), lease)
		want(t, "Downgrade with "+what, err, holdfast.ErrInvalid)
		_, err = to.TryUpgrade(t.Context(), lease)
		if what != "the wrong options" {
			want(t, "TryUpgrade with "+what, err, holdfast.ErrInvalid)
		}
		want(t, "the lease of "+what, lease.Err(), nil)
		release(t, lease)
	}
	s.cleaned()
}
