package keys

import (
	"slices"
	"strings"
)

// Find returns the lock that a key belongs to: the key is the lock's own, or that of a queue for it. Find returns false for any other key
// of the space; those lead to no further locks.
func (s Space) Find(key string) (lock string, ok bool) {
	rest, ours := strings.CutPrefix(key, s.Prefix)
	if !ours {
		return "", false
	}
	inBraces := strings.HasPrefix(rest, "{")
	if inBraces && strings.HasSuffix(rest, "}") {
		return key, s.isNamed(key)
	}
	i := strings.LastIndexByte(rest, ':')
	if i < 0 {
		return "", false
	}
	stem, kind := rest[:i], rest[i+1:]
	if !slices.Contains(Queues, kind) {
		return "", false
	}
	if inBraces && strings.HasSuffix(stem, "}") {
		lock = s.Prefix + stem
		return lock, s.isNamed(lock)
	}
	if inBraces {
		lock, ok = strings.CutSuffix(stem[1:], "}:key")
	} else {
		lock, ok = strings.CutPrefix(stem, "key:")
	}
	if !ok {
		return "", false
	}
	set, err := s.Exact(lock)
	if err != nil || set.For(kind).Queue != key {
		return "", false
	}
	return lock, true
}

// Queues are the last parts of the keys of queues. They are the kinds that Set.For takes; "q" is that of mutexes.
var Queues = []string{"q", "rw", "sem", "own", "bar", "redisson"}

// isNamed reports whether a key that begins with the prefix and an opening brace, and ends with a closing one, is that of a lock with a
// name.
func (s Space) isNamed(key string) bool {
	_, err := s.Name(key[len(s.Prefix)+1 : len(key)-1])
	return err == nil
}

// NameOf returns the name of the lock with this key. If the lock has no name, NameOf returns its key, and exact is true.
func (s Space) NameOf(lock string) (name string, exact bool) {
	if strings.HasPrefix(lock, s.Prefix+"{") && strings.HasSuffix(lock, "}") && len(lock) > len(s.Prefix)+1 {
		return lock[len(s.Prefix)+1 : len(lock)-1], false
	}
	return lock, true
}
