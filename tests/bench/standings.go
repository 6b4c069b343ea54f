package main

import (
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

// aim is what a figure is to be. The zero value is none.
type aim struct {
	want   float64
	atMost bool
	is     bool
}

func least(want float64) aim { return aim{want, false, true} }

func most(want float64) aim { return aim{want, true, true} }

// put adds a standing, if it was measured.
func (s *comparison) put(measured bool, what string, value float64, a aim) {
	if !measured {
		return
	}
	one := standing{What: what, Value: value}
	if a.is {
		reached := value >= a.want
		if a.atMost {
			reached = value <= a.want
		}
		one.Want, one.AtMost, one.Reached = &a.want, a.atMost, &reached
	}
	s.all = append(s.all, one)
}

// figure adds a figure of a contestant.
func (s *comparison) figure(what, cell, figure, name string, a aim) {
	value, ok := s.value(cell, figure, name)
	s.put(ok, what+": "+name, value, a)
}

// over adds the ratio of two contestants' figures.
func (s *comparison) over(what, cell, figure, name, other string, a aim) {
	value, ok := s.ratio(cell, figure, name, other)
	s.put(ok, what+": "+name+" over "+other, value, a)
}

// overBest adds the ratio to the best of some contestants, which has the highest figure, or the lowest.
func (s *comparison) overBest(what, cell, figure, name string, highest bool, among func(contestant) bool, a aim) {
	best := s.best(cell, figure, highest, among)
	value, ok := s.ratio(cell, figure, name, best)
	s.put(ok, what+": "+name+" over the best peer, "+best, value, a)
}

// wants are the aims for rates relative to the bare commands, at each of the levels.
var wants = map[string][]float64{"rueidis": {0.9, 1.0, 1.1, 1.6, 1.3}, "go-redis": {0.9, 1.0, 2.0, 4.5, 5}}

// standings returns those for which the results have the figures.
func standings(r results) []standing {
	s := &comparison{results: r}
	var none aim
	for _, c := range ourNames("free") {
		for i, n := range levels {
			cell := freeCell(n)
			s.over(cell, cell, "rate", c.name, bareOf(c), least(wants[c.client][i]))
			if c.client == "go-redis" {
				pipelined := none
				if n == 512 {
					pipelined = least(1.5)
				}
				s.over(cell, cell, "rate", c.name, "bare-goredis-autopipeline", pipelined)
			}
			s.overBest(cell, cell, "rate", c.name, true, peers, none)
		}
		s.over("p50 of a lone cycle", freeCell(1), "p50_us", c.name, bareOf(c), most(1.2))
		allocs := map[string]float64{"rueidis": 10, "go-redis": 20}[c.client]
		s.figure("allocations of a cycle at 64 goroutines", freeCell(64), "allocs", c.name, most(allocs))
	}
	for _, c := range ourNames("far") {
		for _, trip := range roundTrips {
			for _, n := range farLevels {
				cell := farCell(trip, n)
				s.overBest(cell+", p50", cell, "p50_us", c.name, false, peers, most(1.05))
				s.overBest(cell, cell, "rate", c.name, true, peers, least(1))
				s.over(cell, cell, "rate", c.name, bareOf(c), none)
			}
		}
	}
	for _, c := range ourNames("contended") {
		handover := most(0.2)
		if c.noLocal {
			handover = most(0.6)
		}
		s.overBest("contended, hand-over p50", "contended", "handover_us", c.name, false, notifyingPeers, handover)
		s.overBest("contended, wait p99", "contended", "wait99_us", c.name, false, peers, most(0.7))
		s.overBest("contended, longest wait", "contended", "longest_us", c.name, false, peers, most(0.35))
		s.overBest("contended, Redis CPU of a cycle", "contended", "redis_us", c.name, false, peers, most(0.5))
		s.figure("contended, Jain's index", "contended", "jain", c.name, least(0.98))
	}
	for _, c := range ourNames("one") {
		rate := least(30)
		if c.noLocal {
			rate = none
		}
		s.overBest("one process", "one", "rate", c.name, true, peers, rate)
	}
	for _, name := range []string{"holdfast-goredis-metrics", "holdfast-goredis-traces"} {
		s.over(observedCell, observedCell, "rate", name, "holdfast-goredis", least(0.97))
	}
	for _, c := range ourNames("held") {
		s.figure("held, leases lost", "held", "lost", c.name, most(0))
		s.figure("held, heap bytes of a lease", "held", "lease_heap", c.name, most(500))
		s.overBest("held, Redis CPU of a lock", "held", "redis_us", c.name, false, peers, most(0.4))
		s.overBest("held, client CPU of a lock", "held", "client_us", c.name, false, peers, most(0.3))
	}
	for _, c := range ourNames("read") {
		scripts := "redisson-scripts-" + strings.ReplaceAll(c.client, "-", "")
		s.over(readCell(1), readCell(1), "rate", c.name, scripts, least(10))
		s.over(readCell(8), readCell(8), "rate", c.name, scripts, least(1))
	}
	for _, c := range ourNames("readwrite") {
		best := s.best("readwrite", "rate", true, peers)
		s.over("readwrite, rate", "readwrite", "rate", c.name, best, none)
		s.over("readwrite, readers' wait p99", "readwrite", "wait99_us", c.name, best, none)
		s.over("readwrite, writers' wait p99", "readwrite", "writer99_us", c.name, best, none)
	}
	for _, c := range ourNames("quorum") {
		s.over(quorumCell(64), quorumCell(64), "rate", c.name, "redsync", least(3))
		s.over("quorum, p50 of a lone cycle", quorumCell(1), "p50_us", c.name, "redsync", most(1))
	}
	for _, c := range ourNames("cluster") {
		s.over(clusterCell, clusterCell, "rate", c.name, bareOf(c), least(map[string]float64{"rueidis": 0.9, "go-redis": 1}[c.client]))
	}
	s.crowd()
	for _, c := range ourNames("memory") {
		s.figure("memory of the server, bytes of a held lock", "memory", "stored", c.name, most(220))
		s.over("memory of the server", "memory", "stored", c.name, "bare-goredis", none)
	}
	s.queue()
	// Locks on other servers than Redis promise other things: there is no aim.
	for _, other := range contestants {
		if other.role != outside {
			continue
		}
		for _, c := range ourNames("free") {
			for _, n := range levels {
				s.over(freeCell(n), freeCell(n), "rate", c.name, other.name, none)
			}
		}
		for _, c := range ourNames("contended") {
			s.over("contended, hand-over p50", "contended", "handover_us", c.name, other.name, none)
		}
	}
	return s.all
}

func (s *comparison) crowd() {
	for _, c := range ourNames("crowd") {
		lowest, highest := math.Inf(1), 0.0
		for _, n := range crowdLevels {
			cell, rate := crowdCell(n), aim{}
			if n == 500 {
				rate = least(20)
			}
			for _, other := range contestants {
				if other.role == peer {
					s.over(cell, cell, "rate", c.name, other.name, rate)
				}
			}
			s.figure(cell+", Redis CPU of a cycle, µs", cell, "redis_us", c.name, most(60))
			if cpu, ok := s.value(cell, "redis_us", c.name); ok {
				lowest, highest = min(lowest, cpu), max(highest, cpu)
			}
		}
		s.put(highest > lowest, "crowd, Redis CPU of a cycle: the highest over the lowest: "+c.name, highest/lowest, most(1.1))
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
				if p == 99 {
					s.put(high > 0, fmt.Sprintf("%s, p99 with %d waiters, µs", what, many), high, most(150))
				}
				s.put(high > 0 && low > 0, fmt.Sprintf("%s, p%d: %d waiters over %d", what, p, many, few), high/low, most(1.2))
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

// value returns a contestant's figure; false if it was not measured.
func (s *comparison) value(cell, figure, name string) (float64, bool) {
	f := s.results[cell][name]
	return f[figure], f.measured()
}

// ratio returns the ratio of two contestants' figures; false if one was not measured.
func (s *comparison) ratio(cell, figure, a, b string) (float64, bool) {
	above, ok := s.value(cell, figure, a)
	below, found := s.value(cell, figure, b)
	if !ok || !found || below == 0 {
		return 0, false
	}
	return above / below, true
}

// best returns which of some contestants has the highest or the lowest figure. Contestants with overlaps do not count. It
// returns "" if none has the figure.
func (s *comparison) best(cell, figure string, highest bool, among func(contestant) bool) string {
	name, best := "", 0.0
	for _, c := range contestants {
		f := s.results[cell][c.name]
		if !f.measured() || !among(c) || f["overlaps"] > 0 || f[figure] == 0 {
			continue
		}
		if v := f[figure]; name == "" || highest && v > best || !highest && v < best {
			name, best = c.name, v
		}
	}
	return name
}
