package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

// startsAtOnce is how many processes of a turn may be started before the first of them is ready: hundreds that start
// together take so long that clients give up.
const startsAtOnce = 16

// watchCrowd lets the processes of a crowd work, and tells them to stop. It measures neither how they come nor how they
// go: only the time in between, when all are there. It returns figures that replace those of the whole turn.
func watchCrowd(ctx context.Context, s servers, c contestant, of cell, b *board, workers []*worker) (figures, error) {
	if err := pause(ctx, of.lead); err != nil {
		return nil, err
	}
	before, err := readCrowd(s, c, b)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := pause(ctx, of.time); err != nil {
		return nil, err
	}
	after, err := readCrowd(s, c, b)
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
	return after.since(before, took)
}

// crowdReading is what has happened so far.
type crowdReading struct {
	cycles int64
	cpu    time.Duration // of Redis
	sent   int64         // commands
}

func readCrowd(s servers, c contestant, b *board) (r crowdReading, err error) {
	r.cycles = b.cycles.Load()
	r.cpu, r.sent, err = usage(s, c.sends)
	return r, err
}

func (r crowdReading) since(before crowdReading, took time.Duration) (figures, error) {
	cycles := float64(r.cycles - before.cycles)
	if cycles == 0 {
		return nil, fmt.Errorf("nobody had the lock in %v", took)
	}
	return figures{
		"rate":     cycles / took.Seconds(),
		"redis_us": measure.Micros(r.cpu-before.cpu) / cycles,
		"commands": float64(r.sent-before.sent) / cycles,
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
