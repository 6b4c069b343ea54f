package main

import (
	"fmt"
	"time"
)

// cell is one thing that is measured, for all contestants.
type cell struct {
	name      string
	rounds    int
	processes int
	roundTrip time.Duration // to the server and back, besides the time that this machine takes

	// What each process does.
	Kind       string
	Goroutines int
	Readers    int           // of the goroutines, in read and readwrite; the others are writers
	Leases     int           // of held and of memory
	For        time.Duration // unless the process is told to stop
	Hold       time.Duration // of each cycle
	Think      time.Duration // at most, before each cycle
	Warm       time.Duration // processor time to use before the first turn, for a process that has all turns
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
		all = append(all, cell{Kind: "free", name: freeCell(n), rounds: rounds, processes: 1, Goroutines: n, For: short})
	}
	for _, trip := range roundTrips {
		for _, n := range farLevels {
			all = append(all, cell{Kind: "far", name: farCell(trip, n), rounds: 3, processes: 1, Goroutines: n, roundTrip: trip, For: short})
		}
	}
	// Without a time to hold, locks that let in again the goroutine that has just left would win.
	all = append(all,
		cell{Kind: "contended", name: "contended", rounds: 3, processes: 8, Goroutines: 16, For: long, Hold: time.Millisecond, Think: 10 * time.Millisecond},
		cell{Kind: "one", name: "one", rounds: 5, processes: 1, Goroutines: 64, For: short},
		cell{Kind: "observed", name: observedCell, rounds: 10, processes: 1, Goroutines: 64, For: short},
		cell{Kind: "held", name: "held", rounds: 1, processes: 1, Goroutines: 64, Leases: 10_000, For: 12 * time.Second},
		cell{Kind: "read", name: readCell(1), rounds: 5, processes: 1, Goroutines: 64, Readers: 64, For: short},
		cell{Kind: "read", name: readCell(8), rounds: 5, processes: 8, Goroutines: 8, Readers: 8, For: short},
		cell{Kind: "readwrite", name: "readwrite", rounds: 3, processes: 8, Goroutines: 16, Readers: 14, For: long, Hold: time.Millisecond, Think: 10 * time.Millisecond},
		cell{Kind: "quorum", name: quorumCell(1), rounds: 5, processes: 1, Goroutines: 1, For: short},
		cell{Kind: "quorum", name: quorumCell(64), rounds: 5, processes: 1, Goroutines: 64, For: short},
		cell{Kind: "cluster", name: clusterCell, rounds: 5, processes: 1, Goroutines: 512, For: short},
	)
	for _, n := range crowdLevels {
		all = append(all, cell{Kind: "crowd", name: crowdCell(n), rounds: 3, processes: n, Goroutines: 1, For: 2 * time.Second})
	}
	all = append(all,
		cell{Kind: "memory", name: "memory", rounds: 1, processes: 1, Goroutines: 64, Leases: 10_000},
		cell{Kind: "queue", name: "queue", rounds: 3, processes: 1, Goroutines: 1, For: 4 * time.Second})
	for i := range all {
		all[i].Warm = 10 * time.Second
	}
	return all
}

// hurry makes the cell smaller, for -quick. It returns false if -quick leaves the cell out.
func (c *cell) hurry() bool {
	c.rounds, c.For, c.Warm, c.Leases = 1, c.For/7, c.Warm/20, c.Leases/10
	if c.Kind == "held" {
		c.For *= 2 // a renewal comes after 3.3 s
	}
	return c.Kind != "crowd" || c.processes <= crowdLevels[1]
}

// lead is how long everybody waits in a crowd, from the start of a turn until it counts.
func (c cell) lead() time.Duration {
	return c.For/4 + 100*time.Millisecond + time.Duration(c.processes)*6*time.Millisecond
}

// merged returns the cell with all goroutines in one process.
func (c cell) merged() cell {
	c.Goroutines, c.Readers, c.processes = c.Goroutines*c.processes, c.Readers*c.processes, 1
	return c
}

func (c cell) job(of contestant, process int) job {
	if c.Kind == "crowd" {
		c.For = c.limit()
	}
	return job{cell: c, Contestant: of.builtIn(), Process: process}
}

// limit is how long a turn may take on a machine that stalls.
func (c cell) limit() time.Duration {
	return c.lead() + 2*c.For + 4*c.Warm + time.Minute + time.Duration(c.Leases)*time.Millisecond + time.Duration(c.processes)*100*time.Millisecond
}
