package holdfastotel

import "testing"

// Nested leases of a reentrant lock have one grant. The first to end leaves the other's entry.
func TestTheEntryOfANestedLeaseStays(t *testing.T) {
	var all holders
	first, second := &acquire{}, &acquire{}
	of := holder{"r", "k3v9x2ab"}
	all.add(of, first)
	all.add(of, second)
	all.remove(of, first)
	if got := all.find(of); got != second {
		t.Errorf("%p is found, want %p", got, second)
	}
	all.remove(of, second)
	if got := all.find(of); got != nil {
		t.Errorf("%p is found, want none", got)
	}
}
