package keys

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func newSpace(t *testing.T) Space {
	t.Helper()
	s, err := NewSpace("holdfast:")
	must(t, err)
	return s
}

// No names of windows and locks make a job's record the key of another lock or job.
func TestRecordsShareNoKeys(t *testing.T) {
	s := newSpace(t)
	owner := map[string]string{}
	claim := func(what, key string, slot uint16) {
		if other, ok := owner[key]; ok {
			t.Errorf("%s and %s share the key %q", what, other, key)
		}
		owner[key] = what
		if Slot(key) != slot {
			t.Errorf("%s: %q is in slot %d, the lock in %d", what, key, Slot(key), slot)
		}
	}
	windows := []string{"", "b", "x{b", "x{b}", "x{b}:q", "x:q", "q", "f", "once", "b%7D", "b}", ":", "once:b", "2026-11-23T02:00"}
	var all []Set
	for _, name := range []string{"a", "a}:once:x{b", "a}:once:b", "{a", "{a}", "a}:key", "a}:once"} {
		k, err := s.Name(name)
		must(t, err)
		all = append(all, k)
	}
	for _, key := range []string{"a", "c:once:x", "{o}", "{o}:once", "{o}:once:x", "{o}:once:once", "b:{o}", "once:b:{o}"} {
		k, err := s.Exact(key)
		must(t, err)
		all = append(all, k)
	}
	for _, k := range all {
		slot := Slot(k.Lock)
		claim("lock "+k.Lock, k.Lock, slot)
		for _, kind := range []string{"q", "rw", "sem", "own", "latch", "bar", "redisson"} {
			claim(kind+" of "+k.Lock, k.For(kind).Queue, slot)
		}
		for _, w := range windows {
			claim("window "+w+" of "+k.Lock, k.Record(w), slot)
		}
	}
}

func TestTheExactKeyOfANamedLockIsThatLock(t *testing.T) {
	s := newSpace(t)
	named, _ := s.Name("a")
	exact, err := s.Exact(named.Lock)
	if err != nil || exact != named {
		t.Errorf("Exact(%q) = %v, %v; want %v", named.Lock, exact, err, named)
	}
}

func TestBadNamesAreRefused(t *testing.T) {
	s := newSpace(t)
	for _, bad := range []string{"", strings.Repeat("x", 1<<20), "a\nb", "a\x00", "\xff", "}a"} {
		if _, err := s.Name(bad); err == nil {
			t.Errorf("Name(%.20q) succeeds", bad)
		}
	}
	for _, bad := range []string{"", "a}b", "{}a}", "{}", "a\nb", "\xff", "holdfast:fences", "holdfast:f{1}", "holdfast:f{16385}", "holdfast:waits:{a}", "holdfast:journal"} {
		if _, err := s.Exact(bad); err == nil {
			t.Errorf("Exact(%q) succeeds", bad)
		}
	}
	for _, bad := range []string{"", "a{b", "a}", "a\n"} {
		if _, err := NewSpace(bad); err == nil {
			t.Errorf("NewSpace(%q) succeeds", bad)
		}
	}
}

// Every name, exact key and prefix is either refused or makes keys that are in one slot, belong to no other lock, and
// lead back to the lock.
func FuzzKeys(f *testing.F) {
	for _, s := range []string{"", "a", "a b", "{", "}", "{}", "{a}", "a{b}c", "}a", "{a", "a}", "fences", "f{1}", "a}:q", "a}:key", "key:a", "c:x", "lock:a", "{order}:1", "x{order}:1", "a{b", "key:{order}:1", "x{}y}", "日本", "\xff", "\n", "\u202e", "\u009b"} {
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
			if key := s.SlotFence(Slot(k.Lock)); Slot(key) != Slot(k.Lock) {
				t.Errorf("%s: the counter %q is in slot %d, the lock %q in %d", what, key, Slot(key), k.Lock, Slot(k.Lock))
			}
			if what == "key" && k.Lock != key {
				t.Errorf("Exact(%q).Lock = %q", key, k.Lock)
			}
			for _, counter := range []string{s.Fence, s.SlotFence(Slot(k.Lock))} {
				if k.Lock == counter || k.Queue == counter {
					t.Errorf("%s: %v has the key of the counter %q", what, k, counter)
				}
			}
			for _, part := range []string{k.Lock, k.Queue, ShardChannel(k, "c")} {
				if Slot(part) != Slot(k.Lock) {
					t.Errorf("%s: %q is in slot %d, the lock %q in %d", what, part, Slot(part), k.Lock, Slot(k.Lock))
				}
				if strings.ContainsFunc(part, unicode.IsControl) || !utf8.ValidString(part) || len(part) > 4*maxLength {
					t.Errorf("%s: bad key %q", what, part)
				}
				if other, ok := all[part]; ok && other != k.Lock {
					t.Errorf("the locks %q and %q share the key %q", other, k.Lock, part)
				}
				all[part] = k.Lock
			}
			if again := s.Of(k.Lock); again != k {
				t.Errorf("%s: Of(%q) = %q, want %q", what, k.Lock, again, k)
			}
		}
	})
}

// Redisson's RedissonObject.prefixName puts the name in braces unless it contains one.
func TestRedisson(t *testing.T) {
	s, err := NewSpace("p:")
	must(t, err)
	for name, channel := range map[string]string{
		"orders":    "redisson_lock__channel:{orders}",
		"{order}:1": "redisson_lock__channel:{order}:1",
		"a{b}c":     "redisson_lock__channel:a{b}c",
	} {
		k, err := s.Redisson(name)
		if err != nil || k.Lock != name {
			t.Errorf("Redisson(%q) = %+v, %v", name, k, err)
			continue
		}
		if got := RedissonChannel(k); got != channel {
			t.Errorf("RedissonChannel of %q = %q, want %q", name, got, channel)
		}
		k = k.For("redisson")
		for _, other := range []string{channel, k.Queue, ShardChannel(k, "me")} {
			if Slot(other) != Slot(name) {
				t.Errorf("%q is in slot %d, the lock %q in %d", other, Slot(other), name, Slot(name))
			}
		}
		if exact, _ := s.Exact(name); exact.Queue == k.Queue {
			t.Errorf("a mutex and a Redisson lock with the key %q share the queue %q", name, k.Queue)
		}
	}
	for _, name := range []string{"", "a{b", "a}b", "{}a", "{", "p:fences", "p:f{7}"} {
		if k, err := s.Redisson(name); err == nil {
			t.Errorf("Redisson(%q) = %+v, want an error", name, k)
		}
	}
}

// A lock is found by its own key if that has its name, and by each queue, whatever the names of other locks look like.
func TestFind(t *testing.T) {
	for _, prefix := range []string{"holdfast:", "p", "key:", "a[b*:"} {
		s, err := NewSpace(prefix)
		must(t, err)
		finds := func(key, want string) {
			t.Helper()
			if lock, ok := s.Find(key); lock != want || !ok {
				t.Errorf("Find(%q) = %q, %v, want %q", key, lock, ok, want)
			}
		}
		for _, name := range []string{"a", "a b", "a}b", "{", "{a}", "x{}y}", "a}:q", "a}:key", "a}:key:q", "}", "日本", "a:f", "a}:f"} {
			k, err := s.Name(name)
			if err != nil {
				continue
			}
			finds(k.Lock, k.Lock)
			for _, kind := range Queues {
				finds(k.For(kind).Queue, k.Lock)
			}
			if got, exact := s.NameOf(k.Lock); got != name || exact {
				t.Errorf("NameOf(%q) = %q, %v", k.Lock, got, exact)
			}
			for _, key := range []string{s.Fence, s.SlotFence(Slot(k.Lock)), k.Expiries(), k.Record(""), k.Record("w"), k.For("latch").Queue} {
				if lock, ok := s.Find(key); ok {
					t.Errorf("Find(%q) = %q", key, lock)
				}
			}
		}
		for _, exact := range []string{"a", "lock:a", "{order}:1", "x{order}:1", "a{b", "key:{order}:1", "a:q"} {
			k, err := s.Exact(exact)
			must(t, err)
			finds(k.Queue, exact)
			finds(k.For("redisson").Queue, exact)
			if got, is := s.NameOf(exact); got != exact || !is {
				t.Errorf("NameOf(%q) = %q, %v", exact, got, is)
			}
		}
		for _, key := range []string{"", prefix, prefix + "{", prefix + "{}", prefix + "{}a}", prefix + "f{a}", prefix + "incarnation", s.Waits("k3v9x2a"), prefix + "mark:a", prefix + "{a}:q:e", prefix + "key:a:q",
			prefix + "{a}:x", prefix + "{:q", prefix + "{a\n}", prefix + ":q", "other:{a}", "{a}"} {
			if lock, ok := s.Find(key); ok {
				t.Errorf("Find(%q) = %q", key, lock)
			}
		}
	}
}

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

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
