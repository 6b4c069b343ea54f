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

// held acquires many locks, holds them for a time, in which they are renewed, and releases them.
func held(ctx context.Context, l locker, j job, _ *board, start func() error) (outcome, error) {
	ready := make([]lock, j.Goroutines)
	for g := range ready {
		ready[g] = l.lock(fmt.Sprintf("%s-ready-%d", j.Names, g))
	}
	o := spin(ctx, ready, 200*time.Millisecond, false) // connections do not count as part of leases
	if o.Errors > 0 {
		return o, errors.New(o.Error)
	}
	if err := hold(ctx, ready, listened); err != nil {
		return o, err
	}
	o = outcome{}
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
