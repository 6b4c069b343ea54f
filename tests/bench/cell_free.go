package main

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

// grace is how long to wait for cycles that are still under way after the time d: some never return. What it cuts short
// counts as an error, so that it must be enough for 4096 goroutines to have one turn each on a slow machine.
func grace(d time.Duration) time.Duration { return max(3*d, 10*time.Second) }

// free has every goroutine acquire and release a lock of its own.
func free(ctx context.Context, l locker, j job, _ *board, start func() error) (outcome, error) {
	locks := make([]lock, j.Goroutines)
	for g := range locks {
		locks[g] = l.lock(fmt.Sprintf("%s-%d", j.Names, g))
	}
	var o outcome
	spin(ctx, locks, j.For/4, false) // connects, loads scripts, grows stacks
	timed := j.Goroutines == 1 || j.Kind == "far"
	if err := start(); err != nil {
		return o, err
	}
	read := meter()
	o = spin(ctx, locks, j.For, timed)
	read(&o)
	return o, nil
}

// spin has a goroutine for each lock acquire and release it for the time d, or until it fails. timed says whether to
// record how long each cycle took.
func spin(ctx context.Context, locks []lock, d time.Duration, timed bool) (o outcome) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(d+grace(d), cancel).Stop()
	cycles := make([]func() (bool, error), len(locks))
	for i, l := range locks {
		cycles[i] = func() (bool, error) {
			err := cycle(ctx, l)
			return err == nil, err
		}
	}
	spun := measure.Spin(d, timed, cycles)
	o.Cycles, o.Latencies, o.Took = spun.Cycles, spun.Latencies, max(spun.Took, d)
	for _, err := range spun.Errs {
		o.fail(err)
	}
	return o
}

func cycle(ctx context.Context, l lock) error {
	if err := l.acquire(ctx); err != nil {
		return err
	}
	return l.release()
}
