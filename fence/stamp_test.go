package fence

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// testLease is a lease that a test ends as it likes.
type testLease struct {
	name  string
	owner string
	fence uint64
	err   error

	fences map[string]uint64 // of several locks
	shared bool
}

func (l *testLease) Name() string  { return l.name }
func (l *testLease) Owner() string { return l.owner }
func (l *testLease) Token() uint64 { return l.fence }
func (l *testLease) Err() error    { return l.err }

func (l *testLease) Tokens() map[string]uint64 {
	if l.fences != nil {
		return l.fences
	}
	return map[string]uint64{l.name: l.fence}
}

func (l *testLease) IsShared() bool { return l.shared }

var _ Lease = (*holdfast.Lease)(nil)

func TestAStampIsOfALeaseThatIsHeld(t *testing.T) {
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

// The fences of several locks do not compare: a resource is given that of the lock which guards it.
func TestAStampOfSeveralLocksIsOfOneOfThem(t *testing.T) {
	l := &testLease{name: "a, b", owner: "me", fence: 9, fences: map[string]uint64{"a": 9, "b": 4}}
	if s, err := Of(l); !errors.Is(err, holdfast.ErrInvalid) || s != (Stamp{}) {
		t.Errorf("Of two locks = %+v, %v; want ErrInvalid", s, err)
	}
	s, err := Of(Part(l, "b"))
	if want := (Stamp{Lock: "b", Fence: 4, Owner: "me"}); s != want || err != nil {
		t.Errorf("Of one of them = %+v, %v; want %+v", s, err, want)
	}
	if s, err := Of(Part(l, "c")); !errors.Is(err, holdfast.ErrInvalid) || s != (Stamp{}) {
		t.Errorf("Of a lock that is none of them = %+v, %v; want ErrInvalid", s, err)
	}
	l.err = holdfast.ErrReleased
	if s, err := Of(Part(l, "b")); err != holdfast.ErrReleased || s != (Stamp{}) {
		t.Errorf("Of a part of what was released = %+v, %v", s, err)
	}
}

func TestStampsThatNoResourceCouldKeepAreInvalid(t *testing.T) {
	for name, s := range map[string]Stamp{
		"no fence":       {Owner: "a"},
		"large fence":    {Fence: math.MaxInt64 + 1, Owner: "a"},
		"no owner":       {Fence: 1},
		"long owner":     {Fence: 1, Owner: strings.Repeat("a", maxOwner+1)},
		"NUL":            {Fence: 1, Owner: "a\x00"},
		"no UTF-8":       {Fence: 1, Owner: "\xff"},
		"the zero stamp": {},
	} {
		if err := s.check(); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if err := new(Memory).Raise(t.Context(), s, "r"); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: Raise: %v", name, err)
		}
	}
	if err := (Stamp{Fence: math.MaxInt64, Owner: strings.Repeat("é", maxOwner/2)}).check(); err != nil {
		t.Error(err)
	}
}

func TestMarksRefuseWhatIsLowerOrAnothersEqual(t *testing.T) {
	var m Memory
	for _, step := range []struct {
		fence uint64
		owner string
		stale bool
	}{
		{5, "a", false}, {5, "a", false}, {5, "b", true}, {4, "a", true},
		{6, "b", false}, {5, "a", true}, {math.MaxInt64, "a", false}, {6, "b", true},
	} {
		err := m.Raise(t.Context(), Stamp{Lock: "l", Fence: step.fence, Owner: step.owner}, "r")
		if errors.Is(err, ErrStale) != step.stale || err != nil != step.stale {
			t.Errorf("%d of %s: %v; want stale: %v", step.fence, step.owner, err, step.stale)
		}
	}
	if err := m.Raise(t.Context(), Stamp{Lock: "l", Fence: 1, Owner: "a"}, "another"); err != nil {
		t.Errorf("another resource: %v", err)
	}
	err := m.Raise(t.Context(), Stamp{Lock: "l", Fence: 3, Owner: "c"}, "r")
	var stale *StaleError
	if !errors.As(err, &stale) || stale.Resource != "r" || stale.Stamp != (Stamp{Lock: "l", Fence: 3, Owner: "c"}) || stale.Mark != (Mark{math.MaxInt64, "a"}) {
		t.Errorf("%#v", err)
	}
	if want := `holdfast: "r" refuses fence 3 of lock "l", shown by c: it has seen 9223372036854775807 of a`; err.Error() != want {
		t.Errorf("the error says\n%s, want\n%s", err, want)
	}
}
