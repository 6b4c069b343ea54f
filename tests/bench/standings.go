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

// standings returns those for which the results have the figures.
func standings(r results) []standing {
	s := &comparison{results: r}
	s.free()
	s.far()
	s.contended()
	s.one()
	s.observed()
	s.held()
	s.read()
	s.readWrite()
	s.quorum()
	s.cluster()
	s.crowd()
	s.memory()
	s.queue()
	s.outside()
	return s.all
}

// comparison collects standings.
type comparison struct {
	results results
	all     []standing
}

// wants are the aims for rates relative to the bare commands, at each of the levels.
var wants = map[string][]float64{"rueidis": {0.9, 1.0, 1.1, 1.6, 1.3}, "go-redis": {0.9, 1.0, 2.0, 4.5, 5}}

func (s *comparison) free() {
	for _, c := range ourNames("free") {
		bare := bareOf(c)
		for i, n := range levels {
			cell := freeCell(n)
			ratio, ok := s.over(cell, "rate", c.name, bare)
			s.atLeast(ok, fmt.Sprintf("%s: %s over %s", cell, c.name, bare), ratio, wants[c.client][i])
			if c.client == "go-redis" {
				const pipelined = "bare-goredis-autopipeline"
				ratio, ok := s.over(cell, "rate", c.name, pipelined)
				what := fmt.Sprintf("%s: %s over %s", cell, c.name, pipelined)
				if n == 512 {
					s.atLeast(ok, what, ratio, 1.5)
				} else {
					s.note(ok, what, ratio)
				}
			}
			best := s.best(cell, "rate", true, peers)
			ratio, ok = s.over(cell, "rate", c.name, best)
			s.note(ok, fmt.Sprintf("%s: %s over the best peer, %s", cell, c.name, best), ratio)
		}
		ratio, ok := s.over(freeCell(1), "p50_us", c.name, bare)
		s.atMost(ok, "p50 of a lone cycle: "+c.name+" over "+bare, ratio, 1.2)
		most := map[string]float64{"rueidis": 10, "go-redis": 20}[c.client]
		allocs, ok := s.figure(freeCell(64), c.name, "allocs")
		s.atMost(ok, "allocations of a cycle at 64 goroutines: "+c.name, allocs, most)
	}
}

func (s *comparison) far() {
	for _, c := range ourNames("far") {
		for _, trip := range roundTrips {
			for _, n := range farLevels {
				cell := farCell(trip, n)
				best := s.best(cell, "p50_us", false, peers)
				ratio, ok := s.over(cell, "p50_us", c.name, best)
				s.atMost(ok, fmt.Sprintf("%s, p50: %s over the best peer, %s", cell, c.name, best), ratio, 1.05)
				best = s.best(cell, "rate", true, peers)
				ratio, ok = s.over(cell, "rate", c.name, best)
				s.atLeast(ok, fmt.Sprintf("%s: %s over the best peer, %s", cell, c.name, best), ratio, 1)
				ratio, ok = s.over(cell, "rate", c.name, bareOf(c))
				s.note(ok, fmt.Sprintf("%s: %s over %s", cell, c.name, bareOf(c)), ratio)
			}
		}
	}
}

func (s *comparison) contended() {
	const cell = "contended"
	for _, c := range ourNames(cell) {
		most := 0.2
		if c.noLocal {
			most = 0.6
		}
		for _, m := range []struct {
			what, figure string
			among        func(contestant) bool
			most         float64
		}{
			{"hand-over p50", "handover_us", notifyingPeers, most},
			{"wait p99", "wait99_us", peers, 0.7},
			{"longest wait", "longest_us", peers, 0.35},
			{"Redis CPU of a cycle", "redis_us", peers, 0.5},
		} {
			best := s.best(cell, m.figure, false, m.among)
			ratio, ok := s.over(cell, m.figure, c.name, best)
			s.atMost(ok, fmt.Sprintf("%s, %s: %s over the best peer, %s", cell, m.what, c.name, best), ratio, m.most)
		}
		jain, ok := s.figure(cell, c.name, "jain")
		s.atLeast(ok, cell+", Jain's index: "+c.name, jain, 0.98)
	}
}

func (s *comparison) one() {
	const cell = "one"
	best := s.best(cell, "rate", true, peers)
	for _, c := range ourNames(cell) {
		ratio, ok := s.over(cell, "rate", c.name, best)
		what := fmt.Sprintf("one process: %s over the best peer, %s", c.name, best)
		if c.noLocal {
			s.note(ok, what, ratio)
		} else {
			s.atLeast(ok, what, ratio, 30)
		}
	}
}

func (s *comparison) observed() {
	for _, name := range []string{"holdfast-goredis-metrics", "holdfast-goredis-traces"} {
		ratio, ok := s.over(observedCell, "rate", name, "holdfast-goredis")
		s.atLeast(ok, observedCell+": "+name+" over holdfast-goredis", ratio, 0.97)
	}
}

func (s *comparison) held() {
	const cell = "held"
	for _, c := range ourNames(cell) {
		lost, ok := s.figure(cell, c.name, "lost")
		s.atMost(ok, "held, leases lost: "+c.name, lost, 0)
		heap, ok := s.figure(cell, c.name, "lease_heap")
		s.atMost(ok, "held, heap bytes of a lease: "+c.name, heap, 500)
		for _, m := range []struct {
			what, figure string
			most         float64
		}{{"Redis CPU of a lock", "redis_us", 0.4}, {"client CPU of a lock", "client_us", 0.3}} {
			best := s.best(cell, m.figure, false, peers)
			ratio, ok := s.over(cell, m.figure, c.name, best)
			s.atMost(ok, fmt.Sprintf("%s, %s: %s over the best peer, %s", cell, m.what, c.name, best), ratio, m.most)
		}
	}
}

func (s *comparison) read() {
	for _, c := range ourNames("read") {
		scripts := "redisson-scripts-" + strings.ReplaceAll(c.client, "-", "")
		for _, m := range []struct {
			cell string
			want float64
		}{{readCell(1), 10}, {readCell(8), 1}} {
			ratio, ok := s.over(m.cell, "rate", c.name, scripts)
			s.atLeast(ok, fmt.Sprintf("%s: %s over %s", m.cell, c.name, scripts), ratio, m.want)
		}
	}
}

func (s *comparison) readWrite() {
	const cell = "readwrite"
	best := s.best(cell, "rate", true, peers)
	for _, c := range ourNames(cell) {
		for _, m := range []struct{ what, figure string }{{"rate", "rate"}, {"readers' wait p99", "wait99_us"}, {"writers' wait p99", "writer99_us"}} {
			ratio, ok := s.over(cell, m.figure, c.name, best)
			s.note(ok, fmt.Sprintf("%s, %s: %s over %s", cell, m.what, c.name, best), ratio)
		}
	}
}

func (s *comparison) quorum() {
	for _, c := range ourNames("quorum") {
		ratio, ok := s.over(quorumCell(64), "rate", c.name, "redsync")
		s.atLeast(ok, quorumCell(64)+": "+c.name+" over redsync", ratio, 3)
		ratio, ok = s.over(quorumCell(1), "p50_us", c.name, "redsync")
		s.atMost(ok, "quorum, p50 of a lone cycle: "+c.name+" over redsync", ratio, 1)
	}
}

func (s *comparison) cluster() {
	for _, c := range ourNames("cluster") {
		bare := bareOf(c)
		ratio, ok := s.over(clusterCell, "rate", c.name, bare)
		s.atLeast(ok, clusterCell+": "+c.name+" over "+bare, ratio, map[string]float64{"rueidis": 0.9, "go-redis": 1}[c.client])
	}
}

func (s *comparison) crowd() {
	const most = 500
	for _, c := range ourNames("crowd") {
		lowest, highest := math.Inf(1), 0.0
		for _, n := range crowdLevels {
			cell := crowdCell(n)
			for _, other := range contestants {
				if other.role != peer {
					continue
				}
				ratio, ok := s.over(cell, "rate", c.name, other.name)
				what := fmt.Sprintf("%s: %s over %s", cell, c.name, other.name)
				if n == most {
					s.atLeast(ok, what, ratio, 20)
				} else {
					s.note(ok, what, ratio)
				}
			}
			if cpu, ok := s.figure(cell, c.name, "redis_us"); ok {
				s.atMost(ok, cell+", Redis CPU of a cycle, µs: "+c.name, cpu, 60)
				lowest, highest = min(lowest, cpu), max(highest, cpu)
			}
		}
		s.atMost(highest > lowest, "crowd, Redis CPU of a cycle: the highest over the lowest: "+c.name, highest/lowest, 1.1)
	}
}

func (s *comparison) memory() {
	const cell = "memory"
	for _, c := range ourNames(cell) {
		bytes, ok := s.figure(cell, c.name, "stored")
		s.atMost(ok, "memory of the server, bytes of a held lock: "+c.name, bytes, 220)
		ratio, ok := s.over(cell, "stored", c.name, "bare-goredis")
		s.note(ok, "memory of the server: "+c.name+" over bare-goredis", ratio)
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
					s.atMost(high > 0, fmt.Sprintf("%s, p99 with %d waiters, µs", what, many), high, 150)
				}
				s.atMost(high > 0 && low > 0, fmt.Sprintf("%s, p%d: %d waiters over %d", what, p, many, few), high/low, 1.2)
			}
		}
	}
}

// outside compares with locks on other servers than Redis, which promise other things: there is no aim.
func (s *comparison) outside() {
	for _, other := range contestants {
		if other.role != outside {
			continue
		}
		for _, c := range ourNames("free") {
			for _, n := range levels {
				ratio, ok := s.over(freeCell(n), "rate", c.name, other.name)
				s.note(ok, fmt.Sprintf("%s: %s over %s", freeCell(n), c.name, other.name), ratio)
			}
		}
		for _, c := range ourNames("contended") {
			ratio, ok := s.over("contended", "handover_us", c.name, other.name)
			s.note(ok, fmt.Sprintf("contended, hand-over p50: %s over %s", c.name, other.name), ratio)
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

func (s *comparison) figure(cell, name, figure string) (float64, bool) {
	f := s.results[cell][name]
	return f[figure], f.measured()
}

// over returns the ratio of two contestants' figures; false if one was not measured.
func (s *comparison) over(cell, figure, a, b string) (float64, bool) {
	above, ok := s.figure(cell, a, figure)
	below, found := s.figure(cell, b, figure)
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

func (s *comparison) atLeast(ok bool, what string, value, want float64) {
	s.judge(ok, what, value, want, false, value >= want)
}

func (s *comparison) atMost(ok bool, what string, value, want float64) {
	s.judge(ok, what, value, want, true, value <= want)
}

func (s *comparison) judge(ok bool, what string, value, want float64, atMost, reached bool) {
	if ok {
		s.all = append(s.all, standing{What: what, Value: value, Want: &want, AtMost: atMost, Reached: &reached})
	}
}

// note adds a standing without an aim.
func (s *comparison) note(ok bool, what string, value float64) {
	if ok {
		s.all = append(s.all, standing{What: what, Value: value})
	}
}
