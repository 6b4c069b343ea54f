package keys

import (
	"strings"
	"testing"
)

func space(t *testing.T) Space {
	t.Helper()
	s, err := NewSpace("holdfast:")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKeysOfOneLockShareASlot(t *testing.T) {
	s := space(t)
	sets := map[string]Set{}
	for _, name := range []string{"a", "a b", "a{b", "a{b}c", "a}b", "{", "{a}", "日本", "{}", "x{}y}"} {
		k, err := s.Name(name)
		if err != nil {
			t.Fatalf("Name(%q): %v", name, err)
		}
		sets["name "+name] = k
	}
	for _, key := range []string{"a", "lock:a", "{order}:1", "x{order}:1", "a{b", "key:{order}:1"} {
		k, err := s.Exact(key)
		if err != nil {
			t.Fatalf("Exact(%q): %v", key, err)
		}
		if k.Lock != key {
			t.Errorf("Exact(%q).Lock = %q", key, k.Lock)
		}
		sets["key "+key] = k
	}
	owner := map[string]string{}
	for what, k := range sets {
		want := Slot(k.Lock)
		for _, key := range []string{k.Lock, k.Queue, k.Fence, ShardChannel(k, "c")} {
			if Slot(key) != want {
				t.Errorf("%s: %q lies in slot %d, the lock %q in %d", what, key, Slot(key), k.Lock, want)
			}
			if other, taken := owner[key]; taken {
				t.Errorf("%s and %s share the key %q", what, other, key)
			}
			owner[key] = what
		}
		if again := s.Of(k.Lock); again != k {
			t.Errorf("Of(%q) = %v, want %v", k.Lock, again, k)
		}
	}
}

func TestExactKeyOfANamedLockIsThatLock(t *testing.T) {
	s := space(t)
	named, _ := s.Name("a")
	exact, err := s.Exact(named.Lock)
	if err != nil || exact != named {
		t.Errorf("Exact(%q) = %v, %v; want %v", named.Lock, exact, err, named)
	}
}

func TestBadNamesAreRefused(t *testing.T) {
	s := space(t)
	for _, bad := range []string{"", strings.Repeat("x", 1<<20), "a\nb", "a\x00", "\xff", "}a"} {
		if _, err := s.Name(bad); err == nil {
			t.Errorf("Name(%.20q) is accepted", bad)
		}
	}
	for _, bad := range []string{"", "a}b", "{}a}", "{}", "a\nb", "\xff"} {
		if _, err := s.Exact(bad); err == nil {
			t.Errorf("Exact(%q) is accepted", bad)
		}
	}
	for _, bad := range []string{"", "a{b", "a}", "a\n"} {
		if _, err := NewSpace(bad); err == nil {
			t.Errorf("NewSpace(%q) is accepted", bad)
		}
	}
}

// The values are those that CLUSTER KEYSLOT gives.
func TestSlot(t *testing.T) {
	for key, want := range map[string]uint16{"foo": 12182, "bar": 5061, "{foo}bar": 12182, "123456789": 12739} {
		if got := Slot(key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}
