// Package dataloss makes servers lose locks that are held: by a restart without data or with older data, by a
// failover to a replica that missed them, by FLUSHALL.
package dataloss

import (
	"context"
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

// eachServer runs f on every server, in parallel.
func eachServer(t *testing.T, f func(t *testing.T, bin server.Binary)) {
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			f(t, bin)
		})
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
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
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

// follow makes the other server the master's replica.
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
	c, err := holdfastgoredis.New(rdb, cfg)
	if err != nil {
		p.t.Fatal(err)
	}
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
