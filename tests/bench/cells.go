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

// cells returns the cells of a whole run.
func cells() (all []cell) {
	const (
		short = 700 * time.Millisecond
		long  = 3500 * time.Millisecond
	)
	for _, n := range levels {
		rounds := 5
		if n == 1 {
			rounds *= 3 // latencies vary more from round to round than rates
		}
		all = append(all, cell{kind: "free", name: freeCell(n), rounds: rounds, processes: 1, goroutines: n, time: short})
	}
	for _, trip := range roundTrips {
		for _, n := range farLevels {
			all = append(all, cell{kind: "far", name: farCell(trip, n), rounds: 3, processes: 1, goroutines: n, roundTrip: trip, time: short})
		}
	}
	// Without a time to hold, locks that let in again the goroutine that has just left would win.
	all = append(all,
		cell{kind: "contended", name: "contended", rounds: 3, processes: 8, goroutines: 16, time: long, hold: time.Millisecond, think: 10 * time.Millisecond},
		cell{kind: "one", name: "one", rounds: 5, processes: 1, goroutines: 64, time: short},
		cell{kind: "observed", name: observedCell, rounds: 10, processes: 1, goroutines: 64, time: short},
		cell{kind: "held", name: "held", rounds: 1, processes: 1, goroutines: 64, leases: 10_000, time: 12 * time.Second},
		cell{kind: "read", name: readCell(1), rounds: 5, processes: 1, goroutines: 64, readers: 64, time: short},
		cell{kind: "read", name: readCell(8), rounds: 5, processes: 8, goroutines: 8, readers: 8, time: short},
		cell{kind: "readwrite", name: "readwrite", rounds: 3, processes: 8, goroutines: 16, readers: 14, time: long, hold: time.Millisecond, think: 10 * time.Millisecond},
		cell{kind: "quorum", name: quorumCell(1), rounds: 5, processes: 1, goroutines: 1, time: short},
		cell{kind: "quorum", name: quorumCell(64), rounds: 5, processes: 1, goroutines: 64, time: short},
		cell{kind: "cluster", name: clusterCell, rounds: 5, processes: 1, goroutines: 512, time: short},
	)
	for _, n := range crowdLevels {
		all = append(all, cell{kind: "crowd", name: crowdCell(n), rounds: 3, processes: n, goroutines: 1, time: 2 * time.Second})
	}
	all = append(all,
		cell{kind: "memory", name: "memory", rounds: 1, processes: 1, goroutines: 64, leases: 10_000},
		cell{kind: "queue", name: "queue", rounds: 3, processes: 1, goroutines: 1, time: 4 * time.Second})
	for i := range all {
		all[i].warm = 10 * time.Second
	}
	return all
}

// hurry makes the cell smaller, for -quick. It returns false if -quick leaves the cell out.
func (c *cell) hurry() bool {
	c.rounds, c.time, c.warm, c.leases = 1, c.time/7, c.warm/20, c.leases/10
	if c.kind == "held" {
		c.time *= 2 // a renewal comes after 3.3 s
	}
	return c.kind != "crowd" || c.processes <= crowdLevels[1]
}

// lead is how long everybody waits in a crowd, from the start of a turn until it counts.
func (c cell) lead() time.Duration {
	return c.time/4 + 100*time.Millisecond + time.Duration(c.processes)*6*time.Millisecond
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
	return c.lead() + 2*c.time + 4*c.warm + time.Minute + time.Duration(c.leases)*time.Millisecond + time.Duration(c.processes)*100*time.Millisecond
}
