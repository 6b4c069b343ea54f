package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// grace is for how long an acquire that is still under way after the time d is waited for:
// some never return.
func grace(d time.Duration) time.Duration { return max(3*d, time.Second) }

// free has every goroutine take and release a lock of its own.
func free(ctx context.Context, l locker, j job, _ *board, start func() error) (outcome, error) {
	locks := make([]lock, j.Goroutines)
	for g := range locks {
		locks[g] = l.lock(fmt.Sprintf("%s-%d", j.Names, g))
	}
	var o outcome
	spin(ctx, locks, j.For/4, false) // connections, scripts, stacks
	timed := j.Goroutines == 1 || j.Kind == "far"
	if err := start(); err != nil {
		return o, err
	}
	read := meter()
	o = spin(ctx, locks, j.For, timed)
	read(&o)
	return o, nil
}

// spin has a goroutine for each lock take and release it for the time d. Goroutines that
// failed do not go on. Where timed is true, how long each cycle took is noted.
func spin(ctx context.Context, locks []lock, d time.Duration, timed bool) outcome {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var stop atomic.Bool
	began := time.Now()
	defer time.AfterFunc(d, func() { stop.Store(true) }).Stop()
	defer time.AfterFunc(d+grace(d), cancel).Stop()

	var o outcome
	var mu sync.Mutex // guards o
	var all sync.WaitGroup
	for _, l := range locks {
		all.Go(func() {
			cycles := 0
			var latencies []time.Duration
			if timed {
				latencies = make([]time.Duration, 0, 1<<20/len(locks))
			}
			var failed error
			for !stop.Load() && failed == nil {
				var asked time.Time
				if timed {
					asked = time.Now()
				}
				if failed = cycle(ctx, l); failed != nil {
					break
				}
				if cycles++; timed {
					latencies = append(latencies, time.Since(asked))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			o.Cycles += cycles
			o.Latencies = append(o.Latencies, latencies...)
			if failed != nil {
				o.fail(failed)
				return
			}
			o.Took = time.Since(began)
		})
	}
	all.Wait()
	o.Took = max(o.Took, d)
	return o
}

func cycle(ctx context.Context, l lock) error {
	if err := l.acquire(ctx); err != nil {
		return err
	}
	return l.release()
}
