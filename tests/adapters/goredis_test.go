// Package adapters runs the drivers' conformance suite, and what only one adapter
// does, against real servers.
package adapters

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/backend"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/server"
)

// peer is a client that does not use the driver.
type peer struct {
	t   *testing.T
	rdb redis.UniversalClient
}

func (p peer) Do(args ...string) (string, error) {
	words := make([]any, len(args))
	for i, a := range args {
		words[i] = a
	}
	reply, err := p.rdb.Do(p.t.Context(), words...).Result()
	return fmt.Sprint(reply), err
}

func TestGoRedis(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			backend.Each(t, func(t *testing.T, b *backend.Backend) {
				holdfasttest.RunDriver(t, func(t *testing.T) holdfast.Driver {
					return holdfastgoredis.New(b.Redis(t, func(o *redis.Options) { o.Protocol = protocol }))
				}, peer{t, b.Redis(t)})
			})
		})
	}
}

// A script whose reply is lost is not sent again behind our back: it could act twice.
func TestGoRedisSendsAScriptOnce(t *testing.T) {
	s := server.Start(t, server.One(t))
	p := proxy.New(t, s.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: 5})
	t.Cleanup(func() { _ = rdb.Close() })
	d := holdfastgoredis.New(rdb)
	t.Cleanup(func() { _ = d.Close() })
	count := holdfast.NewScript("return tostring(redis.call('INCR', KEYS[1]))")
	for _, urgent := range []bool{false, true} {
		key := fmt.Sprint("count-", urgent)
		if _, err := d.Eval(t.Context(), count, []string{key}, nil, urgent); err != nil {
			t.Fatal(err)
		}
		trap := p.LoseReply(proxy.Containing("evalsha", key), proxy.Cut)
		_, err := d.Eval(t.Context(), count, []string{key}, nil, urgent)
		if err == nil || errors.Is(err, holdfast.ErrNotSent) {
			t.Errorf("urgent %v: the reply was lost, and Eval says %v", urgent, err)
		}
		trap.Wait(t)
		if n, err := s.Do("GET", key); err != nil || n != "2" {
			t.Errorf("urgent %v: the script ran %v times (%v), want 2", urgent, n, err)
		}
	}
}

func TestGoRedisCluster(t *testing.T) {
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			nodes := server.StartCluster(t, bin, 3)
			open := func() *redis.ClusterClient {
				var addrs []string
				for _, n := range nodes {
					addrs = append(addrs, n.Addr())
				}
				rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
				t.Cleanup(func() { _ = rdb.Close() })
				return rdb
			}
			client := func() *holdfast.Client {
				c, err := holdfast.New(holdfastgoredis.New(open()), nil)
				if err != nil {
					t.Fatal(err)
				}
				backend.CloseWith(t, c)
				return c
			}
			for i := range 20 { // names in slots of all masters
				name := fmt.Sprint("job-", i)
				here, there := client(), client()
				lease, err := here.Mutex(name).Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				next := make(chan *holdfast.Lease, 1)
				go func() {
					l, err := there.Mutex(name).Acquire(t.Context())
					if err != nil {
						t.Error(err)
					}
					next <- l
				}()
				backend.Waiters(t, here.Mutex(name), 1)
				if err := lease.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				second := <-next
				if second == nil || second.Token() <= lease.Token() {
					t.Fatalf("%s: %v follows fence %d", name, second, lease.Token())
				}
				if err := second.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestGoRedisSentinel(t *testing.T) {
	g := server.StartSentinel(t, server.One(t))
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: g.Name, SentinelAddrs: []string{g.Sentinel.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := holdfast.New(holdfastgoredis.New(rdb), nil)
	if err != nil {
		t.Fatal(err)
	}
	backend.CloseWith(t, c)
	lease, err := c.Mutex("a").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Master.Do("GET", "holdfast:{a}"); err != nil {
		t.Error(err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A connection to a server that is a replica by now is given up: every other that the
// pool makes leads to the master, but that one would be used again and again. What such a
// server says of locks is not believed.
func TestGoRedisLeavesAMasterThatWasDemoted(t *testing.T) {
	kinds := map[string]func(c *holdfast.Client, name string) *holdfast.Lock{
		"mutex":     func(c *holdfast.Client, name string) *holdfast.Lock { return c.Mutex(name) },
		"semaphore": func(c *holdfast.Client, name string) *holdfast.Lock { return c.Semaphore(name, 1).Lock },
	}
	for _, bin := range server.Binaries(t) {
		for kind, lock := range kinds {
			t.Run(bin.Name+"/"+kind, func(t *testing.T) {
				old, heir := server.Start(t, bin), server.Start(t, bin)
				follow := func(s *server.Server, host, port string) {
					t.Helper()
					if _, err := s.Do("REPLICAOF", host, port); err != nil {
						t.Fatal(err)
					}
				}
				host, port, _ := net.SplitHostPort(old.Addr())
				follow(heir, host, port)
				var master atomic.Pointer[server.Server]
				master.Store(old)
				rdb := redis.NewClient(&redis.Options{Addr: "the master", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "tcp", master.Load().Addr())
				}})
				t.Cleanup(func() { _ = rdb.Close() })
				c, err := holdfast.New(holdfastgoredis.New(rdb), nil)
				if err != nil {
					t.Fatal(err)
				}
				backend.CloseWith(t, c)
				held := backend.Acquire(t, lock(c, "held"))
				backend.Release(t, backend.Acquire(t, lock(c, "other"))) // both of the client's pools are connected
				old.AwaitInStep()
				follow(heir, "NO", "ONE")
				follow(old, "127.0.0.1", "1") // where nobody is: it knows only what was
				master.Store(heir)

				backend.Release(t, backend.Acquire(t, lock(c, "a")))
				if err := held.Extend(t.Context(), time.Minute); err != nil {
					t.Errorf("Extend: %v", err)
				}
				backend.Release(t, held)
			})
		}
	}
}
