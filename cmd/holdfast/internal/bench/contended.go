package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/measure"
)

// Contended is what one lock costs that everybody wants.
type Contended struct {
	Clients    int             `json:"clients"`
	Goroutines int             `json:"goroutines"` // of each client
	Hold       Number          `json:"hold_ms"`
	Think      Number          `json:"think_ms"` // at most, before each acquire
	Poll       Number          `json:"bare_poll_ms"`
	Rounds     int             `json:"rounds"`
	Turn       int64           `json:"turn_ms"`
	Holdfast   Rivals          `json:"holdfast"`
	Bare       Rivals          `json:"bare"`
	Ratios     ContendedRatios `json:"ratios"`
}

// Rivals is how one way served those who want the lock: medians over the rounds, but for counts, which are sums, and
// the longest wait of all rounds.
type Rivals struct {
	Rate       Number `json:"handovers_per_s"` // to a waiter
	P50        Number `json:"handover_p50_us"` // from the call of Release to the next holder's first step
	P99        Number `json:"handover_p99_us"`
	Between    int    `json:"handovers_between_clients"`
	BetweenP50 Number `json:"between_clients_p50_us"`
	BetweenP99 Number `json:"between_clients_p99_us"`
	Longest    Number `json:"longest_wait_ms"`
	Jain       Number `json:"jain"`          // over all goroutines
	Server     Number `json:"server_cpu_us"` // for a grant
	Client     Number `json:"client_cpu_us"`
	Overlaps   int    `json:"overlaps"`
	Lost       int    `json:"lost"`
}

// ContendedRatios are the ratios of Rivals' figures.
type ContendedRatios struct {
	Rate       Ratio `json:"handovers_per_s"`
	P50        Ratio `json:"handover_p50"`
	P99        Ratio `json:"handover_p99"`
	BetweenP50 Ratio `json:"between_clients_p50"`
	BetweenP99 Ratio `json:"between_clients_p99"`
	Server     Ratio `json:"server_cpu"`
	Client     Ratio `json:"client_cpu"`
}

var rivalColumns = []column[Rivals, ContendedRatios]{
	{func(r *Rivals) *Number { return &r.Rate }, func(q *ContendedRatios) *Ratio { return &q.Rate }},
	{func(r *Rivals) *Number { return &r.P50 }, func(q *ContendedRatios) *Ratio { return &q.P50 }},
	{func(r *Rivals) *Number { return &r.P99 }, func(q *ContendedRatios) *Ratio { return &q.P99 }},
	{func(r *Rivals) *Number { return &r.BetweenP50 }, func(q *ContendedRatios) *Ratio { return &q.BetweenP50 }},
	{func(r *Rivals) *Number { return &r.BetweenP99 }, func(q *ContendedRatios) *Ratio { return &q.BetweenP99 }},
	{func(r *Rivals) *Number { return &r.Jain }, nil},
	{func(r *Rivals) *Number { return &r.Server }, func(q *ContendedRatios) *Ratio { return &q.Server }},
	{func(r *Rivals) *Number { return &r.Client }, func(q *ContendedRatios) *Ratio { return &q.Client }},
}

// The rivals of contended. Without a time to hold, locks that let in again the goroutine that has just left would win.
const (
	contendedClients    = 4
	contendedGoroutines = 8 // of each client
	holdTime            = time.Millisecond
	thinkTime           = 10 * time.Millisecond // at most
)

// contended is the experiment in which goroutines of several clients compete for one lock.
type contended struct {
	*rig
	plan   plan
	rivals [2][]acquire // of each way: one lock, client by client
}

func newContended(g *rig, p plan) *contended {
	c := &contended{rig: g, plan: p}
	for way := range c.rivals {
		name := g.names.add("contended-" + wayNames[way])
		for _, client := range g.clients {
			for range contendedGoroutines {
				c.rivals[way] = append(c.rivals[way], client.ways[way](name))
			}
		}
	}
	return c
}

func (c *contended) run(ctx context.Context, r *Report) error {
	var rounds, unfinished [][2]Rivals
	defer func() { r.Contended = c.sumUp(rounds, unfinished) }()
	for round := range c.plan.contendedRounds {
		c.progress("contended: round %d of %d", round+1, c.plan.contendedRounds)
		turns, err := takeTurns(round, func(way int) (Rivals, error) { return c.turn(ctx, c.rivals[way]) })
		if err != nil {
			unfinished = append(unfinished, turns)
			return err
		}
		rounds = append(rounds, turns)
	}
	return nil
}

// turn has goroutines compete for one lock. Its result also counts if it returns an error.
func (c *contended) turn(ctx context.Context, locks []acquire) (Rivals, error) {
	for first := 0; first < len(locks); first += contendedGoroutines { // connects and subscribes
		if err := cycle(ctx, locks[first]); err != nil && !isLoss(err) {
			return Rivals{}, err
		}
	}
	before := c.cpu.reading(ctx)
	o, err := compete(ctx, locks, c.plan.contendedTurn)
	server, client := c.cpu.reading(ctx).since(before)
	r := Rivals{Overlaps: o.overlaps, Lost: o.lost, Jain: unmeasured, Longest: unmeasured, Between: len(o.between)}
	grants := 0
	for _, n := range o.grants {
		grants += n
	}
	if grants > 0 {
		r.Jain = Number(measure.Jain(o.grants))
	}
	r.Server, r.Client = per(server, grants), per(client, grants)
	r.Rate = Number(float64(len(o.handovers)) / o.took.Seconds())
	r.P50, r.P99 = quantiles(o.handovers)
	r.BetweenP50, r.BetweenP99 = quantiles(o.between)
	if len(o.waits) > 0 {
		r.Longest = micros(slices.Max(o.waits)) / 1e3
	}
	return r, err
}

// competition is the result of compete.
type competition struct {
	handovers, between []time.Duration // all, and those between clients
	waits              []time.Duration // including those that the end cut short
	grants             []int           // of each goroutine
	took               time.Duration
	overlaps, lost     int
}

// compete starts a goroutine for each handle of one lock. They acquire and release the lock until d has passed, ctx ends,
// or one of them meets an error.
func compete(ctx context.Context, locks []acquire, d time.Duration) (competition, error) {
	within, end := context.WithCancelCause(ctx)
	defer end(nil)
	over := fmt.Errorf("%w: the turn is over", context.Canceled)
	defer time.AfterFunc(d, func() { end(over) }).Stop()
	board := newBoard()
	o := competition{grants: make([]int, len(locks))}
	var mu sync.Mutex // guards o
	began := time.Now()
	var running sync.WaitGroup
	for i, take := range locks {
		running.Go(func() {
			rival := rival{client: i / contendedGoroutines, take: take, board: board}
			if err := rival.compete(within); err != nil {
				end(err)
			}
			mu.Lock()
			defer mu.Unlock()
			o.grants[i] = rival.grants
			o.lost += rival.lost
			o.waits = append(o.waits, rival.waits...)
			for _, h := range rival.handovers {
				o.handovers = append(o.handovers, h.took)
				if h.between {
					o.between = append(o.between, h.took)
				}
			}
		})
	}
	<-within.Done()
	o.took = time.Since(began)
	running.Wait()
	o.overlaps = board.overlaps
	if err := context.Cause(within); err != over {
		return o, err
	}
	return o, nil
}

// rival is a goroutine that competes for the lock.
type rival struct {
	client int
	take   acquire
	board  *board

	grants, lost int
	waits        []time.Duration
	handovers    []handover
}

// compete acquires and releases the lock until ctx ends, and then returns nil.
func (r *rival) compete(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rand.N(thinkTime)):
		}
		asked := time.Now()
		r.board.wait()
		l, err := r.take(ctx)
		if err != nil {
			r.board.giveUp()
			r.waits = append(r.waits, time.Since(asked))
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		h := r.board.enter(r.client, l)
		r.waits = append(r.waits, time.Since(asked))
		if h.took > 0 {
			r.handovers = append(r.handovers, h)
		}
		r.grants++
		time.Sleep(holdTime)
		r.board.leave(r.client, l)
		if err := l.Release(ctx); isLoss(err) {
			r.lost++
		} else if err != nil {
			return err
		}
	}
}

// sumUp sums up the rounds. Overlaps and losses count in unfinished rounds, too. It returns nil if there is nothing
// to report.
func (c *contended) sumUp(rounds, unfinished [][2]Rivals) *Contended {
	sums, ratios := sumUp(rivalColumns, rounds)
	for way := range sums {
		sums[way].Longest = unmeasured
	}
	for _, round := range rounds {
		for way, r := range round {
			sum := &sums[way]
			if r.Longest.measured() && !(sum.Longest >= r.Longest) { // true if sum.Longest is NaN
				sum.Longest = r.Longest
			}
			sum.Between += r.Between
		}
	}
	faults := 0
	for _, round := range slices.Concat(rounds, unfinished) {
		for way, r := range round {
			sums[way].Overlaps += r.Overlaps
			sums[way].Lost += r.Lost
			faults += r.Overlaps + r.Lost
		}
	}
	if len(rounds) == 0 && faults == 0 {
		return nil
	}
	return &Contended{
		Clients:    contendedClients,
		Goroutines: contendedGoroutines,
		Hold:       micros(holdTime) / 1e3,
		Think:      micros(thinkTime) / 1e3,
		Poll:       micros(barePoll) / 1e3,
		Rounds:     len(rounds),
		Turn:       c.plan.contendedTurn.Milliseconds(),
		Holdfast:   sums[ours],
		Bare:       sums[floor],
		Ratios:     ratios,
	}
}
