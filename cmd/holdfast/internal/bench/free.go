package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Free is what locks cost that nobody else wants.
type Free struct {
	Goroutines int   `json:"goroutines"`
	Rounds     int   `json:"rounds"`
	Turn       int64 `json:"turn_ms"`
	Holdfast   Cycle `json:"holdfast"`
	Bare       Cycle `json:"bare"`
	// Ratios are of Holdfast over the bare commands.
	Ratios CycleRatios `json:"ratios"`
}

// Cycle is lock and unlock: medians of the rounds.
type Cycle struct {
	Rate   Number `json:"cycles_per_s"`
	P50    Number `json:"p50_us"`
	P99    Number `json:"p99_us"`
	Server Number `json:"server_cpu_us"` // of a cycle
	Client Number `json:"client_cpu_us"`
	Lost   int    `json:"lost"` // leases, which nobody should have taken; of all rounds
}

// CycleRatios are those of each figure.
type CycleRatios struct {
	Rate   Ratio `json:"cycles_per_s"`
	P50    Ratio `json:"p50"`
	P99    Ratio `json:"p99"`
	Server Ratio `json:"server_cpu"`
	Client Ratio `json:"client_cpu"`
}

// free measures all levels in each round, at each both ways one right after the other.
func (b *bench) free(ctx context.Context) error {
	ways := b.ways(b.sites[0])
	locks := map[string][]acquire{}
	for _, w := range ways {
		for g := range slices.Max(b.cfg.Levels) {
			locks[w.name] = append(locks[w.name], w.locks(b.name(fmt.Sprintf("free-%s-%d", w.name, g))))
		}
	}
	rounds := make([]map[string][]Cycle, len(b.cfg.Levels))
	for level := range rounds {
		rounds[level] = map[string][]Cycle{}
	}
	defer func() { b.report.Free = b.sumFree(rounds) }()
	for round := range b.plan.freeRounds {
		for level, n := range b.cfg.Levels {
			b.progress("free, %s: round %d of %d", plural(n, "goroutine"), round+1, b.plan.freeRounds)
			pair := map[string]Cycle{}
			for _, w := range rotated(ways, round) {
				c, err := b.spinning(ctx, locks[w.name][:n])
				if err != nil {
					return err
				}
				pair[w.name] = c
			}
			for name, c := range pair { // one without the other is none
				rounds[level][name] = append(rounds[level][name], c)
			}
		}
	}
	return nil
}

// spinning is a turn: it warms up, and measures.
func (b *bench) spinning(ctx context.Context, locks []acquire) (Cycle, error) {
	if _, err := spin(ctx, locks, b.plan.free/5); err != nil { // connections, scripts, stacks
		return Cycle{}, err
	}
	before := b.meter(ctx)
	o, err := spin(ctx, locks, b.plan.free*4/5)
	if err != nil {
		return Cycle{}, err
	}
	server, client := b.meter(ctx).since(before)
	c := Cycle{Lost: o.lost, Server: per(server, len(o.latencies)), Client: per(client, len(o.latencies))}
	c.Rate = Number(float64(len(o.latencies)) / o.took.Seconds())
	c.P50, c.P99 = quantiles(o.latencies)
	return c, ctx.Err()
}

// spun is what came of spin.
type spun struct {
	latencies []time.Duration // of all cycles
	took      time.Duration   // until the last goroutine was done
	lost      int
}

// spin has a goroutine for each lock take and release it for the time d, once at least, or
// until ctx or one of them ends with an error.
func spin(ctx context.Context, locks []acquire, d time.Duration) (spun, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var stop atomic.Bool
	began := time.Now()
	defer time.AfterFunc(d, func() { stop.Store(true) }).Stop()
	var o spun
	var mu sync.Mutex // guards o
	var all sync.WaitGroup
	for _, take := range locks {
		all.Go(func() {
			var latencies []time.Duration
			gone := 0
			for first := true; (first || !stop.Load()) && ctx.Err() == nil; first = false {
				asked := time.Now()
				err := cycle(ctx, take)
				if lost(err) {
					gone++
					continue
				}
				if err != nil {
					cancel(err)
					break
				}
				latencies = append(latencies, time.Since(asked))
			}
			mu.Lock()
			defer mu.Unlock()
			o.latencies, o.lost = append(o.latencies, latencies...), o.lost+gone
		})
	}
	all.Wait()
	o.took = time.Since(began)
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	return o, nil
}

// sumFree makes one of the rounds at each level.
func (b *bench) sumFree(rounds []map[string][]Cycle) (all []Free) {
	for level, n := range b.cfg.Levels {
		mine, bare := rounds[level][ours], rounds[level][floor]
		if len(mine) == 0 {
			continue
		}
		over := func(figure func(Cycle) Number) Ratio { return ratio(column(mine, figure), column(bare, figure)) }
		all = append(all, Free{
			Goroutines: n,
			Rounds:     len(mine),
			Turn:       b.plan.free.Milliseconds(),
			Holdfast:   sumCycles(mine),
			Bare:       sumCycles(bare),
			Ratios: CycleRatios{
				Rate:   over(func(c Cycle) Number { return c.Rate }),
				P50:    over(func(c Cycle) Number { return c.P50 }),
				P99:    over(func(c Cycle) Number { return c.P99 }),
				Server: over(func(c Cycle) Number { return c.Server }),
				Client: over(func(c Cycle) Number { return c.Client }),
			},
		})
	}
	return all
}

// column has one figure of all rounds.
func column[T any](rounds []T, figure func(T) Number) (values []Number) {
	for _, r := range rounds {
		values = append(values, figure(r))
	}
	return values
}

func sumCycles(rounds []Cycle) Cycle {
	over := func(figure func(Cycle) Number) Number { return median(column(rounds, figure)) }
	sum := Cycle{
		Rate:   over(func(c Cycle) Number { return c.Rate }),
		P50:    over(func(c Cycle) Number { return c.P50 }),
		P99:    over(func(c Cycle) Number { return c.P99 }),
		Server: over(func(c Cycle) Number { return c.Server }),
		Client: over(func(c Cycle) Number { return c.Client }),
	}
	for _, r := range rounds {
		sum.Lost += r.Lost
	}
	return sum
}
