package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

// contended has all goroutines compete for one lock, until the first process finds that the turn is over. It is also the
// workload of the cell one, with a single process and holds of no time, and of read and readwrite, where goroutines are
// readers or writers.
func contended(ctx context.Context, l *locker, j job, b *board, start func() error) (outcome, error) {
	var o outcome
	if err := cycle(ctx, side(l, j, fmt.Sprintf("%s-ready-%d", j.Names, j.Process), 0)); err != nil {
		return o, err
	}
	r := &rivalry{job: j, board: b}
	locks := make([]lock, j.Goroutines)
	for g := range locks {
		locks[g] = side(l, j, j.Names, g)
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
	for g, l := range locks {
		all.Go(func() {
			n, err := r.compete(ctx, l, g < j.Readers)
			r.note(n, g < j.Readers, err)
		})
	}
	<-ctx.Done()
	r.outcome.Took = time.Since(began)
	all.Wait()
	read(&r.outcome)
	return r.outcome, nil
}

// side returns a goroutine's handle of a lock: a mutex, or a side of a read-write lock.
func side(l *locker, j job, name string, goroutine int) lock {
	switch {
	case j.Readers == 0:
		return l.lock(name)
	case goroutine < j.Readers:
		return l.reader(name)
	default:
		return l.writer(name)
	}
}

// rivalry is what the goroutines of a process share.
type rivalry struct {
	job   job
	board *board

	mu      sync.Mutex
	outcome outcome
}

// compete acquires and releases the lock until ctx ends, and returns how often it did.
func (r *rivalry) compete(ctx context.Context, l lock, reads bool) (cycles int, err error) {
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
			// A wait that the end cut short is a wait, too.
			r.sample(time.Since(asked), 0, false, reads)
			if ctx.Err() != nil {
				return cycles, nil
			}
			return cycles, err
		}
		handover, passed := r.board.enter(reads)
		wait := time.Since(asked)
		if r.job.Hold > 0 {
			time.Sleep(r.job.Hold)
		}
		r.board.leave(reads)
		over := ctx.Err() != nil
		if err := l.release(); err != nil && !over {
			return cycles, err
		}
		r.sample(wait, handover, passed, reads)
		if over {
			return cycles, nil
		}
		cycles++
	}
}

func (r *rivalry) sample(wait, handover time.Duration, passed, reads bool) {
	if r.job.Hold == 0 { // there are too many samples, and only the rate matters
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &r.outcome
	if r.job.Readers > 0 && !reads {
		o.Writers = append(o.Writers, wait)
	} else {
		o.Waits = append(o.Waits, wait)
	}
	if passed {
		o.Handovers = append(o.Handovers, handover)
	}
}

func (r *rivalry) note(cycles int, reads bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome.Cycles += cycles
	if r.job.Readers > 0 && !reads {
		r.outcome.Written += cycles
	}
	r.outcome.Grants = append(r.outcome.Grants, cycles)
	if err != nil {
		r.outcome.fail(err)
	}
}

// startsAtOnce is how many processes of a turn may be started before the first of them is ready: hundreds that start
// together take so long that clients give up.
const startsAtOnce = 16

// watchCrowd lets the processes of a crowd work, and tells them to stop. It measures neither how they come nor how they
// go: only the time in between, when all are there. It returns figures that replace those of the whole turn.
func watchCrowd(ctx context.Context, s servers, c contestant, of cell, b *board, workers []*worker) (figures, error) {
	if err := pause(ctx, of.lead()); err != nil {
		return nil, err
	}
	cycles := b.cycles.Load()
	cpu, sent, err := usage(s, c.sends)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := pause(ctx, of.For); err != nil {
		return nil, err
	}
	done := float64(b.cycles.Load() - cycles)
	cpuThen, sentThen, err := usage(s, c.sends)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	b.over.Store(1) // before anything is cancelled
	for _, w := range workers {
		if _, err := io.WriteString(w.in, "stop\n"); err != nil {
			return nil, err
		}
	}
	if done == 0 {
		return nil, fmt.Errorf("nobody had the lock in %v", took)
	}
	return figures{
		"rate":     done / took.Seconds(),
		"redis_us": measure.Micros(cpuThen-cpu) / done,
		"commands": float64(sentThen-sent) / done,
	}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
