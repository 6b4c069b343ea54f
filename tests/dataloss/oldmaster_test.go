package dataloss

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// part promotes the replica of a pair just after its master has heard from it for the last time. The master is
// told nothing: neither that there is another master, nor that its replica has gone.
func (p *pair) part() {
	p.t.Helper()
	old, heir := p.servers[0], p.servers[1]
	// WAIT makes the master ask its replica, which answers at once.
	one := (&backend.Backend{Server: old}).Redis(p.t, func(o *redis.Options) { o.PoolSize = 1 })
	ask := func(patience time.Duration) int64 {
		one.Set(p.t.Context(), "asked", "", 0)
		return one.Wait(p.t.Context(), 1, patience).Val()
	}
	if ask(10*time.Second) != 1 {
		p.t.Fatal("the replica does not answer")
	}
	p.to[0].DelayRequests(time.Hour)
	if ask(20*time.Millisecond) != 0 { // the replica's answer waits in the proxy, and the end of the connection behind it
		p.t.Fatal("the master hears its replica")
	}
	p.to[0].SwallowReplies(true)
	do(p.t, heir, "REPLICAOF", "NO", "ONE")
	do(p.t, heir, "CONFIG", "SET", "min-replicas-to-write", "0")
}

// awaitGrant tries until the server grants the lock.
func awaitGrant(t *testing.T, l *holdfast.Lock) *holdfast.Lease {
	t.Helper()
	var lease *holdfast.Lease
	backend.Eventually(t, "the heir grants the lock", func() (ok bool) {
		var err error
		lease, err = l.TryAcquire(t.Context())
		if err != nil && !errors.Is(err, holdfast.ErrQuarantine) && !errors.Is(err, holdfast.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	return lease
}

// Fault: A master that was paused and replaced wakes up, and answers what it has received before it checks whether it
// still has its replica. With MinReplicas nothing is granted that the replica has not confirmed.
func TestStrictOverlapsNothingWhenTheOldMasterWakesUp(t *testing.T) {
	long(t)
	t.Parallel()
	eachServer(t, func(t *testing.T, bin server.Binary) {
		p := startPair(t, bin)
		do(t, p.servers[0], "CONFIG", "SET", "min-replicas-max-lag", "1")
		cfg := strict(5 * time.Second)
		cfg.Quarantine = 5 * time.Second
		cfg.CommandTimeout = 10 * time.Second
		before := (&backend.Backend{Server: p.servers[0]}).Client(t, cfg)
		after := (&backend.Backend{Server: p.servers[1]}).Client(t, cfg)
		initialise(t, before)
		backend.Release(t, backend.Acquire(t, before.Mutex("a")))
		p.part()
		p.servers[0].Pause()
		next := awaitGrant(t, after.Mutex("a"))
		type result struct {
			lease *holdfast.Lease
			err   error
		}
		answer := make(chan result, 1)
		go func() {
			confirmed := holdfast.Durability{Replicas: 1, Timeout: 200 * time.Millisecond}
			lease, err := before.Mutex("a", confirmed).TryAcquire(t.Context())
			answer <- result{lease, err}
		}()
		time.Sleep(20 * time.Millisecond) // until the request has arrived; later it would be refused
		p.servers[0].Resume()
		r := <-answer
		if r.lease != nil && r.lease.Err() == nil && next.Err() == nil {
			t.Errorf("both masters have granted the lock, with fences %d and %d", r.lease.Fence(), next.Fence())
		}
		if r.err == nil {
			_ = r.lease.Release(t.Context())
		}
		backend.Release(t, next)
	})
}
