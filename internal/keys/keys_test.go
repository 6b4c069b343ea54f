package keys

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
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
		for _, key := range []string{k.Lock, k.Queue, k.Fence(), ShardChannel(k, "c")} {
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

// Whatever windows and locks are called, no record of a job is a key of another lock or job.
func TestRecordsAreNoOtherLocksKeys(t *testing.T) {
	s := space(t)
	owner := map[string]string{}
	own := func(what, key string, slot uint16) {
		if other, taken := owner[key]; taken {
			t.Errorf("%s and %s share the key %q", what, other, key)
		}
		owner[key] = what
		if Slot(key) != slot {
			t.Errorf("%s: %q lies in slot %d, the lock in %d", what, key, Slot(key), slot)
		}
	}
	windows := []string{"", "b", "x{b", "x{b}", "x{b}:q", "x:q", "q", "f", "once", "b%7D", "b}", ":", "once:b", "2026-11-23T02:00"}
	var all []Set
	for _, name := range []string{"a", "a}:once:x{b", "a}:once:b", "{a", "{a}", "a}:key", "a}:once"} {
		k, err := s.Name(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k)
	}
	for _, key := range []string{"a", "c:once:x", "{o}", "{o}:once", "{o}:once:x", "{o}:once:once", "b:{o}", "once:b:{o}"} {
		k, err := s.Exact(key)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k)
	}
	for _, k := range all {
		slot := Slot(k.Lock)
		own("lock "+k.Lock, k.Lock, slot)
		for _, kind := range []string{"q", "rw", "sem", "own", "latch", "bar", "redisson"} {
			own(kind+" of "+k.Lock, k.For(kind).Queue, slot)
		}
		own("fence of "+k.Lock, k.Fence(), slot)
		for _, w := range windows {
			own("window "+w+" of "+k.Lock, k.Record(w), slot)
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
	for _, bad := range []string{"", "a}b", "{}a}", "{}", "a\nb", "\xff", "holdfast:fence"} {
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

// Whatever a name, an exact key or a prefix is: it is refused, or makes keys that lie in one
// slot, are not those of another lock, and lead back to the lock.
func FuzzKeys(f *testing.F) {
	for _, s := range []string{"", "a", "a b", "{", "}", "{}", "{a}", "a{b}c", "}a", "{a", "a}", "fence", "a}:q", "a}:key", "key:a", "c:x", "日本", "\xff", "\n", "\u202e", "\u009b"} {
		f.Add(s, "a", "holdfast:")
		f.Add("a", s, "p")
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, name, key, prefix string) {
		s, err := NewSpace(prefix)
		if err != nil {
			return
		}
		all := map[string]string{}
		for what, make := range map[string]func() (Set, error){
			"name": func() (Set, error) { return s.Name(name) },
			"key":  func() (Set, error) { return s.Exact(key) },
		} {
			k, err := make()
			if err != nil {
				continue
			}
			for _, part := range []string{k.Lock, k.Queue, k.Fence(), ShardChannel(k, "c")} {
				if Slot(part) != Slot(k.Lock) {
					t.Errorf("%s: %q is in another slot than %q", what, part, k.Lock)
				}
				if strings.ContainsFunc(part, unicode.IsControl) || !utf8.ValidString(part) || len(part) > 4*maxLength {
					t.Errorf("%s: the key %q", what, part)
				}
				if other, taken := all[part]; taken && other != k.Lock {
					t.Errorf("the locks %q and %q have %q", other, k.Lock, part)
				}
				all[part] = k.Lock
			}
			if again := s.Of(k.Lock); again != k {
				t.Errorf("%s: Of(%q) = %q, want %q", what, k.Lock, again, k)
			}
		}
	})
}

// The values are those that CLUSTER KEYSLOT gives.
func TestSlot(t *testing.T) {
	for key, want := range map[string]uint16{"foo": 12182, "bar": 5061, "{foo}bar": 12182, "123456789": 12739} {
		if got := Slot(key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}

// What Redisson calls these, its RedissonObject.prefixName says: the name in braces, unless it
// has one.
func TestRedisson(t *testing.T) {
	s, err := NewSpace("p:")
	if err != nil {
		t.Fatal(err)
	}
	for name, channel := range map[string]string{
		"orders":    "redisson_lock__channel:{orders}",
		"{order}:1": "redisson_lock__channel:{order}:1",
		"a{b}c":     "redisson_lock__channel:a{b}c",
	} {
		k, err := s.Redisson(name)
		if err != nil || k.Lock != name {
			t.Errorf("%q: %+v, %v", name, k, err)
			continue
		}
		if got := RedissonChannel(k); got != channel {
			t.Errorf("%q has the channel %q, not %q", name, got, channel)
		}
		k = k.For("redisson")
		for _, other := range []string{channel, k.Queue, k.Fence(), ShardChannel(k, "me")} {
			if Slot(other) != Slot(name) {
				t.Errorf("%q and %q are in two slots", name, other)
			}
		}
		if exact, _ := s.Exact(name); exact.Queue == k.Queue {
			t.Errorf("%q has one queue for two forms: %q", name, k.Queue)
		}
	}
	for _, name := range []string{"", "a{b", "a}b", "{}a", "{", "p:fence"} {
		if k, err := s.Redisson(name); err == nil {
			t.Errorf("%q has the keys %+v", name, k)
		}
	}
}
