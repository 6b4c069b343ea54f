package main

import "time"

// job is what a contestant's process does in one turn.
type job struct {
	Contestant string
	Kind       string   // of the cell
	Addrs      []string // the servers'
	Board      string   // a file; see board
	Names      string   // begins the name of every lock of this turn
	Process    int
	Goroutines int
	Readers    int // of the goroutines, in read and readwrite; the others are writers
	For        time.Duration
	Hold       time.Duration // of each cycle
	Think      time.Duration // at most, before each cycle
	Warm       time.Duration // processor time to use before the first turn, for a process that has all turns
	Leases     int           // of held
}

// outcome is what a process measured between "go" and the last release. Times are in nanoseconds.
type outcome struct {
	Cycles  int           // acquires and releases
	Written int           // the cycles of writers in readwrite
	Took    time.Duration // until the last goroutine that did not fail had ended
	CPU     time.Duration // of the process, user and system
	Mallocs uint64        // allocations of the process

	Latencies []time.Duration `json:",omitempty"` // of the cycles, with one goroutine or a far server
	Handovers []time.Duration `json:",omitempty"` // from the call of release, in any process, to the next holder's first step, in this one
	Waits     []time.Duration `json:",omitempty"` // from the call of acquire to its return or the end of the turn; without writers
	Writers   []time.Duration `json:",omitempty"` // the same for writers, in readwrite
	Grants    []int           `json:",omitempty"` // of each goroutine

	Lost       int     // leases that were lost
	Goroutines int     // the most while the leases were held
	LeaseHeap  float64 // bytes of heap for each lease
	LeaseStack float64 // bytes of stacks for each lease

	Figures figures `json:",omitempty"` // that the process computed itself

	Errors int
	Error  string // one of them
}

func (o *outcome) fail(err error) {
	o.Errors++
	o.Error = err.Error()
}
