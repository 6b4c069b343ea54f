package topology

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A Cluster's master hangs, and is not replaced. Its leases end by their deadlines; locks of other masters are renewed,
// handed over and granted meanwhile; afterwards its waiters are served, and all its locks are granted again.
func TestAnIsolatedMaster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := &server.Cluster{Nodes: server.StartCluster(t, bin, 3, server.Conf("cluster-require-full-coverage", "no"))}
		// It lets a master that stands still for two seconds answer.
		unhurried := &holdfast.Config{CommandTimeout: 6 * time.Second, RetryTimeout: 8 * time.Second}
		holder, waiter, third := clusterOf(c).client(t, unhurried), clusterOf(c).client(t, unhurried), clusterOf(c).client(t, unhurried)
		const brief, longer = 5 * time.Second, 15 * time.Second
		var mine, others []string // names of locks of the master that hangs, and of the others
		held, next := map[string]*holdfast.Lease{}, map[string]<-chan *holdfast.Lease{}
		for _, name := range names(30) {
			ttl := longer
			if first := slotOf(name)*3/16384 == 0; first && len(mine) < 4 {
				mine, ttl = append(mine, name), brief
			} else if !first && len(others) < 6 {
				others = append(others, name)
			} else {
				continue
			}
			held[name] = backend.Acquire(t, holder.Mutex(name, holdfast.TTL(ttl)))
			next[name] = backend.Start(t, waiter.Mutex(name, holdfast.TTL(ttl)))
			backend.Waiters(t, third.Mutex(name), 1)
		}
		c.Nodes[0].Pause()
		before := map[string]time.Time{}
		for name, lease := range held {
			before[name] = lease.Deadline()
		}
		for _, name := range mine {
			endsInTime(t, held[name])
		}
		for _, name := range others {
			backend.Eventually(t, "the lease of "+name+" is renewed", func() bool { return held[name].Deadline().After(before[name]) })
			expect.Err(t, name+", on another master", held[name].Err(), nil)
			backend.Release(t, held[name])
			backend.Release(t, backend.Receive(t, next[name]))
			for range 10 {
				backend.Release(t, backend.Acquire(t, third.Mutex(name)))
			}
		}
		for _, name := range mine {
			expect.Equal(t, "grants of "+name+" by a master that hangs", len(next[name]), 0)
		}
		c.Nodes[0].Resume()
		for _, name := range mine {
			lease := backend.Receive(t, next[name])
			expect.Rises(t, held[name].Fence(), lease.Fence())
			backend.Release(t, lease)
			for _, c := range []*holdfast.Client{holder, waiter, third} {
				backend.Release(t, backend.Acquire(t, c.Mutex(name)))
			}
		}
	})
}

// endsInTime waits until a lease is lost, which Err must report from the deadline on.
func endsInTime(t *testing.T, lease *holdfast.Lease) {
	t.Helper()
	backend.Eventually(t, "the lease of "+lease.Name()+" ends", func() bool {
		deadline := lease.Deadline()
		over := time.Now().After(deadline)
		err := lease.Err()
		if over && err == nil && lease.Deadline().Equal(deadline) {
			t.Fatalf("the lease of %q is believed in after its deadline", lease.Name())
		}
		return err != nil
	})
	backend.Told(t, "the holder of "+lease.Name()+" is told", lease.Done())
	var lost *holdfast.LostError
	if err := lease.Err(); !errors.As(err, &lost) || lost.Reason == holdfast.LossTaken || lost.Reason == holdfast.LossDeleted {
		t.Errorf("the lease of %q has ended with %v", lease.Name(), err)
	}
	expect.Err(t, "its context has ended with", context.Cause(lease.Context(context.Background())), holdfast.ErrLost)
}
