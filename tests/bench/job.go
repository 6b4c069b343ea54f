package main

import "time"

// job is what a process of a contestant has to do in one turn.
type job struct {
	Contestant string
	Kind       string   // of the cell
	Addrs      []string // the servers'
	Board      string   // a file: see board
	Names      string   // begins the name of every lock of this turn
	Process    int
	Goroutines int
	Readers    int // of the goroutines, in read and readwrite; the others are writers
	For        time.Duration
	Hold       time.Duration // of each cycle
	Think      time.Duration // at most, before each cycle
	Warm       time.Duration // processor time, before the first turn of a process that has them all
	Leases     int           // of held
}

// outcome is what a process has measured, between "go" and the last release. Times are
// nanoseconds.
type outcome struct {
	Cycles  int           // locked and unlocked
	Written int           // of them, writers' cycles in readwrite
	Took    time.Duration // until the last goroutine ended that did not fail
	CPU     time.Duration // of the process, user and system
	Mallocs uint64        // allocations of the process

	Latencies []time.Duration `json:",omitempty"` // of the cycles, of a lone goroutine or to a server that is far
	Handovers []time.Duration `json:",omitempty"` // from the call of release, by whatever process, to this one's running
	Waits     []time.Duration `json:",omitempty"` // from the call of acquire to its return, or to the end of the turn; not a writer's
	Writers   []time.Duration `json:",omitempty"` // the same of writers, in readwrite
	Grants    []int           `json:",omitempty"` // of each goroutine

	Lost       int     // leases that did not last
	Goroutines int     // at most, while the leases were held
	LeaseHeap  float64 // bytes of heap for each lease
	LeaseStack float64 // bytes of stacks for each lease

	Errors int
	Error  string // one of them
}

func (o *outcome) fail(err error) {
	o.Errors++
	o.Error = err.Error()
}
