package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

// levels are the numbers of goroutines in the experiment free.
var levels = []int{1, 8, 64, 512}

var freeFigures = []figure{
	{"cycles_per_s", "cycles/s", measure.Figure, measure.Median[float64], true},
	{"p50_us", "p50", duration, measure.Median[float64], true},
	{"p99_us", "p99", duration, measure.Median[float64], true},
	{"server_cpu_us", "server CPU per cycle", duration, measure.Median[float64], true},
	{"client_cpu_us", "client CPU per cycle", duration, measure.Median[float64], true},
	lost, // although no other goroutine wanted the lock
}

// free is the experiment in which each goroutine has a lock of its own. Every round has a turn for each level and way.
func (b *bench) free(ctx context.Context) error {
	rounds, turn := split(b.time*45/100, 2*len(levels), 400*time.Millisecond, 5)
	var locks [2][]acquire // by way: one for each goroutine of the highest level
	for way, lock := range b.clients[0].ways {
		for n := range slices.Max(levels) {
			locks[way] = append(locks[way], lock(b.name(fmt.Sprintf("free-%s-%d", wayNames[way], n))))
		}
	}
	var results []*result
	for _, n := range levels {
		results = append(results, &result{
			Experiment: "free", Goroutines: n, Millis: turn.Milliseconds(), about: "each locks and unlocks a name of its own", figures: freeFigures,
		})
	}
	return b.compare(rounds, results, func(i, way int) (values, error) { return b.freeTurn(ctx, locks[way][:levels[i]], turn) })
}

func (b *bench) freeTurn(ctx context.Context, locks []acquire, d time.Duration) (values, error) {
	if _, _, err := spin(ctx, locks, d/5); err != nil { // connects, loads scripts, grows stacks
		return nil, err
	}
	before := b.cpu(ctx)
	spun, losses, err := spin(ctx, locks, d*4/5)
	v := values{lost.key: float64(losses)}
	if err != nil {
		return v, err
	}
	v.setCPU(before, b.cpu(ctx), float64(spun.Cycles))
	v.set("cycles_per_s", float64(spun.Cycles)/spun.Took.Seconds())
	v.setTimes("p50_us", "p99_us", spun.Latencies)
	return v, nil
}

// spin starts a goroutine for each lock, which acquires and releases it until d has passed, and counts lost leases. The first other
// error ends all goroutines and is returned.
func spin(ctx context.Context, locks []acquire, d time.Duration) (spun measure.Spun, losses int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var lost atomic.Int64
	cycles := make([]func() (bool, error), len(locks))
	for i, take := range locks {
		cycles[i] = func() (bool, error) {
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			err := cycle(ctx, take)
			if isLoss(err) {
				lost.Add(1)
				return false, nil
			}
			if err != nil {
				cancel(err)
			}
			return true, err
		}
	}
	spun = measure.Spin(d, true, cycles)
	return spun, lost.Load(), context.Cause(ctx)
}
