package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: An old master, which has lost its replica to the new one, stays reachable. It refuses writes: ErrUnavailable
// with the code NOREPLICAS, and nobody spins.
func TestAnOldMasterRefusesWrites(t *testing.T) {
	t.Parallel()
	eachMutex(t, func(t *testing.T, b *backend.Backend) {
		const ttl = 9 * time.Second // so that a renewal has been refused before it ends
		replica := server.StartReplica(t, b.Server.Binary(), b.Server)
		do(t, b.Server, "CONFIG", "SET", "min-replicas-to-write", "1")
		var r backend.Resource
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(ttl)))
		r.Write(lease.Fence())
		waiter := b.Client(t, nil)
		waiting, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() {
			_, err := waiter.Mutex("a").Acquire(waiting)
			gaveUp <- err
		}()
		backend.Waiters(t, waiter.Mutex("a"), 1)
		backend.Eventually(t, "the replica has the lock", func() bool {
			return do(t, replica, "EXISTS", "holdfast:{a}") == int64(1)
		})
		do(t, replica, "REPLICAOF", "NO", "ONE")
		backend.Eventually(t, "the master has lost its replica", func() bool {
			return b.Server.Info("replication")["connected_slaves"] == "0"
		})

		refused, before := time.Now(), scripts(b)
		newcomer := b.Client(t, nil)
		for what, acquire := range map[string]func(context.Context) (*holdfast.Lease, error){
			"Acquire": newcomer.Mutex("b").Acquire, "TryAcquire": newcomer.Mutex("b").TryAcquire,
		} {
			if _, err := acquire(t.Context()); !backend.HasCode(err, "NOREPLICAS") || errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("%s: %v", what, err)
			}
		}
		// On the new master the lock lasts until its TTL is over: nobody renews it there.
		moved := &backend.Backend{Name: b.Name, Server: replica}
		next := backend.Acquire(t, moved.Client(t, nil).Mutex("a"))
		overlap := r.Succeed(t, lease, next)
		<-lease.Done()
		var lost *holdfast.LostError
		if !errors.As(lease.Err(), &lost) || lost.Reason != holdfast.LossUnreachable || !backend.HasCode(lost, "NOREPLICAS") {
			t.Errorf("the lease ended: %v", lease.Err())
		}

		// The holder, the waiter and the late release keep asking, but not all the time. How often is for the nightly tests.
		select {
		case err := <-gaveUp:
			t.Fatalf("the waiter gave up: %v", err)
		case <-time.After(time.Second):
		}
		asked, took := scripts(b)-before, time.Since(refused)
		t.Logf("overlap: %v; a holder, a waiter and a late release cost %d scripts in %s", overlap, asked, took.Round(time.Millisecond))
		if bound := int64(30 * (took + time.Second).Seconds()); asked > bound && !testing.Short() {
			t.Errorf("%d scripts; at most %d were expected", asked, bound)
		}
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) || !backend.HasCode(err, "NOREPLICAS") {
			t.Errorf("the waiter: want its context's error, with that of the server, got %v", err)
		}
		backend.Release(t, next)
		moved.Cleaned(t)
	})
}
