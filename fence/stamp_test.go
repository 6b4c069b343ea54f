package fence

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// testLease is a Lease whose methods return its fields.
type testLease struct {
	name  string
	owner string
	fence uint64
	err   error

	fences map[string]uint64 // nil for a lease of one lock
	shared bool
}

func (l *testLease) Name() string     { return l.name }
func (l *testLease) Identity() string { return l.owner }
func (l *testLease) Fence() uint64    { return l.fence }
func (l *testLease) Err() error       { return l.err }

func (l *testLease) Fences() map[string]uint64 {
	if l.fences != nil {
		return l.fences
	}
	return map[string]uint64{l.name: l.fence}
}

func (l *testLease) IsShared() bool { return l.shared }

var _ Lease = (*holdfast.Lease)(nil)

func TestOfFailsIfTheLeaseIsOver(t *testing.T) {
	l := &testLease{name: "invoices", owner: "a", fence: 7}
	s, err := Of(l)
	if want := (Stamp{Lock: "invoices", Fence: 7, Owner: "a"}); s != want || err != nil {
		t.Errorf("Of = %+v, %v; want %+v", s, err, want)
	}
	l.err = &holdfast.LostError{Name: "invoices", Reason: holdfast.LossExpired}
	if s, err := Of(l); !errors.Is(err, holdfast.ErrLost) || s != (Stamp{}) {
		t.Errorf("Of a lost lease = %+v, %v", s, err)
	}
}

// The fences of several locks do not compare, so a stamp has the fence of one of them.
func TestALeaseOfSeveralLocksNeedsPart(t *testing.T) {
	l := &testLease{name: "a, b", owner: "me", fence: 9, fences: map[string]uint64{"a": 9, "b": 4}}
	if s, err := Of(l); !errors.Is(err, holdfast.ErrInvalid) || s != (Stamp{}) {
		t.Errorf("Of a lease of two locks = %+v, %v; want ErrInvalid", s, err)
	}
	s, err := Of(Part(l, "b"))
	if want := (Stamp{Lock: "b", Fence: 4, Owner: "me"}); s != want || err != nil {
		t.Errorf("Of one of them = %+v, %v; want %+v", s, err, want)
	}
	if s, err := Of(Part(l, "c")); !errors.Is(err, holdfast.ErrInvalid) || s != (Stamp{}) {
		t.Errorf("Of another lock = %+v, %v; want ErrInvalid", s, err)
	}
	l.err = holdfast.ErrReleased
	if s, err := Of(Part(l, "b")); err != holdfast.ErrReleased || s != (Stamp{}) {
		t.Errorf("Of a part of a released lease = %+v, %v; want ErrReleased", s, err)
	}
}

func TestStampsThatCannotBeStoredAreInvalid(t *testing.T) {
	for name, s := range map[string]Stamp{
		"no fence":       {Owner: "a"},
		"large fence":    {Fence: math.MaxInt64 + 1, Owner: "a"},
		"no owner":       {Fence: 1},
		"long owner":     {Fence: 1, Owner: strings.Repeat("a", maxOwner+1)},
		"NUL":            {Fence: 1, Owner: "a\x00"},
		"not UTF-8":      {Fence: 1, Owner: "\xff"},
		"the zero stamp": {},
	} {
		if err := s.check(); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: check returns %v, want ErrInvalid", name, err)
		}
		if err := new(Memory).Raise(t.Context(), s, "r"); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: Raise returns %v, want ErrInvalid", name, err)
		}
	}
	if err := (Stamp{Fence: math.MaxInt64, Owner: strings.Repeat("é", maxOwner/2)}).check(); err != nil {
		t.Error(err)
	}
}
