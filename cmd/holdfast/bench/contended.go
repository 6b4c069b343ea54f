package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
)

var contendedFigures = []figure{
	{"handovers_per_s", "hand-overs/s", measure.Figure, measure.Median[float64], true}, // to a waiter
	{"handover_p50_us", "hand-over p50", duration, measure.Median[float64], true},
	{"handover_p99_us", "p99", duration, measure.Median[float64], true},
	{"between_clients_p50_us", "between clients p50", duration, measure.Median[float64], true},
	{"between_clients_p99_us", "p99", duration, measure.Median[float64], true},
	{"longest_wait_us", "longest wait", duration, slices.Max[[]float64], false},
	{"jain", "Jain's index", measure.Figure, measure.Median[float64], false}, // over all goroutines
	{"server_cpu_us", "server CPU per grant", duration, measure.Median[float64], true},
	{"client_cpu_us", "client CPU per grant", duration, measure.Median[float64], true},
	overlaps,
	lost,
}

// The rivals of the experiment contended. They hold the lock for a while: otherwise the winner would be a lock that favours the goroutine
// that has just released it.
const (
	contendedClients    = 4
	contendedGoroutines = 8 // of each client
	holdTime            = time.Millisecond
	thinkTime           = 10 * time.Millisecond // at most
)

// contended is the experiment in which goroutines of several clients compete for one lock.
func (b *bench) contended(ctx context.Context) error {
	rounds, turn := split(b.time/4, 2, time.Second, 3)
	var locks [2][]acquire // by way: handles of one lock, client by client
	for way := range locks {
		name := b.name("contended-" + wayNames[way])
		for _, c := range b.clients {
			for range contendedGoroutines {
				locks[way] = append(locks[way], c.ways[way](name))
			}
		}
	}
	r := &result{Experiment: "contended", Millis: turn.Milliseconds(), figures: contendedFigures, about: fmt.Sprintf(
		"%d clients with %d goroutines each compete for one name, hold it for %s,\nand think for up to %s; bare polls every %s",
		contendedClients, contendedGoroutines, holdTime, thinkTime, barePoll)}
	return b.compare(rounds, []*result{r}, func(_, way int) (values, error) { return b.contendedTurn(ctx, locks[way], turn) })
}

func (b *bench) contendedTurn(ctx context.Context, locks []acquire, d time.Duration) (values, error) {
	for first := 0; first < len(locks); first += contendedGoroutines { // connects and subscribes
		if err := cycle(ctx, locks[first]); err != nil && !isLoss(err) {
			return nil, err
		}
	}
	before := b.cpu(ctx)
	o, took, err := compete(ctx, locks, d)
	v := values{overlaps.key: float64(o.overlaps), lost.key: float64(o.lost)}
	grants := 0
	for _, n := range o.grants {
		grants += n
	}
	if err != nil || grants == 0 {
		return v, err
	}
	v.setCPU(before, b.cpu(ctx), float64(grants))
	v.set("jain", measure.Jain(o.grants))
	v.set("handovers_per_s", float64(len(o.handovers))/took.Seconds())
	v.setTimes("handover_p50_us", "handover_p99_us", o.handovers)
	v.setTimes("between_clients_p50_us", "between_clients_p99_us", o.between)
	v.set("longest_wait_us", measure.Micros(slices.Max(o.waits)))
	return v, nil
}

// compete starts a goroutine for each handle of one lock. The goroutines acquire and release the lock until d has passed, ctx ends, or one
// of them gets an error.
func compete(ctx context.Context, locks []acquire, d time.Duration) (*board, time.Duration, error) {
	within, end := context.WithCancelCause(ctx)
	defer end(nil)
	over := fmt.Errorf("%w: the turn is over", context.Canceled)
	defer time.AfterFunc(d, func() { end(over) }).Stop()
	b := newBoard(len(locks))
	began := time.Now()
	var running sync.WaitGroup
	for i, take := range locks {
		running.Go(func() {
			if err := b.rival(within, i, take); err != nil {
				end(err)
			}
		})
	}
	<-within.Done()
	took := time.Since(began)
	running.Wait()
	if err := context.Cause(within); err != over {
		return b, took, err
	}
	return b, took, nil
}

// board is where holders of the contended lock sign in and out. It notices overlaps, and measures hand-overs, without asking the server.
type board struct {
	mu         sync.Mutex
	holders    map[lease]bool
	waiting    int
	released   time.Time // when the last holder called Release; zero if there was no waiter then
	releasedBy int       // the client of that holder

	grants             []int           // of each goroutine
	handovers, between []time.Duration // from the call of Release to the next holder's first step: all, and those between clients
	waits              []time.Duration // including waits that the end of the turn cut short
	overlaps, lost     int
}

func newBoard(goroutines int) *board {
	return &board{holders: map[lease]bool{}, grants: make([]int, goroutines)}
}

// rival acquires and releases the lock until ctx ends, and then returns nil. number is that of its goroutine.
func (b *board) rival(ctx context.Context, number int, take acquire) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rand.N(thinkTime)):
		}
		asked := b.wait()
		l, err := take(ctx)
		if err != nil {
			b.mu.Lock()
			b.waiting--
			b.waits = append(b.waits, time.Since(asked))
			b.mu.Unlock()
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		b.enter(number, l, asked)
		time.Sleep(holdTime)
		b.leave(number, l)
		if err := l.Release(ctx); isLoss(err) {
			b.mu.Lock()
			b.lost++
			b.mu.Unlock()
		} else if err != nil {
			return err
		}
	}
}

// wait is called before a goroutine acquires the lock, and returns the time.
func (b *board) wait() (asked time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting++
	return time.Now()
}

// enter is called by a waiter that has become a holder. Two holders at once are an overlap, unless one of them knows that its lease is
// lost.
func (b *board) enter(number int, l lease, asked time.Time) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for other := range b.holders {
		if other.Err() == nil && l.Err() == nil {
			b.overlaps++
			break
		}
	}
	b.waiting--
	b.holders[l] = true
	b.grants[number]++
	b.waits = append(b.waits, now.Sub(asked))
	if b.released.IsZero() {
		return
	}
	took := now.Sub(b.released)
	b.released = time.Time{}
	b.handovers = append(b.handovers, took)
	if b.releasedBy != number/contendedGoroutines {
		b.between = append(b.between, took)
	}
}

// leave is called by a holder just before it releases the lock.
func (b *board) leave(number int, l lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.holders, l)
	if b.waiting > 0 {
		b.released, b.releasedBy = time.Now(), number/contendedGoroutines
	}
}
