package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

// grace is how long to wait for cycles that are still under way after the time d: some never return. What it cuts short
// counts as an error, so that it must be enough for 4096 goroutines to have one turn each on a slow machine.
func grace(d time.Duration) time.Duration { return max(3*d, 10*time.Second) }

// free has every goroutine acquire and release a lock of its own.
func free(ctx context.Context, l *locker, j job, _ *board, start func() error) (outcome, error) {
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

// held acquires many locks, holds them for a time, in which they are renewed, and releases them.
func held(ctx context.Context, l *locker, j job, _ *board, start func() error) (outcome, error) {
	ready, err := readied(ctx, l, j) // connections do not count as part of leases
	if err != nil {
		return outcome{}, err
	}
	var o outcome
	if err := hold(ctx, ready, listened); err != nil {
		return o, err
	}
	names := make([]string, j.Leases)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", j.Names, i)
	}
	leases := make([]lease, j.Leases)
	if err := start(); err != nil {
		return o, err
	}
	before := measure.MemoryInUse()
	read := meter()
	began := time.Now()
	var mu sync.Mutex // guards o
	inParallel(j, func(i int) {
		taken := l.lock(names[i]).(lease)
		for err := taken.acquire(ctx); err != nil; err = taken.acquire(ctx) { // the machine may be busy with renewals
			mu.Lock()
			o.fail(err)
			mu.Unlock()
		}
		leases[i] = taken
	})
	for until := time.Now().Add(j.For); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		o.Goroutines = max(o.Goroutines, runtime.NumGoroutine())
	}
	after := measure.MemoryInUse()
	n := float64(j.Leases)
	o.LeaseHeap = (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / n
	o.LeaseStack = max(float64(after.StackInuse)-float64(before.StackInuse), 0) / n // the warm-up's may be gone
	inParallel(j, func(i int) {
		gone := leases[i].lost()
		err := leases[i].release()
		if gone || err != nil {
			mu.Lock()
			defer mu.Unlock()
			o.Lost++
		}
	})
	o.Cycles, o.Took = j.Leases, time.Since(began)
	read(&o)
	runtime.KeepAlive(names)
	return o, nil
}

// readied returns a lock for each of the job's goroutines, which have used it for a while.
func readied(ctx context.Context, l *locker, j job) ([]lock, error) {
	ready := make([]lock, j.Goroutines)
	for g := range ready {
		ready[g] = l.lock(fmt.Sprintf("%s-ready-%d", j.Names, g))
	}
	if o := spin(ctx, ready, 200*time.Millisecond, false); o.Errors > 0 {
		return nil, errors.New(o.Error)
	}
	return ready, nil
}

// listened is how long a lock is held when every connection is there: Holdfast makes one for notices after a second.
const listened = 1500 * time.Millisecond

// hold acquires locks and releases them after d.
func hold(ctx context.Context, locks []lock, d time.Duration) error {
	for _, l := range locks {
		if err := l.acquire(ctx); err != nil {
			return err
		}
	}
	time.Sleep(d)
	for _, l := range locks {
		if err := l.release(); err != nil {
			return err
		}
	}
	return nil
}

// inParallel calls f for each lease, from the job's goroutines.
func inParallel(j job, f func(i int)) {
	_ = measure.InParallel(j.Goroutines, j.Leases, func(i int) error { f(i); return nil })
}
