// Package measure is what the two benches of Holdfast have in common: cmd/holdfast/bench, and tests/bench, which
// compares libraries. It measures and computes, and knows no lock and no server. It is not part of Holdfast's API.
package measure

import (
	_ "embed"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// CompareAndDelete is the script with which users of SET NX PX release a lock. KEYS has the lock, ARGV its token.
//
//go:embed lua/compare_and_delete.lua
var CompareAndDelete string

// Spun is the result of Spin.
type Spun struct {
	Cycles    int
	Latencies []time.Duration // of all cycles that counted, in no order; nil if they were not timed
	Took      time.Duration   // until the last goroutine without an error was done
	Errs      []error         // at most one from each goroutine
}

// Spin runs each of the cycles in a goroutine of its own, over and over, until d has passed. Every cycle runs at least once. A goroutine
// whose cycle returns an error stops; the others go on. A cycle that returns false is not counted.
func Spin(d time.Duration, timed bool, cycles []func() (counts bool, err error)) Spun {
	var stop atomic.Bool
	began := time.Now()
	defer time.AfterFunc(d, func() { stop.Store(true) }).Stop()

	var all Spun
	var mu sync.Mutex // guards all
	var running sync.WaitGroup
	for _, cycle := range cycles {
		running.Go(func() {
			var latencies []time.Duration
			if timed {
				latencies = make([]time.Duration, 0, 1<<20/len(cycles)) // growing would show in the latencies
			}
			n, err := spin(&stop, cycle, &latencies)
			mu.Lock()
			defer mu.Unlock()
			all.Cycles += n
			all.Latencies = append(all.Latencies, latencies...)
			if err != nil {
				all.Errs = append(all.Errs, err)
				return
			}
			all.Took = time.Since(began)
		})
	}
	running.Wait()
	return all
}

// spin is one of Spin's goroutines. It appends to latencies unless that is nil.
func spin(stop *atomic.Bool, cycle func() (bool, error), latencies *[]time.Duration) (n int, err error) {
	timed := *latencies != nil
	for first := true; first || !stop.Load(); first = false {
		var asked time.Time
		if timed {
			asked = time.Now()
		}
		counts, err := cycle()
		if err != nil {
			return n, err
		}
		if !counts {
			continue
		}
		n++
		if timed {
			*latencies = append(*latencies, time.Since(asked))
		}
	}
	return n, nil
}

// InParallel calls f for 0 to n-1 from several goroutines. After an error it makes no more calls, and returns the first error.
func InParallel(goroutines, n int, f func(i int) error) error {
	var next atomic.Int64
	var failed error
	var once sync.Once
	var running sync.WaitGroup
	for range goroutines {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					once.Do(func() { failed = err })
					next.Store(int64(n))
					return
				}
			}
		})
	}
	running.Wait()
	return failed
}

// MemoryInUse collects garbage and returns what remains.
func MemoryInUse() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC() // for what finalizers and pools released
	runtime.ReadMemStats(&m)
	return m
}
