package keys

import (
	"strconv"
	"testing"
)

// The slots are those that CLUSTER KEYSLOT returns.
func TestSlot(t *testing.T) {
	for key, want := range map[string]uint16{"foo": 12182, "bar": 5061, "{foo}bar": 12182, "123456789": 12739} {
		if got := Slot(key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}

// The tag of a slot is the least number above 0 that is in it.
func TestTag(t *testing.T) {
	seen := map[uint16]bool{}
	for n := 1; len(seen) < Slots; n++ {
		tag := strconv.Itoa(n)
		if slot := Slot(tag); !seen[slot] {
			seen[slot] = true
			if got := Tag(slot); got != tag {
				t.Errorf("Tag(%d) = %q, want %q", slot, got, tag)
			}
		}
	}
}
