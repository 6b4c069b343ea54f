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
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// Wait is an acquire that waits, as its process has written it to the server.
type Wait struct {
	ID     string `json:"i"`
	Name   string `json:"n"`           // of the lock that it waits for
	Key    string `json:"k"`           // of that lock
	Weight int    `json:"w,omitempty"` // how much of a semaphore it wants
	Since  int64  `json:"s"`           // when it began, by the server's clock, µs
	Beat   int    `json:"b"`           // how often it has been written
	Stays  bool   `json:"x,omitempty"` // it goes on in a deadlock (Config.IgnoreDeadlocks)
}

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

// ask returns the waits of a grant. Unless id is "", it first writes text under id or, if text is "", removes what is there.
func ask(ctx context.Context, k *lock.Keyspace, grant, id, text string) (all []Wait, err error) {
	l := at(k, k.Space.Waits(grant))
	a, _, err := lock.Ask(ctx, lock.Request{Op: "look for deadlocks", Lock: l, Unexplained: true}, &codec.Waits{Lock: l.Ref(), ID: id, Text: text})
	for _, text := range a.Reply.Texts {
		var w Wait
		if len(text) <= maxWait && json.Unmarshal([]byte(text), &w) == nil && w.ID != "" && w.Key != "" {
			all = append(all, w)
		}
	}
	return all, err
}

// maxWait bounds an encoded Wait, in bytes: two names, escaped.
const maxWait = 8192

// at returns a lock with that key, of unknown kind, for requests that only read.
func at(k *lock.Keyspace, key string) *lock.Lock {
	return &lock.Lock{Of: k, Keys: keys.Set{Lock: key}, Set: &k.Defaults}
}

// Graph is what was read of who holds which locks, and who waits for them.
type Graph struct {
	k     *lock.Keyspace
	locks map[string]held   // by key
	waits map[string][]Wait // by grant
}

// held is who holds a lock.
type held struct {
	holders []lock.Holder
	limit   int // of a semaphore, else 0
}

// NewGraph returns an empty graph.
func NewGraph(k *lock.Keyspace) *Graph {
	return &Graph{k, map[string]held{}, map[string][]Wait{}}
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

// maxSteps bounds how many locks a look reads.
const maxSteps = 16

// Follow reads what a wait leads to: who holds the lock, for what they wait, who holds that, and so on, up to maxSteps locks.
func (g *Graph) Follow(ctx context.Context, w Wait) error {
	next := []Wait{w}
	for steps := 0; len(next) > 0 && steps < maxSteps; next = next[1:] {
		w := next[0]
		if _, known := g.locks[w.Key]; known {
			continue
		}
		steps++
		l := at(g.k, w.Key)
		a, _, err := lock.Ask(ctx, lock.Request{Op: "look for deadlocks", Lock: l, Unexplained: true}, &codec.Status{Lock: l.Ref(), Cursor: "0", Holds: maxHolders})
		if err != nil {
			return err
		}
		h := held{}
		if a.Reply.Kind == codec.Semaphore {
			h.limit = a.Reply.Limit
		}
		for i := range a.Reply.Holds {
			holder := l.HolderOf(&a.Reply.Holds[i])
			holder.Name = w.Name
			h.holders = append(h.holders, holder)
		}
		g.locks[w.Key] = h
		for _, holder := range h.holders {
			more, err := g.waitsOf(ctx, holder.Grant)
			if err != nil {
				return err
			}
			next = append(next, more...)
		}
	}
	return nil
}

// maxHolders is about how many holders of a lock are looked at.
const maxHolders = 100

func (g *Graph) waitsOf(ctx context.Context, grant string) (all []Wait, err error) {
	if grant == "" { // another program's
		return nil, nil
	}
	all, known := g.waits[grant]
	if !known {
		all, err = ask(ctx, g.k, grant, "", "")
		g.waits[grant] = all
	}
	return all, err
}

// Link is one step of a circle: a wait, and a holder of the lock that is waited for. The same holder makes the wait of the next link.
type Link struct {
	Wait
	Holder lock.Holder
}

// Circle is a deadlock: each link's holder makes the next link's wait, and that of the last link the first one's.
type Circle struct {
	Links []Link
	beats map[string]int // by wait; those without which it would be no deadlock
}

// Find returns the shortest circle that begins with w, a wait within leases with the grants own. Without links, there is none.
func (g *Graph) Find(w Wait, own []string) Circle {
	for _, grant := range own {
		for _, told := range g.waits[grant] {
			if told.ID == w.ID {
				w = told // with a newer beat
			}
		}
	}
	stuck, counted := g.stuck(w, own)
	if !stuck[w.ID] {
		return Circle{}
	}
	came := map[string][]Link{w.ID: {}}
	for next := []Wait{w}; len(next) > 0; next = next[1:] {
		w := next[0]
		for _, holder := range g.locks[w.Key].holders {
			way := append(slices.Clip(came[w.ID]), Link{w, holder})
			if slices.Contains(own, holder.Grant) {
				return g.closed(way, stuck, counted)
			}
			for _, later := range g.waits[holder.Grant] {
				if _, seen := came[later.ID]; !seen && stuck[later.ID] {
					came[later.ID] = way
					next = append(next, later)
				}
			}
		}
	}
	return Circle{}
}

// closed returns the circle of these links. If a semaphore's permits were counted, any wait that ends could free some, so that the circle
// depends on all that are stuck.
func (g *Graph) closed(links []Link, stuck map[string]bool, counted bool) Circle {
	c := Circle{links, map[string]int{}}
	for _, l := range links {
		c.beats[l.ID] = l.Beat
	}
	if counted {
		for _, some := range g.waits {
			for _, w := range some {
				if stuck[w.ID] {
					c.beats[w.ID] = w.Beat
				}
			}
		}
	}
	return c
}

// stuck returns the ids of waits that cannot end before another of them does. A wait for a semaphore is stuck if the holders that are not
// stuck have too few permits for it; any other wait if some holder is stuck. counted is true if there was a semaphore.
func (g *Graph) stuck(w Wait, own []string) (stuck map[string]bool, counted bool) {
	stuck = map[string]bool{w.ID: true}
	all := []Wait{w}
	for _, some := range g.waits {
		for _, w := range some {
			stuck[w.ID] = true
			all = append(all, w)
		}
	}
	holds := func(h lock.Holder) bool {
		return slices.Contains(own, h.Grant) || slices.ContainsFunc(g.waits[h.Grant], func(w Wait) bool { return stuck[w.ID] })
	}
	for again := true; again; {
		again = false
		for _, w := range all {
			of := g.locks[w.Key]
			counted = counted || of.limit > 0
			kept, weight := 0, 0
			for _, h := range of.holders {
				if holds(h) {
					kept, weight = kept+1, weight+h.Weight
				}
			}
			// mutants: circle-permits
			goesOn := kept == 0 || of.limit > 0 && of.limit-weight >= w.Weight
			if goesOn && stuck[w.ID] {
				delete(stuck, w.ID)
				again = true
			}
		}
	}
	return stuck, counted
}

// Suspicion is a circle that is not certain yet. A wait may have ended although its record is still there, so a circle counts only once
// each process in it has written its wait again.
type Suspicion struct {
	found Circle
	again bool // it was found twice; found has the beats of the second time
}

// Confirm takes the result of a look, and reports whether the circle is certain: it was found at least three times in a row, and since the
// second time each process has written its wait again. So all these waits had begun, and none had ended, at the second look. own is the id of
// the caller's own wait, which needs no proof; or "".
func (s *Suspicion) Confirm(found Circle, own string) bool {
	delete(found.beats, own)
	same := func(a, b Link) bool { return a.ID == b.ID && a.Key == b.Key && a.Holder.Grant == b.Holder.Grant }
	sameWait := func(int, int) bool { return true }
	switch {
	case len(found.Links) == 0, !slices.EqualFunc(s.found.Links, found.Links, same), !maps.EqualFunc(s.found.beats, found.beats, sameWait):
		*s = Suspicion{found: found}
		return false
	case !s.again:
		*s = Suspicion{found, true}
		return len(found.beats) == 0
	}
	for id, beat := range s.found.beats {
		// mutants: circle-lives
		if found.beats[id] <= beat {
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
	seen := map[string]bool{}
	grants := map[string][]string{} // by wait
	waits := map[string]Wait{}
	for grant, some := range g.waits {
		for _, w := range some {
			grants[w.ID] = append(grants[w.ID], grant)
			waits[w.ID] = w
		}
	}
	for _, w := range slices.SortedFunc(maps.Values(waits), Wait.compare) {
		if seen[w.ID] {
			continue
		}
		c := g.Find(w, grants[w.ID])
		if len(c.Links) > 0 {
			all = append(all, c)
		}
		for _, l := range c.Links {
			seen[l.ID] = true
		}
	}
	return all
}
