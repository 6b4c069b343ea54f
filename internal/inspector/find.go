package inspector

import (
	"context"
	"errors"
	"hash/maphash"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// Pattern says which locks to look for.
type Pattern struct {
	Text    string
	Task    string // the search, as errors name it, such as "list all locks"
	Begin   string // the common prefix of all matching names
	Matches func(name string) bool
}

// List calls yield with each matching lock in use, or with the error of asking about that lock, until yield returns false. An error without
// a name ends the list.
func (in *Inspector) List(ctx context.Context, p Pattern, yield func(lock.Status, error) bool) {
	seen := NewSeen()
	err := in.Find(ctx, p, seen, func(batch []Found) (bool, error) {
		all, errs, err := in.GetAll(ctx, batch)
		if err != nil {
			return false, err
		}
		for i, s := range all {
			if errs[i] == nil && !s.IsInUse() || !seen.Add(s.Key) {
				continue
			}
			if !yield(s, errs[i]) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		yield(lock.Status{}, exec.InTask(p.Task, err))
	}
}

const (
	// keysPerScan is about how many keys a server looks at in one step, including keys that are not locks'.
	keysPerScan = 250
	// locksPerBatch is how many locks are asked about together, each by a request of its own: few enough that a slow server answers all
	// within CommandTimeout.
	locksPerBatch = 64
	// maxSearches bounds how often a Cluster's masters are searched if slots move meanwhile.
	maxSearches = 3
)

// Find calls found with batches of locks that may be in use and whose names match, until found returns false or an error. It leaves out the
// locks in seen. The locks of a batch are on one server. Find finds all locks that are in use from beginning to end, unless a slot of a
// Cluster moves meanwhile. If one master of a Cluster is unavailable, Find searches the others before it returns that error.
func (in *Inspector) Find(ctx context.Context, p Pattern, seen *Seen, found func([]Found) (more bool, err error)) error {
	return in.onEach(ctx, p, func(ctx context.Context, on string) (more bool, err error) { return in.search(ctx, p, on, seen, found) })
}

// onEach calls search with a key of each master until it returns false or an error, as Find describes.
func (in *Inspector) onEach(ctx context.Context, p Pattern, search func(ctx context.Context, on string) (more bool, err error)) error {
	// Any key with the prefix would do.
	any := in.of.Space.Fence
	if err := in.anyLock(p, any).Ready(ctx); err != nil {
		return err
	}
	if !in.of.Server.InCluster() {
		_, err := search(ctx, any)
		return err
	}
	var before []string
	for range maxSearches {
		now, err := in.masters(ctx, p)
		if err != nil {
			return err
		}
		searched := map[string]bool{"": true}
		var failed error
		for slot, master := range now {
			if searched[master] || before != nil && before[slot] == master {
				continue
			}
			searched[master] = true
			more, err := search(ctx, in.keyIn(uint16(slot)))
			switch {
			case err != nil && failed == nil && ctx.Err() == nil && errors.Is(err, exec.ErrUnavailable):
				failed = err // The others may answer. A second failure ends the search: each master could take as long to fail.
			case !more || err != nil:
				return err
			}
		}
		if failed != nil {
			return failed
		}
		if len(searched) == 1 { // no slot has moved since the last search
			return nil
		}
		before = now
	}
	return nil
}

// search is Find on the server that has the key on.
func (in *Inspector) search(ctx context.Context, p Pattern, on string, seen *Seen, found func([]Found) (more bool, err error)) (more bool, err error) {
	prefix := in.of.Space.Prefix
	// The server may not know the status script yet. A first batch of one lock loads it.
	size := 1
	return in.scan(ctx, p, on, prefix, []string{prefix + "{" + p.Begin, prefix + "key:" + p.Begin}, func(keys []string) (bool, error) {
		for all := in.candidates(keys, p, seen); len(all) > 0; size = locksPerBatch {
			n := min(size, len(all))
			if more, err := found(all[:n]); !more || err != nil {
				return false, err
			}
			all = all[n:]
		}
		return true, nil
	})
}

// scan calls found with all keys that begin in one of these ways, some at a time, on the server that has the key on, until found returns
// false or an error. prefix is common to all of them.
func (in *Inspector) scan(ctx context.Context, p Pattern, on, prefix string, begin []string, found func(keys []string) (more bool, err error)) (more bool, err error) {
	l := in.anyLock(p, on)
	q := codec.Scan{Flags: l.Flags(), On: on, Cursor: "0", Count: keysPerScan, Match: literally.Replace(prefix) + "*", Begin: begin}
	for {
		if in.of.IsClosing() {
			return false, exec.ErrClosed
		}
		a, _, err := lock.Ask(ctx, lock.Request{Op: "list", Lock: l, Unexplained: true}, &q)
		if err != nil {
			return false, err
		}
		if more, err := found(a.Reply.Keys); !more || err != nil || a.Reply.IsLast() {
			return more, err
		}
		q.Cursor = a.Reply.Next
	}
}

// anyLock stands for all locks that match, on the server that has the key on.
func (in *Inspector) anyLock(p Pattern, on string) *lock.Lock {
	return in.target(Found{p.Text, keys.Set{Lock: on, Queue: on + ":q"}}, codec.HoldsMutex)
}

// literally makes a SCAN pattern that matches exactly the text.
var literally = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// candidates returns the matching locks that these keys belong to, each once.
func (in *Inspector) candidates(all []string, p Pattern, seen *Seen) (found []Found) {
	here := map[string]bool{}
	for _, key := range all {
		lock, ok := in.of.Space.Find(key)
		if !ok || here[lock] || !utf8.ValidString(lock) || seen.Has(lock) {
			continue
		}
		here[lock] = true
		if name, _ := in.of.Space.NameOf(lock); strings.HasPrefix(name, p.Begin) && p.Matches(name) {
			found = append(found, Found{name, in.of.Space.Of(lock)})
		}
	}
	return found
}

// masters returns the driver's name for each slot's master, or "" if the slot has none.
func (in *Inspector) masters(ctx context.Context, p Pattern) ([]string, error) {
	// The driver may still be finding out.
	for range 100 {
		masters, known := make([]string, keys.Slots), false
		for slot := range masters {
			masters[slot] = in.of.Server.Node(in.keyIn(uint16(slot)))
			known = known || masters[slot] != ""
		}
		if known {
			return masters, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-in.of.Closing:
			return nil, exec.ErrClosed
		}
	}
	return nil, &exec.Failure{Op: "list", Name: p.Text, Server: in.of.Server.Addr(), Kind: exec.ErrUnavailable, Err: errNoMasters}
}

var errNoMasters = errors.New("the driver does not know the Cluster's masters")

// keyIn returns a key with the client's prefix in that slot.
func (in *Inspector) keyIn(slot uint16) string {
	return in.of.Space.Prefix + "{" + keys.Tag(slot) + "}"
}

// Seen remembers locks by hashes of their keys, in bounded memory. Among a million keys, it takes two different ones for the same with a
// probability of one in 10^7.
type Seen struct {
	seed maphash.Seed
	keys map[uint64]struct{}
}

// maxSeen bounds how many keys a Seen remembers: that many take some 40 MB.
const maxSeen = 1 << 20

// NewSeen returns an empty Seen.
func NewSeen() *Seen { return &Seen{seed: maphash.MakeSeed(), keys: map[uint64]struct{}{}} }

// Has reports whether s remembers the key.
func (s *Seen) Has(key string) bool {
	_, ok := s.keys[maphash.String(s.seed, key)]
	return ok
}

// Add remembers a key and reports whether it was new. Once s is full, it remembers no more.
func (s *Seen) Add(key string) bool {
	if s.Has(key) {
		return false
	}
	if len(s.keys) < maxSeen {
		s.keys[maphash.String(s.seed, key)] = struct{}{}
	}
	return true
}
