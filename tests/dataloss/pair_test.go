// Package dataloss makes servers lose locks that are held: by a restart without data or with older data, by a
// failover to a replica that missed them, by FLUSHALL.
package dataloss

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// term is the longest lease in these tests, and so the quarantine: longer than machines stand still. Clients that could not
// reach the server for a while reach it again within that time.
const term = 5 * time.Second

func TestMain(m *testing.M) {
	backend.AtOnce(12) // the tests mostly wait
	os.Exit(m.Run())
}

// long skips a test that takes too long for the gate, or depends on chance.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: part of make nightly")
	}
}

func aof(s *server.Server) string { return filepath.Join(s.Dir(), "appendonlydir") }

// copyAOF saves the present data; restoreAOF restores them to a server that does not run.
func copyAOF(t *testing.T, s *server.Server) {
	t.Helper()
	replace(t, aof(s)+".old", aof(s))
}

func restoreAOF(t *testing.T, s *server.Server) {
	t.Helper()
	replace(t, aof(s), aof(s)+".old")
}

func replace(t *testing.T, to, from string) {
	t.Helper()
	expect.OK(t, os.RemoveAll(to))
	expect.OK(t, os.CopyFS(to, os.DirFS(from)))
}

// pair is two servers: a master, and a replica that gets its writes through a proxy.
type pair struct {
	t       *testing.T
	servers [2]*server.Server
	to      [2]*proxy.Proxy
	master  atomic.Int32 // where clients connect
}

func startPair(t *testing.T, bin server.Binary, replica ...server.Option) *pair {
	p := &pair{t: t}
	for n := range p.servers {
		var opts []server.Option
		if n != int(p.master.Load()) {
			opts = replica
		}
		p.servers[n] = server.Start(t, bin, opts...)
		p.to[n] = proxy.New(t, p.servers[n].Addr())
	}
	p.follow()
	return p
}

func (p *pair) follow() {
	p.t.Helper()
	m := p.master.Load()
	master, replica, way := p.servers[m], p.servers[1-m], p.to[m]
	do(p.t, master, "CONFIG", "SET", "min-replicas-to-write", "1")
	way.SwallowReplies(false)
	host, port, _ := net.SplitHostPort(way.Addr())
	do(p.t, replica, "REPLICAOF", host, port)
	backend.Eventually(p.t, "the replica follows", func() bool {
		return strings.Contains(fmt.Sprint(master.Info("replication")), "state=online")
	})
}

// client returns a client of the present master.
func (p *pair) client(cfg *holdfast.Config) *holdfast.Client {
	p.t.Helper()
	if cfg == nil {
		cfg = &holdfast.Config{CommandTimeout: 4 * time.Second}
	}
	rdb := redis.NewClient(&redis.Options{Addr: "the master", ReadTimeout: 20 * time.Second, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", p.servers[p.master.Load()].Addr())
	}})
	p.t.Cleanup(func() { _ = rdb.Close() })
	c := expect.Of(holdfastgoredis.New(rdb, cfg)).OK(p.t)
	backend.CloseWith(p.t, c)
	return c
}

// lag keeps everything written from now on from the replica. The master does not notice.
func (p *pair) lag() { p.to[p.master.Load()].SwallowReplies(true) }

// fail kills the master, and promotes the other server.
func (p *pair) fail() {
	p.t.Helper()
	m := p.master.Load()
	p.servers[m].Kill()
	p.to[m].Cut()
	heir := p.servers[1-m]
	do(p.t, heir, "REPLICAOF", "NO", "ONE")
	do(p.t, heir, "CONFIG", "SET", "min-replicas-to-write", "0")
	p.master.Store(1 - m)
}

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

// Fault: A master that was replaced grants locks until it misses its replica, in Strict mode. Its last leases have
// ended before the promoted one grants anything.
func TestStrictOverlapsNothingWhenTheOldMasterGoesOn(t *testing.T) {
	long(t)
	server.Each(t, func(t *testing.T, bin server.Binary) {
		for range 10 {
			if oldMasterGoesOn(t, bin) {
				return
			}
		}
		t.Error("this machine was too slow each time: the old master had missed its replica before it was asked")
	})
}

// oldMasterGoesOn reports whether the old master has granted anything.
func oldMasterGoesOn(t *testing.T, bin server.Binary) bool {
	t.Helper()
	p := startPair(t, bin)
	do(t, p.servers[0], "CONFIG", "SET", "min-replicas-max-lag", "1")
	const ttl = 400 * time.Millisecond
	cfg := strict(ttl)
	cfg.Quarantine = ttl + time.Second + 3*time.Second
	before := (&backend.Backend{Server: p.servers[0]}).Client(t, cfg).Mutex("a", holdfast.NoRenew())
	after := (&backend.Backend{Server: p.servers[1]}).Client(t, cfg).Mutex("a")
	initialise(t, (&backend.Backend{Server: p.servers[0]}).Client(t, cfg))
	acquireShort(t, before)
	p.part()

	for grants := 0; ; {
		lease, err := before.TryAcquire(t.Context())
		if err == nil {
			grants++
		} else if !backend.HasCode(err, "NOREPLICAS") && !soShort(err) {
			t.Fatal(err)
		}
		next, err := after.TryAcquire(t.Context())
		if lease != nil && lease.Err() == nil {
			expect.Fails(t, "an acquire of the other master", err)
			_ = lease.Release(t.Context()) // may be refused
		}
		if err == nil {
			_ = next.Release(t.Context()) // it may be over
			return grants > 0
		}
		if !errors.Is(err, holdfast.ErrQuarantine) && !soShort(err) {
			t.Fatal(err)
		}
	}
}

// soShort reports whether an error says that the lease was so short that it ended before its reply, or that the
// lock still existed after that.
func soShort(err error) bool {
	return errors.Is(err, holdfast.ErrHeld) || errors.Is(err, holdfast.ErrUnavailable)
}

// acquireShort acquires a lock for a very short time, and releases it.
func acquireShort(t *testing.T, l *holdfast.Lock) {
	t.Helper()
	backend.Eventually(t, "the lock is granted", func() bool {
		lease, err := l.TryAcquire(t.Context())
		if err != nil && !soShort(err) {
			t.Fatal(err)
		}
		if lease != nil {
			_ = lease.Release(t.Context())
		}
		return err == nil
	})
}

// Fault: A master that was paused and replaced wakes up, and answers what it has received before it checks whether it
// still has its replica. With Durability nothing is granted that the replica has not confirmed.
func TestStrictOverlapsNothingWhenTheOldMasterWakesUp(t *testing.T) {
	long(t)
	server.Each(t, func(t *testing.T, bin server.Binary) {
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
