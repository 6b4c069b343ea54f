package keys

import "testing"

// The slots are those that CLUSTER KEYSLOT returns.
func TestSlot(t *testing.T) {
	for key, want := range map[string]uint16{"foo": 12182, "bar": 5061, "{foo}bar": 12182, "123456789": 12739} {
		if got := Slot(key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}
