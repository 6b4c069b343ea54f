package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// contended has all goroutines want one lock, until the turn is over for the first process
// that finds so. It is also the workload of one, where there is a single process, and
// nobody holds the lock for any time.
func contended(ctx context.Context, l locker, j job, b *board, start func() error) (outcome, error) {
	var o outcome
	if err := cycle(ctx, l.lock(fmt.Sprintf("%s-ready-%d", j.Names, j.Process))); err != nil {
		return o, err
	}
	r := &rivalry{job: j, board: b}
	locks := make([]lock, j.Goroutines)
	for g := range locks {
		locks[g] = l.lock(j.Names)
	}
	if err := start(); err != nil {
		return o, err
	}
	read := meter()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(j.For, func() {
		b.over.Store(1) // before anything is cancelled
		cancel()
	}).Stop()
	began := time.Now()
	var all sync.WaitGroup
	for _, l := range locks {
		all.Go(func() {
			n, err := r.compete(ctx, l)
			r.note(n, err)
		})
	}
	<-ctx.Done()
	r.outcome.Took = time.Since(began)
	all.Wait()
	read(&r.outcome)
	return r.outcome, nil
}

// rivalry is what the goroutines of a process have in common.
type rivalry struct {
	job   job
	board *board

	mu      sync.Mutex
	outcome outcome
}

// compete takes the lock again and again until ctx ends, and returns how often it got it.
func (r *rivalry) compete(ctx context.Context, l lock) (cycles int, err error) {
	for {
		if r.job.Think > 0 {
			time.Sleep(rand.N(r.job.Think))
		}
		if ctx.Err() != nil {
			return cycles, nil
		}
		asked := time.Now()
		r.board.waiting.Add(1)
		err := l.acquire(ctx)
		r.board.waiting.Add(-1)
		if err != nil {
			// Whoever got nothing until the end has waited, too.
			r.sample(time.Since(asked), 0, false)
			if ctx.Err() != nil {
				return cycles, nil
			}
			return cycles, err
		}
		handover, passed := r.board.enter()
		wait := time.Since(asked)
		if r.job.Hold > 0 {
			time.Sleep(r.job.Hold)
		}
		r.board.leave()
		over := ctx.Err() != nil
		if err := l.release(); err != nil && !over {
			return cycles, err
		}
		r.sample(wait, handover, passed)
		if over {
			return cycles, nil
		}
		cycles++
	}
}

func (r *rivalry) sample(wait, handover time.Duration, passed bool) {
	if r.job.Kind == "one" { // too many, and only the rate counts
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &r.outcome
	o.Waits = append(o.Waits, wait)
	if passed {
		o.Handovers = append(o.Handovers, handover)
	}
}

func (r *rivalry) note(cycles int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome.Cycles += cycles
	r.outcome.Grants = append(r.outcome.Grants, cycles)
	if err != nil {
		r.outcome.fail(err)
	}
}
