package topology

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// arrive awaits in a goroutine.
func arrive(t *testing.T, p *holdfast.BarrierParty) <-chan uint64 {
	over := make(chan uint64, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		phase, err := p.Await(ctx)
		if err != nil {
			t.Errorf("Await: %v", err)
		}
		over <- phase
	}()
	return over
}

func wantPhase(t *testing.T, want uint64, all ...<-chan uint64) {
	t.Helper()
	for _, over := range all {
		if phase := <-over; phase != want {
			t.Errorf("Await returns %d, want %d", phase, want)
		}
	}
}

// Fault: A Cluster's master is replaced while others wait at latches and barriers. They are woken by the master of
// their slot.
func TestPartiesInACluster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		for _, name := range []string{"b", "c"} { // most likely of different masters
			meet(t, clusterOf(c), name, func() {})
		}
		slot := slotOf("{a}/any")
		meet(t, clusterOf(c), "{a}/1", func() {
			old := c.Owner(slot)
			old.AwaitInStep()
			c.Failover(c.ReplicaOf(old))
			c.Owner(slot, old)
		})
		meet(t, clusterOf(c), "{a}/2", func() { c.StartMove(slot, otherMaster(c, slot)).Finish() })
		meet(t, clusterOf(c), "{a}/3", func() { fails(c, slot, (*server.Server).Kill) })
	})
}

// Fault: The master behind Sentinel is replaced while others wait at latches and barriers. They are woken by the new
// one.
func TestPartiesBehindSentinels(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		for name, replace := range map[string]func(*server.Sentinels){
			"failover": func(g *server.Sentinels) { g.Failover() },
			"death":    func(g *server.Sentinels) { g.Servers[0].Kill() },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g := server.StartSentinels(t, bin, 2, 3)
				meet(t, sentinelsOf(g), name, func() {
					g.Servers[0].AwaitInStep()
					replace(g)
					g.NextMaster(g.Servers[0])
				})
			})
		}
	})
}

// meet makes two parties meet at a barrier and at a latch with that name. One waits while the master is
// replaced.
func meet(t *testing.T, open opener, name string, replace func()) {
	t.Helper()
	join := func() *holdfast.BarrierParty {
		party, err := open.client(t, nil).Barrier(name, 2, holdfast.TTL(term)).Join(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return party
	}
	latch := func() *holdfast.Latch {
		return open.client(t, nil).Latch(name+"-latch", 2, holdfast.TTL(term))
	}
	one := join()
	opened := make(chan error, 1)
	go func() { opened <- latch().Wait(t.Context()) }()
	if err := latch().CountDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := arrive(t, one)
	time.Sleep(100 * time.Millisecond) // so that it most likely waits
	replace()
	two := join() // by the new master
	wantPhase(t, 1, arrive(t, two), first)
	wantPhase(t, 2, arrive(t, two), arrive(t, one))
	party, err := latch().Register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := party.CountDown(t.Context()); err != nil {
		t.Errorf("CountDown: %v", err)
	}
	if err := soon(t, "the waiter at the latch is not woken", opened); err != nil {
		t.Errorf("Wait: %v", err)
	}
}
