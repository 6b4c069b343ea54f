package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// held takes many locks, has them renewed for a time, and releases them.
func held(ctx context.Context, l locker, j job, _ *board, start func() error) (outcome, error) {
	ready := make([]lock, j.Goroutines)
	for g := range ready {
		ready[g] = l.lock(fmt.Sprintf("%s-ready-%d", j.Names, g))
	}
	o := spin(ctx, ready, 200*time.Millisecond, false) // connections are no part of leases
	if o.Errors > 0 {
		return o, errors.New(o.Error)
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
	before := memory()
	read := meter()
	began := time.Now()
	var mu sync.Mutex // guards o
	inParallel(j, func(i int) {
		taken := l.lock(names[i]).(lease)
		for err := taken.acquire(ctx); err != nil; err = taken.acquire(ctx) { // renewals may be all that the machine can do
			mu.Lock()
			o.fail(err)
			mu.Unlock()
		}
		leases[i] = taken
	})
	for until := time.Now().Add(j.For); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		o.Goroutines = max(o.Goroutines, runtime.NumGoroutine())
	}
	after := memory()
	n := float64(j.Leases)
	o.LeaseHeap = (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / n
	o.LeaseStack = max(float64(after.StackInuse)-float64(before.StackInuse), 0) / n // those of the warm-up may be gone
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

// inParallel calls f for each of the leases, by the job's goroutines.
func inParallel(j job, f func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range j.Goroutines {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < j.Leases; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	all.Wait()
}

// memory is what is in use once garbage is collected.
func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go
	runtime.ReadMemStats(&m)
	return m
}
