// Package keys names the keys and channels of locks, such that all of one lock's are in one Cluster slot. It refuses names that cannot be
// keys.
package keys

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLength bounds names and keys, in bytes, since they are sent with every command.
const maxLength = 512

// Set holds the keys of one lock.
type Set struct {
	Lock  string
	Queue string
}

// IsExact reports whether the lock is known by its key (Space.Exact), not by its name.
func (s Set) IsExact() bool { return s.Queue != s.Lock+":q" }

// Expiries returns the key of the index of a shared lock's holders by expiry.
func (s Set) Expiries() string { return s.Queue + ":e" }

// Space is the key space of a client's locks: all keys with one prefix.
type Space struct {
	Prefix      string // of all keys
	Fence       string // the key of the fence counter that all locks share outside Cluster mode
	Incarnation string // the key of the mark by which Strict mode notices a loss of data
	CaughtUp    string // the key that contains, on a node of a quorum, the incarnation for which the node's fence counter is valid
}

// NewSpace returns the space of keys that begin with the prefix.
func NewSpace(prefix string) (Space, error) {
	if err := Check("prefix", prefix); err != nil {
		return Space{}, err
	}
	if strings.ContainsAny(prefix, "{}") {
		return Space{}, fmt.Errorf("prefix %q contains a brace; only the braces around the lock's name may decide its Cluster slot", prefix)
	}
	return Space{prefix, prefix + "fences", prefix + "incarnation", prefix + "caughtup"}, nil
}

// SlotFence returns the key of the fence counter that the locks of a slot share in Cluster mode.
func (s Space) SlotFence(slot uint16) string { return s.Prefix + "f{" + Tag(slot) + "}" }

// isSlotFence reports whether a key is a SlotFence, or would be if its number were in that number's own slot.
func (s Space) isSlotFence(key string) bool {
	tag, ok := strings.CutPrefix(key, s.Prefix+"f{")
	return ok && strings.HasSuffix(tag, "}") && strings.Trim(tag[:len(tag)-1], "0123456789") == ""
}

// Channel returns the channel that notifies a client outside Cluster mode.
func (s Space) Channel(client string) string { return s.Prefix + "c:" + client }

// ShardChannel returns the channel that notifies a client of one lock in Cluster mode.
func ShardChannel(k Set, client string) string { return k.Queue + ":c:" + client }

// Waits returns the key that says for what the holder of a grant waits. It has a lock's braces, so that the scan script finds it.
func (s Space) Waits(grant string) string { return s.AllWaits() + grant + "}" }

// AllWaits returns how all keys of Waits begin.
func (s Space) AllWaits() string { return s.Prefix + "waits:{" }

// Journal returns the key of the journal, which records what operators did to holders. In Cluster mode it is also the name of the sharded
// channel that announces new entries, so that both are in one slot.
func (s Space) Journal() string { return s.Prefix + "journal" }

// JournalChannel returns the channel that announces new entries of the journal outside Cluster mode. It is no client's Channel, since those
// are longer.
func (s Space) JournalChannel() string { return s.Channel("h") }

// WatchChannel returns the channel that announces a lock's new holders to its watchers outside Cluster mode. It is no client's Channel,
// since clients' names contain no colon.
func (s Space) WatchChannel(k Set) string { return s.Prefix + "c:w:" + k.Lock }

// ShardWatchChannel is WatchChannel in Cluster mode.
func ShardWatchChannel(k Set) string { return k.Queue + ":w" }

// Name returns the keys of the lock with that name. It returns an error if no lock can have the name.
func (s Space) Name(name string) (Set, error) {
	if err := Check("name", name); err != nil {
		return Set{}, err
	}
	if strings.HasPrefix(name, "}") {
		return Set{}, fmt.Errorf("name %q begins with a closing brace, so its keys would not be in one Cluster slot", name)
	}
	queue := s.Prefix + "{" + name + "}:q"
	return Set{Lock: strings.TrimSuffix(queue, ":q"), Queue: queue}, nil // both share one string
}

// Exact returns the keys of the lock whose own key is exactly this one.
func (s Space) Exact(key string) (Set, error) {
	if err := Check("key", key); err != nil {
		return Set{}, err
	}
	if _, tagged := hashTag(key); !tagged && strings.Contains(key, "}") {
		return Set{}, fmt.Errorf("key %q has braces that are not a Cluster hash tag, so the lock's other keys cannot be in its slot", key)
	}
	if key == s.Fence || s.isSlotFence(key) {
		return Set{}, fmt.Errorf("key %q is a fence counter that locks share", key)
	}
	if strings.HasPrefix(key, s.AllWaits()) {
		return Set{}, fmt.Errorf("key %q says for what a holder waits", key)
	}
	if key == s.Journal() {
		return Set{}, fmt.Errorf("key %q is the journal of what operators did", key)
	}
	return s.Of(key), nil
}

// Redisson returns the keys of the lock that Redisson's RLock of that name uses.
func (s Space) Redisson(name string) (Set, error) {
	if _, tagged := hashTag(name); !tagged && strings.Contains(name, "{") {
		return Set{}, fmt.Errorf("name %q has braces that are not a Cluster hash tag, so Redisson's channel would not be in its slot", name)
	}
	return s.Exact(name)
}

// RedissonChannel returns the channel on which Redisson's clients announce that the lock is free.
func RedissonChannel(k Set) string {
	tagged := k.Lock
	if !strings.Contains(tagged, "{") {
		tagged = "{" + tagged + "}"
	}
	return "redisson_lock__channel:" + tagged
}

// Of returns the keys of the lock whose own key is lock. That key must come from Name or Exact, in this process or another.
func (s Space) Of(lock string) Set {
	if strings.HasPrefix(lock, s.Prefix+"{") && strings.HasSuffix(lock, "}") {
		return Set{Lock: lock, Queue: lock + ":q"}
	}
	stem := s.Prefix + "{" + lock + "}:key"
	if _, tagged := hashTag(lock); tagged {
		stem = s.Prefix + "key:" + lock
	}
	return Set{Lock: lock, Queue: stem + ":q"}
}

// For returns the keys of a lock of another kind with the same name. Each kind has its own queue, so that a lock is never handed to a
// waiter for another kind.
func (s Set) For(kind string) Set {
	s.Queue = strings.TrimSuffix(s.Queue, "q") + kind
	return s
}

// Record returns the key of the record of the job runs that this lock guards: in the window of that name, or outside any window if window
// is "".
func (s Set) Record(window string) string {
	window = windowEscapes.Replace(window)
	stem := strings.TrimSuffix(s.Queue, ":q")
	if prefix, exact := strings.CutSuffix(stem, "key:"+s.Lock); exact {
		return prefix + "once:" + window + ":" + s.Lock
	}
	record := stem + ":once"
	if window != "" {
		record += ":" + window
	}
	return record
}

// windowEscapes escapes what could make a window's record the key of another lock: a closing brace ends a lock's name, and a colon precedes
// the purpose of a key.
var windowEscapes = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D", ":", "%3A")

// Check returns an error if s cannot be part of a key. The error calls it what.
func Check(what, s string) error {
	switch {
	case s == "":
		return errors.New(what + " is empty")
	case len(s) > maxLength:
		return fmt.Errorf("%s is %d bytes long; the limit is %d", what, len(s), maxLength)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s %q is not valid UTF-8", what, s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s %q contains a control character", what, s)
	}
	return nil
}
