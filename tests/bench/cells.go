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
	readers    int // of the goroutines, if the lock is a read-write lock
	leases     int
	time       time.Duration
	hold       time.Duration
	think      time.Duration
	lead       time.Duration // in a crowd: from the start of a turn until it counts
	roundTrip  time.Duration // to the server and back, besides the time that this machine takes
	warm       time.Duration // processor time that a process that has all turns uses before the first
}

// levels are the numbers of goroutines of the free cells.
var levels = []int{1, 8, 64, 512, 4096}

func freeCell(goroutines int) string { return fmt.Sprint("free/", goroutines) }

// farLevels are the numbers of goroutines of the far cells.
var farLevels = []int{1, 8, 32, 128, 512}

// roundTrips are the round trips of the far cells: to a server in the same data centre, and in another zone.
var roundTrips = []time.Duration{500 * time.Microsecond, 2500 * time.Microsecond}

func farCell(roundTrip time.Duration, goroutines int) string {
	return fmt.Sprintf("far/%v/%d", roundTrip, goroutines)
}

func quorumCell(goroutines int) string { return fmt.Sprint("quorum/", goroutines) }

func readCell(processes int) string { return fmt.Sprint("read/", processes) }

// crowdLevels are the numbers of processes of the crowd's cells.
var crowdLevels = []int{2, 8, 32, 200, 500}

func crowdCell(processes int) string { return fmt.Sprint("crowd/", processes) }

const observedCell = "observed/64"

const clusterCell = "cluster/512"

// size is the size of a run.
type size struct {
	rounds, contendedRounds int
	short, contended, hold  time.Duration // of turns; short ones are in free, far, one, read, quorum and cluster
	leases                  int
	crowds                  int // of the crowd's levels
	crowd                   time.Duration
	warm                    time.Duration
}

var (
	plain = size{rounds: 5, contendedRounds: 3, short: 700 * time.Millisecond, contended: 3500 * time.Millisecond, hold: 12 * time.Second, leases: 10_000, crowds: len(crowdLevels), crowd: 2 * time.Second, warm: 10 * time.Second}
	quick = size{rounds: 1, contendedRounds: 1, short: 100 * time.Millisecond, contended: 700 * time.Millisecond, hold: 3500 * time.Millisecond, leases: 1000, crowds: 2, crowd: 300 * time.Millisecond, warm: 500 * time.Millisecond}
)

// cells returns the cells of a run of this size.
func (s size) cells() []cell {
	var all []cell
	for _, n := range levels {
		rounds := s.rounds
		if n == 1 && rounds > 1 {
			rounds *= 3 // latencies vary more from round to round than rates
		}
		all = append(all, cell{kind: "free", name: freeCell(n), rounds: rounds, processes: 1, goroutines: n, time: s.short})
	}
	for _, trip := range roundTrips {
		for _, n := range farLevels {
			all = append(all, cell{kind: "far", name: farCell(trip, n), rounds: (s.rounds + 1) / 2, processes: 1, goroutines: n, roundTrip: trip, time: s.short})
		}
	}
	// Without a time to hold, locks that let in again the goroutine that has just left would win.
	all = append(all,
		cell{kind: "contended", name: "contended", rounds: s.contendedRounds, processes: 8, goroutines: 16, time: s.contended, hold: time.Millisecond, think: 10 * time.Millisecond},
		cell{kind: "one", name: "one", rounds: s.rounds, processes: 1, goroutines: 64, time: s.short},
		cell{kind: "observed", name: observedCell, rounds: 2 * s.rounds, processes: 1, goroutines: 64, time: s.short},
		cell{kind: "held", name: "held", rounds: 1, processes: 1, goroutines: 64, leases: s.leases, time: s.hold},
		cell{kind: "read", name: readCell(1), rounds: s.rounds, processes: 1, goroutines: 64, readers: 64, time: s.short},
		cell{kind: "read", name: readCell(8), rounds: s.rounds, processes: 8, goroutines: 8, readers: 8, time: s.short},
		cell{kind: "readwrite", name: "readwrite", rounds: s.contendedRounds, processes: 8, goroutines: 16, readers: 14, time: s.contended, hold: time.Millisecond, think: 10 * time.Millisecond},
		cell{kind: "quorum", name: quorumCell(1), rounds: s.rounds, processes: 1, goroutines: 1, time: s.short},
		cell{kind: "quorum", name: quorumCell(64), rounds: s.rounds, processes: 1, goroutines: 64, time: s.short},
		cell{kind: "cluster", name: clusterCell, rounds: s.rounds, processes: 1, goroutines: 512, time: s.short},
	)
	for _, n := range crowdLevels[:s.crowds] {
		// Until then everybody waits.
		lead := s.crowd/4 + time.Duration(n)*6*time.Millisecond
		all = append(all, cell{kind: "crowd", name: crowdCell(n), rounds: s.contendedRounds, processes: n, goroutines: 1, time: s.crowd, lead: lead})
	}
	all = append(all, cell{kind: "memory", name: "memory", rounds: 1, processes: 1, goroutines: 64, leases: min(s.leases, 10_000)})
	all = append(all, cell{kind: "queue", name: "queue", rounds: s.contendedRounds, processes: 1, goroutines: 1, time: 2 * s.crowd})
	for i := range all {
		all[i].warm = s.warm
	}
	return all
}

// merged returns the cell with all goroutines in one process.
func (c cell) merged() cell {
	c.goroutines, c.readers, c.processes = c.goroutines*c.processes, c.readers*c.processes, 1
	return c
}

func (c cell) job(of contestant, process int) job {
	return job{
		Contestant: of.builtIn(),
		Kind:       c.kind,
		Process:    process,
		Goroutines: c.goroutines,
		Readers:    c.readers,
		Warm:       c.warm,
		For:        c.length(),
		Hold:       c.hold,
		Think:      c.think,
		Leases:     c.leases,
	}
}

// length is how long a process works, unless it is told to stop.
func (c cell) length() time.Duration {
	if c.kind == "crowd" {
		return c.limit()
	}
	return c.time
}

// limit is how long a turn may take on a machine that stalls.
func (c cell) limit() time.Duration {
	return c.lead + 2*c.time + 4*c.warm + time.Minute + time.Duration(c.leases)*time.Millisecond + time.Duration(c.processes)*100*time.Millisecond
}
