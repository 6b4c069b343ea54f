package topology

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: Fifty parties in five programs meet at a barrier and at latches, round after round, while their slot moves
// key by key and a replica replaces its master. No party goes on before all have come, none is left behind, and each
// counts once.
func TestACrowdOfPartiesInACluster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		slot := slotOf("{a}/any")
		still := "b" // another slot, which does not move
		if slotOf("{"+still+"}/any") == slot {
			t.Fatal("both crowds have one slot")
		}
		moving, resting := newCrowd(t, c, "a"), newCrowd(t, c, still)
		for range 5 {
			round := moving.rounds.Load()
			move(c, slot)
			moving.goesOn(round + 1)
		}
		master := c.Owner(slot)
		c.Failover(c.ReplicaOf(master))
		c.Owner(slot, master)
		moving.goesOn(moving.rounds.Load() + 1)
		moving.stop.Store(true)
		resting.stop.Store(true)
		moving.ends()
		resting.ends()
	})
}

const (
	crowdClients = 5
	crowdParties = 10 // of each client
)

// crowd is parties that meet at the barrier and the latches of a name.
type crowd struct {
	t      *testing.T
	name   string
	stop   atomic.Bool  // the round in which the first party notices is the last
	last   atomic.Int64 // that round, or 0
	rounds atomic.Int64 // that the first party has completed
	over   chan struct{}

	mu      sync.Mutex
	arrived map[string]int // parties that have arrived at the barrier or a latch in a round
}

func newCrowd(t *testing.T, c *server.Cluster, name string) *crowd {
	t.Helper()
	w := &crowd{t: t, name: name, arrived: map[string]int{}, over: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { // before the clients close, which is done with the test
		cancel()
		all.Wait()
	})
	var clients []*holdfast.Client
	for range crowdClients {
		// During a move, a slot refuses scripts with keys on both sides; on a slow machine that takes long.
		clients = append(clients, clusterOf(c).client(t, &holdfast.Config{CommandTimeout: 6 * time.Second, RetryTimeout: 2 * time.Minute}))
	}
	t.Cleanup(cancel)
	for i := range crowdClients * crowdParties {
		all.Go(func() {
			if err := w.attend(ctx, clients[i%crowdClients], i); err != nil && ctx.Err() == nil {
				t.Errorf("crowd %s, party %d: %v", name, i, err)
				cancel() // otherwise the others would wait for it
			}
		})
	}
	go func() {
		all.Wait()
		close(w.over)
	}()
	w.goesOn(1)
	return w
}

// attend goes through all rounds as one of the parties.
func (w *crowd) attend(ctx context.Context, c *holdfast.Client, i int) error {
	const n = crowdClients * crowdParties
	party, err := c.Barrier("{"+w.name+"}/barrier", n, holdfast.TTL(term)).Join(ctx)
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	defer func() { _ = party.Leave(context.WithoutCancel(ctx)) }()
	latch := func(round int64) *holdfast.Latch {
		return c.Latch(fmt.Sprintf("{%s}/latch-%d", w.name, round), n, holdfast.TTL(term))
	}
	for round := int64(1); ; round++ {
		if i == 0 && w.stop.Load() {
			w.last.Store(round) // before the others can leave the barrier
		}
		at := w.arrive("barrier", round)
		phase, err := party.Await(ctx)
		if err != nil {
			return fmt.Errorf("round %d: await: %w", round, err)
		}
		if phase != uint64(round) {
			return fmt.Errorf("round %d: the barrier is at phase %d", round, phase)
		}
		if err := w.complete(at); err != nil {
			return err
		}
		if i == 0 && round > 1 { // by now all have left it
			if err := latch(round - 1).Delete(ctx); err != nil {
				return fmt.Errorf("round %d: delete: %w", round, err)
			}
		}
		l := latch(round)
		if i%2 == 0 {
			at = w.arrive("latch", round)
			err = l.CountDown(ctx)
		} else {
			var joined *holdfast.LatchParty
			if joined, err = l.Register(ctx); err == nil {
				at = w.arrive("latch", round)
				err = joined.CountDown(ctx)
			}
		}
		if err != nil {
			return fmt.Errorf("round %d: count down: %w", round, err)
		}
		if err := l.Wait(ctx); err != nil {
			return fmt.Errorf("round %d: wait: %w", round, err)
		}
		if err := w.complete(at); err != nil {
			return err
		}
		if i == 0 {
			w.rounds.Store(round)
		}
		if w.last.Load() == round {
			return w.depart(ctx, party)
		}
	}
}

// depart leaves the barrier when no party needs the others any more.
func (w *crowd) depart(ctx context.Context, party *holdfast.BarrierParty) error {
	if _, err := party.Await(ctx); err != nil {
		return fmt.Errorf("the last await: %w", err)
	}
	return nil
}

// arrive counts a party at a place, whose name it returns.
func (w *crowd) arrive(place string, round int64) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := fmt.Sprintf("%s, round %d", place, round)
	w.arrived[at]++
	return at
}

// complete requires that all parties have arrived at a place that a party leaves.
func (w *crowd) complete(at string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.arrived[at]; n != crowdClients*crowdParties {
		return fmt.Errorf("%s: one goes on when %d have arrived", at, n)
	}
	return nil
}

// goesOn waits until that many more rounds are over.
func (w *crowd) goesOn(rounds int64) {
	w.t.Helper()
	w.until(fmt.Sprintf("round %d", rounds), func() bool { return w.rounds.Load() >= rounds })
}

// ends waits until all parties have left.
func (w *crowd) ends() {
	w.t.Helper()
	w.until("the end", func() bool {
		select {
		case <-w.over:
			return true
		default:
			return false
		}
	})
	w.t.Logf("crowd %s: %d rounds", w.name, w.rounds.Load())
}

// until waits for the crowd, no longer than soon does: parties that are told nothing look by themselves after
// 30 s.
func (w *crowd) until(what string, f func() bool) {
	w.t.Helper()
	for began := time.Now(); !f(); time.Sleep(2 * time.Millisecond) {
		if w.t.Failed() {
			w.t.FailNow()
		}
		if took := time.Since(began); took > 20*time.Second && took > 20*time.Second+2*machine.HeldUp(began) {
			w.t.Fatalf("crowd %s is in round %d after %s, and does not come to %s\n%s",
				w.name, w.rounds.Load()+1, took.Round(time.Second), what, machine.Report(began))
		}
	}
}
