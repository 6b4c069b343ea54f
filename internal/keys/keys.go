// Package keys names the keys and channels of a lock, so that all of one lock lie
// in one Cluster slot, and refuses names that cannot be keys.
package keys

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLength bounds names and keys: they are sent with every command.
const maxLength = 512

// Set is the keys of one lock.
type Set struct {
	Lock  string
	Queue string
}

// Fence is the lock's fence counter where the server runs in Cluster mode; else Space.Fence serves all.
func (s Set) Fence() string { return s.Queue[:strings.LastIndexByte(s.Queue, ':')] + ":f" }

// Expiries is the index of the holds of a lock that several may hold: by when they expire.
func (s Set) Expiries() string { return s.Queue + ":e" }

// Space is where a client's locks live.
type Space struct {
	prefix string
}

// NewSpace returns the space of keys that begin with prefix.
func NewSpace(prefix string) (Space, error) {
	if err := check("prefix", prefix); err != nil {
		return Space{}, err
	}
	if strings.ContainsAny(prefix, "{}") {
		return Space{}, fmt.Errorf("prefix %q contains a brace; braces decide the Cluster slot, and the lock's name is put between a pair", prefix)
	}
	return Space{prefix}, nil
}

// Fence is the fence counter of all locks on a server outside Cluster mode.
func (s Space) Fence() string { return s.prefix + "fence" }

// Incarnation is the mark by which Strict mode notices that data was lost.
func (s Space) Incarnation() string { return s.prefix + "incarnation" }

// CaughtUp says of a node of a quorum for which incarnation its fence counter is good.
func (s Space) CaughtUp() string { return s.prefix + "caughtup" }

// Channel is the channel on which a client is notified outside Cluster mode.
func (s Space) Channel(client string) string { return s.prefix + "c:" + client }

// ShardChannel is the channel on which a client is notified of one lock in
// Cluster mode.
func ShardChannel(k Set, client string) string { return k.Queue + ":c:" + client }

// WatchChannel is the channel on which those who watch a lock hear, outside Cluster mode, that
// it has another holder. No client's channel has this name: theirs have no colon.
func (s Space) WatchChannel(k Set) string { return s.prefix + "c:w:" + k.Lock }

// ShardWatchChannel is the same in Cluster mode.
func ShardWatchChannel(k Set) string { return k.Queue + ":w" }

// Name returns the keys of the lock of that name.
func (s Space) Name(name string) (Set, error) {
	if err := check("name", name); err != nil {
		return Set{}, err
	}
	if strings.HasPrefix(name, "}") {
		return Set{}, fmt.Errorf("name %q begins with a closing brace: its keys would not lie in one Cluster slot", name)
	}
	return named(s.prefix + "{" + name + "}:q"), nil
}

// Exact returns the keys of the lock that lives under exactly this key.
func (s Space) Exact(key string) (Set, error) {
	if err := check("key", key); err != nil {
		return Set{}, err
	}
	if _, tagged := hashTag(key); !tagged && strings.Contains(key, "}") {
		return Set{}, fmt.Errorf("key %q has braces that are not a Cluster hash tag: no companion key would lie in its slot", key)
	}
	if key == s.Fence() {
		return Set{}, fmt.Errorf("key %q is the fence counter of all locks", key)
	}
	return s.Of(key), nil
}

// Redisson returns the keys of the lock that is Redisson's RLock of that name, too.
func (s Space) Redisson(name string) (Set, error) {
	if _, tagged := hashTag(name); !tagged && strings.Contains(name, "{") {
		return Set{}, fmt.Errorf("name %q has braces that are not a Cluster hash tag: Redisson's channel would not lie in its slot", name)
	}
	return s.Exact(name)
}

// RedissonChannel is the channel on which Redisson's clients tell each other that a lock is
// free.
func RedissonChannel(k Set) string {
	tagged := k.Lock
	if !strings.Contains(tagged, "{") {
		tagged = "{" + tagged + "}"
	}
	return "redisson_lock__channel:" + tagged
}

// Of returns the keys of the lock that lives under that key, which Name or Exact
// has returned once, here or in another process.
func (s Space) Of(lock string) Set {
	if strings.HasPrefix(lock, s.prefix+"{") && strings.HasSuffix(lock, "}") {
		return named(lock + ":q")
	}
	stem := s.prefix + "{" + lock + "}:key"
	if _, tagged := hashTag(lock); tagged {
		stem = s.prefix + "key:" + lock
	}
	return Set{Lock: lock, Queue: stem + ":q"}
}

// named returns the keys of a lock whose queue's key begins with its own: one string has both.
func named(queue string) Set {
	return Set{Lock: strings.TrimSuffix(queue, ":q"), Queue: queue}
}

// For returns the keys of a lock of another kind under the same name. Those who wait for
// it have a queue of their own: a lock is never handed to who waits for one of another kind.
func (s Set) For(kind string) Set {
	s.Queue = strings.TrimSuffix(s.Queue, "q") + kind
	return s
}

// Record returns the key of what is known of the runs of a job whose lock this is; in a
// window, if it has a name.
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

// windowEscapes takes from the name of a window what would let its record be a key of another
// lock: a brace after the name's own ends another name, and a colon begins another companion.
var windowEscapes = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D", ":", "%3A")

// Check refuses what cannot be a part of a key.
func Check(what, s string) error { return check(what, s) }

// hashTag returns the part of a key that decides its Cluster slot, if it has one:
// what is between the first { and the first } after it, unless that is nothing.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
func hashTag(key string) (string, bool) {
	_, rest, ok := strings.Cut(key, "{")
	if !ok {
		return "", false
	}
	tag, _, ok := strings.Cut(rest, "}")
	return tag, ok && tag != ""
}

func check(what, s string) error {
	switch {
	case s == "":
		return errors.New(what + " is empty")
	case len(s) > maxLength:
		return fmt.Errorf("%s is %d bytes long; at most %d are allowed", what, len(s), maxLength)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s %q is not valid UTF-8", what, s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s %q contains a control character", what, s)
	}
	return nil
}

// slots is the number of slots of a Cluster.
const slots = 16384

// crc16 has the CRC16 (XMODEM) of each byte.
var crc16 = func() (table [256]uint16) {
	for b := range table {
		crc := uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[b] = crc
	}
	return table
}()

// Slot returns a key's Cluster slot: CRC16 (XMODEM) of its hash tag, or of all of
// it, modulo 16384.
func Slot(key string) uint16 {
	if tag, ok := hashTag(key); ok {
		key = tag
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crc16[byte(crc>>8)^key[i]]
	}
	return crc % slots
}
