package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// standing is a figure of Holdfast, in itself or relative to the floor or the best peer, and the aim for it.
type standing struct {
	What    string   `json:"what"`
	Value   float64  `json:"value"`
	Want    *float64 `json:"want,omitempty"` // nil if there is no aim
	AtMost  bool     `json:"atMost,omitempty"`
	Reached *bool    `json:"reached,omitempty"`
}

// comparison collects standings.
type comparison struct {
	results results
	all     []standing
}

// put adds a standing, with its aim, if there is one.
func (s *comparison) put(what string, value float64, atMost bool, want ...float64) {
	one := standing{What: what, Value: value}
	if len(want) > 0 {
		reached := value == want[0] || atMost == (value < want[0])
		one.Want, one.AtMost, one.Reached = &want[0], atMost, &reached
	}
	s.all = append(s.all, one)
}

// costs reports whether less of a figure is better.
func costs(figure string) bool { return figure != "rate" && figure != "jain" }

// add adds a contestant's figure in a cell, or its ratio to that of another, whose name over ends with. It adds nothing if one of
// them was not measured. If what is empty, it is the cell.
func (s *comparison) add(what, cell, figure, name, over string, want ...float64) {
	f := s.results[cell]
	if !f[name].measured() {
		return
	}
	what, value := cmp.Or(what, cell)+": "+name, f[name][figure]
	if over != "" {
		other := f[over[strings.LastIndexByte(over, ' ')+1:]]
		if !other.measured() || other[figure] == 0 {
			return
		}
		what, value = what+" over "+over, value/other[figure]
	}
	s.put(what, value, costs(figure), want...)
}

// best returns which of some contestants has the best figure. Contestants with overlaps do not count.
func (s *comparison) best(cell, figure string, among func(contestant) bool) string {
	name, best := "nobody", 0.0
	for _, c := range contestants {
		f := s.results[cell][c.name]
		if !f.measured() || !among(c) || f["overlaps"] > 0 || f[figure] == 0 {
			continue
		}
		if v := f[figure]; best == 0 || costs(figure) == (v < best) && v != best {
			name, best = c.name, v
		}
	}
	return name
}

// overBest adds the ratio to the best of some contestants.
func (s *comparison) overBest(what, cell, figure, name string, among func(contestant) bool, want ...float64) {
	s.add(what, cell, figure, name, "the best peer, "+s.best(cell, figure, among), want...)
}

// wants are the aims for rates relative to the bare commands, at each of the levels.
var wants = map[string][]float64{"rueidis": {0.9, 1.0, 1.1, 1.6, 1.3}, "go-redis": {0.9, 1.0, 2.0, 4.5, 5}}

// standings returns those for which the results have the figures.
func standings(r results) []standing {
	s := &comparison{results: r}
	for _, c := range ourNames("free") {
		for i, n := range levels {
			cell := freeCell(n)
			s.add("", cell, "rate", c.name, bareOf(c), wants[c.client][i])
			switch {
			case c.client != "go-redis":
			case n == 512:
				s.add("", cell, "rate", c.name, "bare-goredis-autopipeline", 1.5)
			default:
				s.add("", cell, "rate", c.name, "bare-goredis-autopipeline")
			}
			s.overBest("", cell, "rate", c.name, peers)
		}
		s.add("p50 of a lone cycle", freeCell(1), "p50_us", c.name, bareOf(c), 1.2)
		allocs := map[string]float64{"rueidis": 10, "go-redis": 20}[c.client]
		s.add("allocations of a cycle at 64 goroutines", freeCell(64), "allocs", c.name, "", allocs)
	}
	for _, c := range ourNames("far") {
		for _, trip := range roundTrips {
			for _, n := range farLevels {
				cell := farCell(trip, n)
				s.overBest(cell+", p50", cell, "p50_us", c.name, peers, 1.05)
				s.overBest("", cell, "rate", c.name, peers, 1)
				s.add("", cell, "rate", c.name, bareOf(c))
			}
		}
	}
	for _, c := range ourNames("contended") {
		handover := 0.2
		if c.noLocal {
			handover = 0.6
		}
		s.overBest("contended, hand-over p50", "contended", "handover_us", c.name, notifyingPeers, handover)
		s.overBest("contended, wait p99", "contended", "wait99_us", c.name, peers, 0.7)
		s.overBest("contended, longest wait", "contended", "longest_us", c.name, peers, 0.35)
		s.overBest("contended, Redis CPU of a cycle", "contended", "redis_us", c.name, peers, 0.5)
		s.add("contended, Jain's index", "contended", "jain", c.name, "", 0.98)
	}
	for _, c := range ourNames("one") {
		if c.noLocal {
			s.overBest("one process", "one", "rate", c.name, peers)
		} else {
			s.overBest("one process", "one", "rate", c.name, peers, 30)
		}
	}
	for _, name := range []string{"holdfast-goredis-metrics", "holdfast-goredis-traces"} {
		s.add("", observedCell, "rate", name, "holdfast-goredis", 0.97)
	}
	for _, c := range ourNames("held") {
		s.add("held, leases lost", "held", "lost", c.name, "", 0)
		s.add("held, heap bytes of a lease", "held", "lease_heap", c.name, "", 500)
		s.overBest("held, Redis CPU of a lock", "held", "redis_us", c.name, peers, 0.4)
		s.overBest("held, client CPU of a lock", "held", "client_us", c.name, peers, 0.3)
	}
	for _, c := range ourNames("read") {
		scripts := "redisson-scripts-" + strings.ReplaceAll(c.client, "-", "")
		s.add("", readCell(1), "rate", c.name, scripts, 10)
		s.add("", readCell(8), "rate", c.name, scripts, 1)
	}
	for _, c := range ourNames("readwrite") {
		best := s.best("readwrite", "rate", peers)
		s.add("readwrite, rate", "readwrite", "rate", c.name, best)
		s.add("readwrite, readers' wait p99", "readwrite", "wait99_us", c.name, best)
		s.add("readwrite, writers' wait p99", "readwrite", "writer99_us", c.name, best)
	}
	for _, c := range ourNames("quorum") {
		s.add("", quorumCell(64), "rate", c.name, "redsync", 3)
		s.add("quorum, p50 of a lone cycle", quorumCell(1), "p50_us", c.name, "redsync", 1)
	}
	for _, c := range ourNames("cluster") {
		s.add("", clusterCell, "rate", c.name, bareOf(c), map[string]float64{"rueidis": 0.9, "go-redis": 1}[c.client])
	}
	for _, c := range ourNames("crowd") {
		s.crowd(c.name)
	}
	for _, c := range ourNames("memory") {
		s.add("memory of the server, bytes of a held lock", "memory", "stored", c.name, "", 220)
		s.add("memory of the server", "memory", "stored", c.name, "bare-goredis")
	}
	s.queue()
	// Locks on other servers than Redis promise other things: there is no aim.
	for _, other := range contestants {
		if other.role != outside {
			continue
		}
		for _, c := range ourNames("free") {
			for _, n := range levels {
				s.add("", freeCell(n), "rate", c.name, other.name)
			}
		}
		for _, c := range ourNames("contended") {
			s.add("contended, hand-over p50", "contended", "handover_us", c.name, other.name)
		}
	}
	return s.all
}

func (s *comparison) crowd(name string) {
	lowest, highest := math.Inf(1), 0.0
	for _, n := range crowdLevels {
		cell := crowdCell(n)
		for _, other := range contestants {
			switch {
			case other.role != peer:
			case n == 500:
				s.add("", cell, "rate", name, other.name, 20)
			default:
				s.add("", cell, "rate", name, other.name)
			}
		}
		s.add(cell+", Redis CPU of a cycle, µs", cell, "redis_us", name, "", 60)
		if f := s.results[cell][name]; f.measured() {
			lowest, highest = min(lowest, f["redis_us"]), max(highest, f["redis_us"])
		}
	}
	if highest > lowest {
		s.put("crowd, Redis CPU of a cycle: the highest over the lowest: "+name, highest/lowest, true, 1.1)
	}
}

func (s *comparison) queue() {
	f := s.results["queue"]["holdfast-scripts"]
	few, many := queueDepths[0], queueDepths[1]
	for _, old := range []bool{false, true} {
		for _, step := range queueSteps {
			what := "queue, " + step
			if old {
				what += " of old waiters"
			}
			for _, p := range []int{50, 99} {
				high, low := f[queueFigure(step, old, many, p)], f[queueFigure(step, old, few, p)]
				if p == 99 && high > 0 {
					s.put(fmt.Sprintf("%s, p99 with %d waiters, µs", what, many), high, true, 150)
				}
				if high > 0 && low > 0 {
					s.put(fmt.Sprintf("%s, p%d: %d waiters over %d", what, p, many, few), high/low, true, 1.2)
				}
			}
		}
	}
}

func peers(c contestant) bool { return c.role == peer }

func notifyingPeers(c contestant) bool { return c.role == peer && c.notified }

func ourNames(kind string) (all []contestant) {
	for _, c := range contestants {
		if c.role == ours && c.in(kind) {
			all = append(all, c)
		}
	}
	return all
}

// bareOf returns the bare commands over a contestant's client.
func bareOf(c contestant) string {
	return contestants[slices.IndexFunc(contestants, func(b contestant) bool {
		return b.role == floor && b.client == c.client
	})].name
}
