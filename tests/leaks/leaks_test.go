// Package leaks uses locks a great many times, in every way that can leave something behind, and checks what is
// left.
package leaks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
	"github.com/holdfast-go/holdfast/transfer"
)

// maxGrowth is how much the heap may have grown at the end. Pools of connections, and maps that have been full,
// keep some of their memory. A leak in every cycle shows from 50 bytes on, and in a soak from a byte on.
const maxGrowth = 512 << 10

// Fault: A million acquires in a soak: many are given up, locks are deleted, connections are killed, clients are
// closed. Goroutines, heap, keys, channels and connections are as before.
//
// Bug: Queues, tickers or channels are left behind.
func TestNothingIsLeftOfManyCycles(t *testing.T) {
	cycles, others := 10_000, 2_000 // a leak in the client shows with any server
	if soak.Long() {
		cycles, others = 1_000_000, 100_000
	}
	backend.EachRealInTurn(t, func(t *testing.T, b *backend.Backend) {
		defer func() { cycles = others }()
		u := &use{b: b, observer: b.Redis(t, small, func(o *redis.Options) { o.PoolSize = 1 })}
		u.observer.Ping(t.Context())
		before := look(t, u.observer)

		rdb := redis.NewClient(options(b))
		lasting := expect.Of(holdfastgoredis.New(rdb, &patient)).OK(t)
		u.lasting = lasting
		u.rounds(t, cycles/5) // so that everything that is made only once exists
		warm := look(t, u.observer)
		begun := time.Now()
		u.rounds(t, cycles)
		took := time.Since(begun)
		backend.Eventually(t, "the goroutines are as many as before", func() bool { return runtime.NumGoroutine() <= warm.goroutines })
		backend.Eventually(t, "the channels of clients that are closed are gone", func() bool {
			return len(backend.Channels(t, u.observer)) <= 1
		})
		after := look(t, u.observer)
		t.Logf("%d cycles in %s: %d granted, %d given up, %d held by another, %d lost, %d closed, %d unsure; %d clients closed, %d times connections killed",
			u.cycles.Load(), took.Round(time.Millisecond), u.granted.Load(), u.gaveUp.Load(), u.held.Load(), u.lost.Load(), u.closed.Load(), u.unsure.Load(), u.clients, u.kills)
		t.Logf("a client in use before: %s", warm)
		t.Logf("a client in use after:  %s", after)
		expect.AtMost(t, fmt.Sprintf("growth of the heap in %d cycles", cycles), int64(after.heap)-int64(warm.heap), maxGrowth)
		expect.AtMost(t, "channels for one client", after.channels, 1)
		for what, n := range map[string]int64{"granted": u.granted.Load(), "given up": u.gaveUp.Load(), "held": u.held.Load(), "lost": u.lost.Load(), "closed": u.closed.Load()} {
			if n == 0 {
				t.Errorf("no acquire was %s: the test is not what it seems", what)
			}
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		expect.Err(t, "Close", errors.Join(lasting.Close(ctx), rdb.Close()), nil)
		u.lasting, lasting, rdb = nil, nil, nil
		backend.Eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before.goroutines })
		backend.Eventually(t, "only tombstones are left", func() bool { return u.onlyTombstones(t) })
		backend.Eventually(t, "the connections are gone", func() bool { return connections(t, u.observer) == before.connections })
		end := look(t, u.observer)
		t.Logf("nothing in use before:  %s", before)
		t.Logf("nothing in use after:   %s", end)
		expect.AtMost(t, "bytes by which the heap has grown when all is closed", int64(end.heap)-int64(before.heap), maxGrowth)
		expect.Equal(t, "channels are left", end.channels, 0)
	})
}

// patient has a timeout that a machine which stands still for two seconds does not reach.
var patient = holdfast.Config{CommandTimeout: 4 * time.Second}

// small makes buffers of idle connections too small to hide a leak.
func small(o *redis.Options) { o.ReadBufferSize, o.WriteBufferSize, o.PoolSize = 4096, 4096, 8 }

func options(b *backend.Backend) *redis.Options {
	o := &redis.Options{Addr: b.Server.Addr()}
	small(o)
	return o
}

// picture records what exists at one moment.
type picture struct {
	goroutines  int
	heap        uint64 // bytes in use after a collection
	channels    int
	connections int
}

func (p picture) String() string {
	return fmt.Sprintf("%d goroutines, %d kB of heap, %d channels, %d connections", p.goroutines, p.heap/1024, p.channels, p.connections)
}

func look(t *testing.T, observer *redis.Client) picture {
	t.Helper()
	runtime.GC()
	runtime.GC() // pools keep some things for one more collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	// A client that has had a lease for a second, which slow machines bring about, hears the channel that is left out for a
	// minute more. If it did after it was closed, its connection would be left.
	return picture{runtime.NumGoroutine(), m.HeapAlloc, len(backend.Channels(t, observer)), connections(t, observer)}
}

func connections(t *testing.T, observer *redis.Client) int {
	t.Helper()
	list := expect.Of(observer.ClientList(t.Context()).Result()).OK(t)
	return strings.Count(list, "\n")
}

// use is a test's use of one server.
type use struct {
	b        *backend.Backend
	observer *redis.Client
	lasting  *holdfast.Client // not closed between rounds

	clients, kills int // done in rounds by one goroutine at a time
	cycles         atomic.Int64

	granted, gaveUp, held, lost, closed, unsure atomic.Int64
}

// rounds does at least that many cycles, with a further client for every few hundred.
func (u *use) rounds(t *testing.T, cycles int) {
	t.Helper()
	for end := u.cycles.Load() + int64(cycles); u.cycles.Load() < end && !t.Failed(); {
		rdb := redis.NewClient(options(u.b))
		passing := expect.Of(holdfastgoredis.New(rdb, &patient)).OK(t)
		u.clients++
		var wg sync.WaitGroup
		for g := range 16 {
			c := u.lasting
			if g%4 == 0 {
				c = passing
			}
			wg.Go(func() {
				for range 50 {
					if !u.cycle(t, c) {
						return
					}
				}
			})
		}
		switch u.clients % 4 {
		case 0:
			u.kill(t, "normal")
		case 1:
			u.kill(t, "pubsub")
		}
		time.Sleep(rand.N(10 * time.Millisecond)) // some of its goroutines wait, others hold
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		expect.Err(t, "Close", passing.Close(ctx), nil)
		cancel()
		wg.Wait()
		expect.Err(t, "Close", rdb.Close(), nil)
	}
}

// onlyTombstones reports whether every key but the fence counter is a queue without
// waiters that ends within 9 s, when no request that was given up can arrive any more.
func (u *use) onlyTombstones(t *testing.T) bool {
	t.Helper()
	keys := expect.Of(u.observer.Keys(t.Context(), "*").Result()).OK(t)
	for _, key := range keys {
		if key == "holdfast:fences" {
			continue
		}
		waiters, err := u.observer.ZCount(t.Context(), key, "0", "+inf").Result()
		if err != nil || waiters != 0 || u.observer.PTTL(t.Context(), key).Val() > 9*time.Second {
			return false
		}
	}
	return true
}

// kill breaks all connections of a kind but the observer's.
func (u *use) kill(t *testing.T, kind string) {
	t.Helper()
	u.kills++
	expect.Err(t, "Err", u.observer.ClientKillByFilter(t.Context(), "TYPE", kind, "SKIPME", "yes").Err(), nil)
}

// carry detaches a lease and adopts the lock, as another process would. It returns the lease that is left, if any.
func carry(ctx context.Context, c *holdfast.Client, lease *holdfast.Lease) (*holdfast.Lease, error) {
	ticket, err := transfer.Detach(ctx, lease, 10*time.Second)
	if err != nil {
		return lease, err
	}
	return transfer.Adopt(ctx, c, ticket)
}

// cycle acquires one of a few locks, or one that nothing else ever uses. It reports whether the client can
// still be used.
func (u *use) cycle(t *testing.T, c *holdfast.Client) bool {
	n := u.cycles.Add(1)
	l := c.Mutex(fmt.Sprint("shared", rand.N(6)))
	ctx := t.Context()
	way := rand.N(10)
	var lease *holdfast.Lease
	var err error
	switch way {
	case 0, 1, 2: // usually it gives up
		short, cancel := context.WithTimeout(ctx, rand.N(2*time.Millisecond))
		lease, err = l.Acquire(short)
		cancel()
	case 3, 4:
		lease, err = l.TryAcquire(ctx)
	case 5, 6, 9:
		l = c.Mutex(fmt.Sprint("own", n))
		lease, err = l.Acquire(ctx)
	default:
		lease, err = l.Acquire(ctx)
	}
	if err == nil {
		u.granted.Add(1)
		if way == 9 {
			u.observer.Del(ctx, "holdfast:{"+l.Name()+"}")
		}
		if way%2 == 0 {
			lease.Context(context.Background()) // the context is made when it is asked for
		}
		if way == 5 || way == 7 {
			lease, err = carry(ctx, c, lease)
		}
		if lease != nil {
			err = lease.Release(ctx)
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded), way <= 2 && errors.Is(err, holdfast.ErrUnavailable): // no time was left to try again
		u.gaveUp.Add(1)
	case errors.Is(err, holdfast.ErrHeld):
		u.held.Add(1)
	case errors.Is(err, holdfast.ErrLost):
		u.lost.Add(1)
	case err == holdfast.ErrClosed:
		u.closed.Add(1)
		return false
	case errors.Is(err, holdfast.ErrAmbiguous):
		u.unsure.Add(1)
	default:
		t.Errorf("%s, way %d: %v", l.Name(), way, err)
	}
	return true
}
