package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Contended is what a lock costs that all want.
type Contended struct {
	Clients    int             `json:"clients"`
	Goroutines int             `json:"goroutines"` // of each client
	Hold       Number          `json:"hold_ms"`
	Think      Number          `json:"think_ms"` // at most, before each cycle
	Poll       Number          `json:"bare_poll_ms"`
	Rounds     int             `json:"rounds"`
	Turn       int64           `json:"turn_ms"`
	Holdfast   Rivals          `json:"holdfast"`
	Bare       Rivals          `json:"bare"`
	Ratios     ContendedRatios `json:"ratios"`
}

// Rivals are medians of the rounds; the longest wait and the counts are of all of them.
type Rivals struct {
	Rate       Number `json:"handovers_per_s"` // to somebody who waited
	P50        Number `json:"handover_p50_us"` // from the call of release to the next holder's running
	P99        Number `json:"handover_p99_us"`
	Between    int    `json:"handovers_between_clients"`
	BetweenP50 Number `json:"between_clients_p50_us"` // of the hand-overs from one client to another
	BetweenP99 Number `json:"between_clients_p99_us"`
	Longest    Number `json:"longest_wait_ms"`
	Jain       Number `json:"jain"`          // of all goroutines
	Server     Number `json:"server_cpu_us"` // of a grant
	Client     Number `json:"client_cpu_us"`
	Overlaps   int    `json:"overlaps"`
	Lost       int    `json:"lost"`
}

// ContendedRatios are those of Holdfast over the bare commands, round by round.
type ContendedRatios struct {
	Rate       Ratio `json:"handovers_per_s"`
	P50        Ratio `json:"handover_p50"`
	P99        Ratio `json:"handover_p99"`
	BetweenP50 Ratio `json:"between_clients_p50"`
	BetweenP99 Ratio `json:"between_clients_p99"`
	Server     Ratio `json:"server_cpu"`
	Client     Ratio `json:"client_cpu"`
}

// contended has goroutines of several clients want one lock.
func (b *bench) contended(ctx context.Context) error {
	ways := b.ways(b.sites[0])
	rivals := map[string][]acquire{}
	for i, w := range ways {
		name := b.name("contended-" + w.name)
		for _, s := range b.sites {
			locks := b.ways(s)[i].locks
			for range goroutines {
				rivals[w.name] = append(rivals[w.name], locks(name))
			}
		}
	}
	rounds := map[string][]Rivals{}
	all := map[string][]Rivals{} // also of rounds that did not end
	defer func() { b.report.Contended = b.sumContended(rounds, all) }()
	for round := range b.plan.contendedRounds {
		b.progress("contended: round %d of %d", round+1, b.plan.contendedRounds)
		pair := map[string]Rivals{}
		for _, w := range rotated(ways, round) {
			r, err := b.rivalry(ctx, rivals[w.name])
			all[w.name] = append(all[w.name], r)
			if err != nil {
				return err
			}
			pair[w.name] = r
		}
		for name, r := range pair {
			rounds[name] = append(rounds[name], r)
		}
	}
	return nil
}

// rivalry is a turn: locks are all of one name, those of one client after those of the other.
func (b *bench) rivalry(ctx context.Context, locks []acquire) (Rivals, error) {
	for first := 0; first < len(locks); first += goroutines { // connections, subscriptions
		if err := cycle(ctx, locks[first]); err != nil && !lost(err) {
			return Rivals{}, err
		}
	}
	before := b.meter(ctx)
	o, err := compete(ctx, locks, b.plan.contended)
	server, client := b.meter(ctx).since(before)
	r := Rivals{Overlaps: o.overlaps, Lost: o.lost, Jain: jain(o.grants), Longest: unmeasured, Between: len(o.between)}
	grants := 0
	for _, n := range o.grants {
		grants += n
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

// competed is what came of compete.
type competed struct {
	handovers, between []time.Duration // all; those between clients
	waits              []time.Duration // also of who got nothing until the end
	grants             []int           // of each goroutine
	took               time.Duration
	overlaps, lost     int
}

// compete has a goroutine for each lock, which are all of one name, take it again and again
// for the time d, or until ctx or one of them ends with an error.
func compete(ctx context.Context, locks []acquire, d time.Duration) (competed, error) {
	within, end := context.WithCancelCause(ctx)
	defer end(nil)
	over := fmt.Errorf("%w: the turn is over", context.Canceled)
	defer time.AfterFunc(d, func() { end(over) }).Stop()
	board := newBoard()
	o := competed{grants: make([]int, len(locks))}
	var mu sync.Mutex // guards o
	began := time.Now()
	var all sync.WaitGroup
	for i, take := range locks {
		all.Go(func() {
			rival := rival{client: i / goroutines, take: take, board: board}
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
	all.Wait()
	o.overlaps = board.overlaps
	if err := context.Cause(within); err != over {
		return o, err
	}
	return o, nil
}

// rival is one goroutine that wants the lock.
type rival struct {
	client int
	take   acquire
	board  *board

	grants, lost int
	waits        []time.Duration
	handovers    []handover
}

// compete takes the lock until ctx ends, and returns nil then.
func (r *rival) compete(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rand.N(think)):
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
		time.Sleep(hold)
		r.board.leave(r.client, l)
		if err := l.Release(ctx); lost(err) {
			r.lost++
		} else if err != nil {
			return err
		}
	}
}

// sumContended makes one of the rounds, and has what must not happen from all; nil if there was
// neither.
func (b *bench) sumContended(rounds, all map[string][]Rivals) *Contended {
	mine, bare := rounds[ours], rounds[floor]
	faults := 0
	for _, r := range slices.Concat(all[ours], all[floor]) {
		faults += r.Overlaps + r.Lost
	}
	if len(mine) == 0 && faults == 0 {
		return nil
	}
	over := func(figure func(Rivals) Number) Ratio { return ratio(column(mine, figure), column(bare, figure)) }
	return &Contended{
		Clients:    clients,
		Goroutines: goroutines,
		Hold:       micros(hold) / 1e3,
		Think:      micros(think) / 1e3,
		Poll:       micros(pollInterval) / 1e3,
		Rounds:     len(mine),
		Turn:       b.plan.contended.Milliseconds(),
		Holdfast:   sumRivals(mine, all[ours]),
		Bare:       sumRivals(bare, all[floor]),
		Ratios: ContendedRatios{
			Rate:       over(func(r Rivals) Number { return r.Rate }),
			P50:        over(func(r Rivals) Number { return r.P50 }),
			P99:        over(func(r Rivals) Number { return r.P99 }),
			BetweenP50: over(func(r Rivals) Number { return r.BetweenP50 }),
			BetweenP99: over(func(r Rivals) Number { return r.BetweenP99 }),
			Server:     over(func(r Rivals) Number { return r.Server }),
			Client:     over(func(r Rivals) Number { return r.Client }),
		},
	}
}

func sumRivals(rounds, all []Rivals) Rivals {
	sum := Rivals{Longest: unmeasured}
	for _, m := range []struct {
		to     *Number
		figure func(Rivals) Number
	}{
		{&sum.Rate, func(r Rivals) Number { return r.Rate }},
		{&sum.P50, func(r Rivals) Number { return r.P50 }},
		{&sum.P99, func(r Rivals) Number { return r.P99 }},
		{&sum.BetweenP50, func(r Rivals) Number { return r.BetweenP50 }},
		{&sum.BetweenP99, func(r Rivals) Number { return r.BetweenP99 }},
		{&sum.Jain, func(r Rivals) Number { return r.Jain }},
		{&sum.Server, func(r Rivals) Number { return r.Server }},
		{&sum.Client, func(r Rivals) Number { return r.Client }},
	} {
		*m.to = median(column(rounds, m.figure))
	}
	for _, r := range rounds {
		if r.Longest.measured() && !(sum.Longest >= r.Longest) { // also if there was none so far
			sum.Longest = r.Longest
		}
		sum.Between += r.Between
	}
	for _, r := range all {
		sum.Overlaps += r.Overlaps
		sum.Lost += r.Lost
	}
	return sum
}
