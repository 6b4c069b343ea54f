package fence

import (
	"errors"
	"math"
	"testing"
)

func TestAMarkRefusesLowerFencesAndEqualOnesOfOtherOwners(t *testing.T) {
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
			t.Errorf("Raise of %d from %s: %v; want stale = %v", step.fence, step.owner, err, step.stale)
		}
	}
	if err := m.Raise(t.Context(), Stamp{Lock: "l", Fence: 1, Owner: "a"}, "another"); err != nil {
		t.Errorf("Raise of another resource: %v", err)
	}
	err := m.Raise(t.Context(), Stamp{Lock: "l", Fence: 3, Owner: "c"}, "r")
	var stale *StaleError
	if !errors.As(err, &stale) || stale.Resource != "r" || stale.Stamp != (Stamp{Lock: "l", Fence: 3, Owner: "c"}) || stale.Mark != (Mark{math.MaxInt64, "a"}) {
		t.Errorf("Raise = %#v", err)
	}
	if want := `holdfast: resource "r" refused fence 3 of lock "l" from c: it has seen fence 9223372036854775807 from a`; err.Error() != want {
		t.Errorf("the error is\n%s, want\n%s", err, want)
	}
}
