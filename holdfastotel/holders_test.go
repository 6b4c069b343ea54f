package holdfastotel

import "testing"

// Readers of one process may have the same name, owner and fence. The first to end leaves the other's entry.
func TestTheEntryOfAnotherReaderStays(t *testing.T) {
	var all holders
	first, second := &acquire{}, &acquire{}
	of := holder{"rw", "me", 7}
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
