package main

import (
	"fmt"
	"time"
)

// cell is one thing that is measured, for all contestants.
type cell struct {
	kind       string
	name       string
	rounds     int
	processes  int
	goroutines int // of each process
	leases     int
	time       time.Duration
	hold       time.Duration
	think      time.Duration
}

// levels are the numbers of goroutines of the free cells.
var levels = []int{1, 8, 64, 512, 4096}

func freeCell(goroutines int) string { return fmt.Sprint("free/", goroutines) }

// size is how much of a run there is.
type size struct {
	rounds, contendedRounds    int
	free, one, contended, hold time.Duration
	leases                     int
}

var (
	plain = size{rounds: 5, contendedRounds: 3, free: 700 * time.Millisecond, one: 700 * time.Millisecond, contended: 3500 * time.Millisecond, hold: 12 * time.Second, leases: 10_000}
	quick = size{rounds: 1, contendedRounds: 1, free: 100 * time.Millisecond, one: 100 * time.Millisecond, contended: 700 * time.Millisecond, hold: 3500 * time.Millisecond, leases: 1000}
)

// cells are all cells of a run of this size.
func (s size) cells() []cell {
	var all []cell
	for _, n := range levels {
		all = append(all, cell{kind: "free", name: freeCell(n), rounds: s.rounds, processes: 1, goroutines: n, time: s.free})
	}
	// A hold that lasts no time would reward locks that let the one in who has just left.
	return append(all,
		cell{kind: "contended", name: "contended", rounds: s.contendedRounds, processes: 8, goroutines: 16, time: s.contended, hold: time.Millisecond, think: 10 * time.Millisecond},
		cell{kind: "one", name: "one", rounds: s.rounds, processes: 1, goroutines: 64, time: s.one},
		cell{kind: "held", name: "held", rounds: 1, processes: 1, goroutines: 64, leases: s.leases, time: s.hold},
	)
}

func (c cell) job(of contestant, process int) job {
	return job{
		Contestant: of.name,
		Kind:       c.kind,
		Process:    process,
		Goroutines: c.goroutines,
		For:        c.time,
		Hold:       c.hold,
		Think:      c.think,
		Leases:     c.leases,
	}
}

// limit is how long a turn may take, on a machine that stalls.
func (c cell) limit() time.Duration {
	return 2*c.time + time.Minute + time.Duration(c.leases)*time.Millisecond
}
