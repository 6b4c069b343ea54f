package bench

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/measure"
)

// Free is what locks cost that nobody else wants.
type Free struct {
	Goroutines int         `json:"goroutines"`
	Rounds     int         `json:"rounds"`
	Turn       int64       `json:"turn_ms"`
	Holdfast   Cycle       `json:"holdfast"`
	Bare       Cycle       `json:"bare"`
	Ratios     CycleRatios `json:"ratios"` // of Holdfast to the bare commands
}

// Cycle is what it costs to acquire and release once. Its figures are medians over the rounds.
type Cycle struct {
	Rate   Number `json:"cycles_per_s"`
	P50    Number `json:"p50_us"`
	P99    Number `json:"p99_us"`
	Server Number `json:"server_cpu_us"`
	Client Number `json:"client_cpu_us"`
	Lost   int    `json:"lost"` // leases lost in all rounds, though nobody else wanted them
}

// CycleRatios are the ratios of Cycle's figures.
type CycleRatios struct {
	Rate   Ratio `json:"cycles_per_s"`
	P50    Ratio `json:"p50"`
	P99    Ratio `json:"p99"`
	Server Ratio `json:"server_cpu"`
	Client Ratio `json:"client_cpu"`
}

var cycleColumns = []column[Cycle, CycleRatios]{
	{func(c *Cycle) *Number { return &c.Rate }, func(r *CycleRatios) *Ratio { return &r.Rate }},
	{func(c *Cycle) *Number { return &c.P50 }, func(r *CycleRatios) *Ratio { return &r.P50 }},
	{func(c *Cycle) *Number { return &c.P99 }, func(r *CycleRatios) *Ratio { return &r.P99 }},
	{func(c *Cycle) *Number { return &c.Server }, func(r *CycleRatios) *Ratio { return &r.Server }},
	{func(c *Cycle) *Number { return &c.Client }, func(r *CycleRatios) *Ratio { return &r.Client }},
}

// free is the experiment in which each goroutine has a lock to itself.
type free struct {
	*rig
	plan  plan
	locks [2][]acquire // of each way, as many as the highest level has goroutines
}

func newFree(g *rig, p plan) *free {
	f := &free{rig: g, plan: p}
	for way, lock := range g.clients[0].ways {
		for n := range slices.Max(p.levels) {
			f.locks[way] = append(f.locks[way], lock(g.names.add(fmt.Sprintf("free-%s-%d", wayNames[way], n))))
		}
	}
	return f
}

// run has turns of all levels in every round.
func (f *free) run(ctx context.Context, r *Report) error {
	rounds := make([][][2]Cycle, len(f.plan.levels))
	defer func() { r.Free = f.sumUp(rounds) }()
	for round := range f.plan.freeRounds {
		for level, n := range f.plan.levels {
			f.progress("free, %s: round %d of %d", plural(n, "goroutine"), round+1, f.plan.freeRounds)
			turns, err := takeTurns(round, func(way int) (Cycle, error) { return f.turn(ctx, f.locks[way][:n]) })
			if err != nil {
				return err
			}
			rounds[level] = append(rounds[level], turns)
		}
	}
	return nil
}

func (f *free) turn(ctx context.Context, locks []acquire) (Cycle, error) {
	if _, _, err := spin(ctx, locks, f.plan.freeTurn/5); err != nil { // connects, loads scripts, grows stacks
		return Cycle{}, err
	}
	before := f.cpu.reading(ctx)
	spun, lost, err := spin(ctx, locks, f.plan.freeTurn*4/5)
	if err != nil {
		return Cycle{}, err
	}
	server, client := f.cpu.reading(ctx).since(before)
	c := Cycle{Lost: lost, Server: per(server, spun.Cycles), Client: per(client, spun.Cycles)}
	c.Rate = Number(float64(spun.Cycles) / spun.Took.Seconds())
	c.P50, c.P99 = quantiles(spun.Latencies)
	return c, ctx.Err()
}

// spin has a goroutine for each lock acquire and release it for the time d, and counts lost leases. All goroutines end
// with the first other error, which it returns.
func spin(ctx context.Context, locks []acquire, d time.Duration) (spun measure.Spun, lost int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var losses atomic.Int64
	cycles := make([]func() (bool, error), len(locks))
	for i, take := range locks {
		cycles[i] = func() (bool, error) {
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			err := cycle(ctx, take)
			if isLoss(err) {
				losses.Add(1)
				return false, nil
			}
			if err != nil {
				cancel(err)
			}
			return true, err
		}
	}
	spun = measure.Spin(d, true, cycles)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return spun, int(losses.Load()), err
}

func (f *free) sumUp(rounds [][][2]Cycle) (all []Free) {
	for level, n := range f.plan.levels {
		if len(rounds[level]) == 0 {
			continue
		}
		sums, ratios := sumUp(cycleColumns, rounds[level])
		for _, round := range rounds[level] {
			for way, c := range round {
				sums[way].Lost += c.Lost
			}
		}
		all = append(all, Free{
			Goroutines: n,
			Rounds:     len(rounds[level]),
			Turn:       f.plan.freeTurn.Milliseconds(),
			Holdfast:   sums[ours],
			Bare:       sums[floor],
			Ratios:     ratios,
		})
	}
	return all
}
