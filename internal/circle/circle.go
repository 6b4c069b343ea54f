// Package circle finds deadlocks among processes: a caller that holds one lock waits for another, whose holder waits for the first, perhaps
// by way of more. It reads and writes what the server keeps for that. Leases and waiters of this process are in package engine.
//
// A caller that acquires a lock within leases writes a Wait, again and again, to a key of each lease's grant. Graph.Follow starts at the lock
// that is waited for, reads who holds it, then for what these holders wait, and so on. The result is the wait-for graph of Chandy, Misra and
// Haas ("Distributed Deadlock Detection", 1983), with records on the server in place of their probes.
package circle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// Wait is an acquire that waits, as its process has written it to the server.
type Wait struct {
	ID     string `json:"i"`
	Name   string `json:"n"`           // of the lock that it waits for
	Key    string `json:"k"`           // of that lock
	Weight int    `json:"w,omitempty"` // how much it wants of a lock that several may hold
	Owner  string `json:"o,omitempty"` // of an OwnerMutex
	Since  int64  `json:"s"`           // when it began, by the server's clock, µs
	Beat   int    `json:"b"`           // how often it has been written
	Stays  bool   `json:"x,omitempty"` // it goes on in a deadlock (Config.IgnoreDeadlocks)

	// By is the grant of the lease within which it waits. A wait within several leases is written for each of them, and counts as one for each.
	// It is "" for the caller's own wait.
	By string `json:"-"`
}

// key identifies a wait within one lease.
func (w Wait) key() string { return w.By + " " + w.ID }

// compare orders waits by when they began, and in one microsecond by their ids.
func (w Wait) compare(other Wait) int {
	return cmp.Or(cmp.Compare(w.Since, other.Since), cmp.Compare(w.ID, other.ID))
}

// Tell writes w to the waits of a grant, where it stays for some seconds. If over is true, Tell removes it instead.
func Tell(ctx context.Context, k *lock.Keyspace, grant string, w Wait, over bool) error {
	text := ""
	if !over {
		said, err := json.Marshal(w)
		if err != nil {
			return err
		}
		text = string(said)
	}
	_, err := ask(ctx, k, grant, w.ID, text)
	return err
}

// ask returns the waits of a grant. Unless id is "", it instead writes text under id or, if text is "", removes what is there.
func ask(ctx context.Context, k *lock.Keyspace, grant, id, text string) (all []Wait, err error) {
	l := at(k, k.Space.Waits(grant))
	a, _, err := lock.Ask(ctx, lock.Request{Op: "look for deadlocks", Lock: l, Unexplained: true}, &codec.Waits{Lock: l.Ref(), ID: id, Text: text})
	for _, text := range a.Reply.Texts {
		w := Wait{By: grant}
		if json.Unmarshal([]byte(text), &w) == nil && w.ID != "" && w.Key != "" {
			all = append(all, w)
		}
	}
	return all, err
}

// at returns a lock with that key, of unknown kind, for requests that only read.
func at(k *lock.Keyspace, key string) *lock.Lock {
	return &lock.Lock{Of: k, Keys: keys.Set{Lock: key}, Set: &k.Defaults}
}

// Graph is what was read of who holds which locks, and who waits for them.
type Graph struct {
	k     *lock.Keyspace
	locks map[string]held   // by key
	waits map[string][]Wait // by grant
	asked int               // requests so far
}

// held is who holds a lock.
type held struct {
	holders []lock.Holder
	limit   int  // of all weights; 0 if each holder excludes all others
	byOwner bool // or all but those of its owner
}

// blocks reports whether these holders, without the others, keep w from the lock.
func (of held) blocks(w Wait, holders ...lock.Holder) bool {
	weight := 0
	for _, h := range holders {
		// mutants: circle-readers
		if of.limit == 0 && !(of.byOwner && h.Owner == w.Owner) {
			return true
		}
		weight += h.Weight
	}
	// mutants: circle-permits
	return len(holders) > 0 && of.limit > 0 && of.limit-weight < w.Weight
}

// NewGraph returns an empty graph.
func NewGraph(k *lock.Keyspace) *Graph {
	return &Graph{k: k, locks: map[string]held{}, waits: map[string][]Wait{}}
}

// These bound what is read for a graph: the locks in a row, how many holders of a lock at a time, and requests in all.
const (
	maxCircle   = 16
	holdersPage = 100
	maxRequests = 1000
)

// Follow reads what a wait leads to: who holds the lock, for what they wait, who holds that, and so on.
func (g *Graph) Follow(ctx context.Context, w Wait) error {
	waits := []Wait{w}
	for range maxCircle {
		var next []Wait
		for _, w := range waits {
			more, err := g.follow(ctx, w)
			if err != nil {
				return err
			}
			next = append(next, more...)
		}
		waits = next
	}
	return nil
}

// follow reads who holds the lock that w is for, unless that is known, and returns for what they wait.
func (g *Graph) follow(ctx context.Context, w Wait) (next []Wait, err error) {
	if _, known := g.locks[w.Key]; known {
		return nil, nil
	}
	h := held{}
	l, cursor := at(g.k, w.Key), "0"
	for ; g.asked < maxRequests; g.asked++ {
		a, _, err := lock.Ask(ctx, lock.Request{Op: "look for deadlocks", Lock: l, Unexplained: true}, &codec.Status{Lock: l.Ref(), Cursor: cursor, Holds: holdersPage})
		if err != nil {
			return nil, unlessRefused(err, true)
		}
		h.limit, h.byOwner = a.Reply.Limit, a.Reply.Kind == codec.Owned
		for i := range a.Reply.Holds {
			holder := l.HolderOf(&a.Reply.Holds[i])
			holder.Name = w.Name
			if holder.Weight > 0 {
				holder.Form = a.Reply.Kind
			}
			h.holders = append(h.holders, holder)
		}
		if cursor = a.Reply.Next; a.Reply.IsLast() {
			break
		}
	}
	if h.byOwner {
		h.limit = 0
	}
	g.locks[w.Key] = h
	for _, holder := range h.holders {
		more, err := g.waitsOf(ctx, holder.Grant)
		if err != nil {
			return nil, err
		}
		next = append(next, more...)
	}
	return next, nil
}

// Add reads for what the holder of a grant waits, and what that leads to.
func (g *Graph) Add(ctx context.Context, grant string) error {
	all, err := g.waitsOf(ctx, grant)
	for _, w := range all {
		if err == nil {
			err = g.Follow(ctx, w)
		}
	}
	return err
}

func (g *Graph) waitsOf(ctx context.Context, grant string) (all []Wait, err error) {
	if grant == "" { // another program's
		return nil, nil
	}
	all, known := g.waits[grant]
	if !known && g.asked < maxRequests {
		g.asked++
		all, err = ask(ctx, g.k, grant, "", "")
		g.waits[grant] = all
	}
	return all, unlessRefused(err, false)
}

// unlessRefused returns err unless it is only about one key: one of another type or, if private is true, one that this user may not read.
func unlessRefused(err error, private bool) error {
	var f *exec.Failure
	if errors.As(err, &f) && !exec.Temporary(f.Kind) && f.Kind != exec.ErrClientClosed && (private || f.Kind != exec.ErrPermission) {
		return nil
	}
	return err
}

// Link is one step of a circle: a wait, and a holder of the lock that is waited for. The same holder makes the wait of the next link.
type Link struct {
	Wait
	Holder lock.Holder
}

// Circle is a deadlock: each link's holder makes the next link's wait, and that of the last link the first one's.
type Circle struct {
	Links []Link
	// beats has the waits without which it would be no deadlock, by grant and id: for each of these grants one of its waits has to last.
	beats map[string]map[string]int
}

// Find returns the shortest circle that begins with w. Without links, there is none. own are the grants within whose leases w waits if it is
// the caller's own; otherwise they are ignored.
func (g *Graph) Find(w Wait, own []string) Circle {
	if w.By != "" {
		i := slices.IndexFunc(g.waits[w.By], func(told Wait) bool { return told.ID == w.ID })
		if i < 0 {
			return Circle{}
		}
		w, own = g.waits[w.By][i], []string{w.By} // w with the latest beat
	}
	return g.path(w, own, g.stuck(append(g.all(), w), own))
}

// all returns all waits.
func (g *Graph) all() []Wait { return slices.Concat(slices.Collect(maps.Values(g.waits))...) }

// path returns the shortest circle that begins with w and comes back to a lock that is held by one of the grants own.
func (g *Graph) path(w Wait, own []string, stuck map[string]bool) Circle {
	if !stuck[w.key()] {
		return Circle{}
	}
	came := map[string][]Link{w.key(): {}}
	for next := []Wait{w}; len(next) > 0; next = next[1:] {
		w := next[0]
		of := g.locks[w.Key]
		for _, holder := range of.holders {
			if of.limit == 0 && !of.blocks(w, holder) {
				continue
			}
			way := append(slices.Clip(came[w.key()]), Link{w, holder})
			// mutants: circle-closes
			if slices.Contains(own, holder.Grant) {
				return g.closed(way, stuck)
			}
			for _, later := range g.waits[holder.Grant] {
				if _, seen := came[later.key()]; !seen && stuck[later.key()] {
					came[later.key()] = way
					next = append(next, later)
				}
			}
		}
	}
	return Circle{}
}

// closed returns the circle of these links. If one of their holders does not block the wait alone, any wait that ends could free what it
// wants, so the circle depends on all that are stuck.
func (g *Graph) closed(links []Link, stuck map[string]bool) Circle {
	c := Circle{links, map[string]map[string]int{}}
	note := func(w Wait) {
		if c.beats[w.By] == nil {
			c.beats[w.By] = map[string]int{}
		}
		c.beats[w.By][w.ID] = w.Beat
	}
	counted := false
	for _, l := range links {
		counted = counted || !g.locks[l.Key].blocks(l.Wait, l.Holder)
		note(l.Wait)
	}
	if counted {
		for _, w := range g.all() {
			if stuck[w.key()] {
				note(w)
			}
		}
	}
	delete(c.beats, "") // the caller knows that it waits
	return c
}

// stuck returns the keys of waits that cannot end before another of them does: those for which the holders that are stuck leave too little
// of the lock. A holder is stuck if it makes such a wait, or is one of own.
func (g *Graph) stuck(all []Wait, own []string) map[string]bool {
	stuck := map[string]bool{}
	for _, w := range all {
		stuck[w.key()] = true
	}
	goesOn := func(h lock.Holder) bool {
		return !slices.Contains(own, h.Grant) && !slices.ContainsFunc(g.waits[h.Grant], func(w Wait) bool { return stuck[w.key()] })
	}
	for again := true; again; {
		again = false
		for _, w := range all {
			of := g.locks[w.Key]
			if stuck[w.key()] && !of.blocks(w, slices.DeleteFunc(slices.Clone(of.holders), goesOn)...) {
				delete(stuck, w.key())
				again = true
			}
		}
	}
	return stuck
}

// Suspicion is a circle that is not certain yet. A wait may have ended although its record is still there, so a circle counts only once
// each process in it has written its wait again.
type Suspicion struct {
	found Circle
	again bool // it was found twice; found has the beats of the second time
}

// Confirm takes the result of a look, and reports whether the circle is certain: it was found at least three times in a row, and since the
// second time each process has written its wait again. So all these waits had begun, and none had ended, at the second look.
func (s *Suspicion) Confirm(found Circle) bool {
	same := func(a, b Link) bool { return a.key() == b.key() && a.Key == b.Key && a.Holder.Grant == b.Holder.Grant }
	if again := len(found.Links) > 0 && slices.EqualFunc(s.found.Links, found.Links, same); !again || !s.again {
		*s = Suspicion{found, again}
		return false
	}
	grown := func(grant, id string) bool {
		beat, before := s.found.beats[grant][id]
		// mutants: circle-lives
		return before && found.beats[grant][id] > beat
	}
	for _, l := range found.Links {
		if l.By != "" && !grown(l.By, l.ID) {
			return false
		}
	}
	for grant, waits := range s.found.beats {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(waits)), func(id string) bool { return grown(grant, id) }) {
			return false
		}
	}
	return true
}

// Is reports whether there is a suspicion.
func (s *Suspicion) Is() bool { return len(s.found.Links) > 0 }

// IsYoungest reports whether the circle's first wait began last, of those that do not stay. All processes of a circle come to the same
// result, since they compare what was written.
func (c Circle) IsYoungest() bool {
	first := c.Links[0].Wait
	// mutants: circle-youngest
	return !first.Stays && !slices.ContainsFunc(c.Links, func(l Link) bool {
		return !l.Stays && l.compare(first) > 0
	})
}

// Holders returns the holders of the circle's locks. Each waits for the lock of the next, the last for that of the first, who makes the
// circle's first wait.
func (c Circle) Holders() []lock.Holder {
	n := len(c.Links)
	holders := make([]lock.Holder, 0, n)
	for i := range n {
		holders = append(holders, c.Links[(i+n-1)%n].Holder)
	}
	return holders
}

// All returns the circles of the graph, each once. A circle begins with its oldest wait.
func (g *Graph) All() (all []Circle) {
	waits, seen := g.all(), map[string]bool{}
	stuck := g.stuck(waits, nil)
	for _, w := range slices.SortedFunc(slices.Values(waits), Wait.compare) {
		if seen[w.key()] {
			continue
		}
		c := g.path(w, []string{w.By}, stuck)
		if len(c.Links) > 0 {
			all = append(all, c)
		}
		for _, l := range c.Links {
			seen[l.key()] = true
		}
	}
	return all
}
