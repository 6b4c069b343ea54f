package topology

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
	"github.com/holdfast-go/holdfast/holdfastvalkey"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A Cluster's master hangs, or is cut off from some clients, and is not replaced. Its leases end by their
// deadlines, without overlaps; locks of other masters are renewed, handed over and granted meanwhile; afterwards all
// its locks are granted again.
func TestAnIsolatedMaster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		t.Run("it hangs", func(t *testing.T) {
			t.Parallel()
			w := newIsland(t, bin)
			w.isolate, w.heal = w.nodes[0].Pause, w.nodes[0].Resume
			w.run()
		})
		t.Run("it is cut off", func(t *testing.T) {
			t.Parallel()
			w := newIsland(t, bin)
			// Requests that were sent meanwhile are lost, and so are the connections.
			w.isolate = func() {
				w.proxy.SwallowReplies(true)
				w.proxy.DelayRequests(time.Hour)
			}
			w.heal = func() {
				w.proxy.SwallowReplies(false)
				w.proxy.DelayRequests(0)
				w.proxy.Cut()
			}
			w.near = w.open(nil).client(t, unhurried)
			w.run()
		})
	})
}

// unhurried lets a master that stands still for two seconds answer.
var unhurried = &holdfast.Config{CommandTimeout: 6 * time.Second, RetryTimeout: 8 * time.Second}

// island is a Cluster of three masters without replicas, the first of which will be isolated.
type island struct {
	t     *testing.T
	nodes []*server.Server
	proxy *proxy.Proxy // in front of the first master

	isolate, heal func()
	near          *holdfast.Client // reaches the first master at all times; may be nil

	mine, others []string // names of locks on the first master, and on the others
	record       *history.Recorder
	asked        atomic.Int64
}

func newIsland(t *testing.T, bin server.Binary) *island {
	t.Helper()
	w := &island{t: t, record: history.NewRecorder(nil)}
	w.nodes = server.StartCluster(t, bin, 3, server.Conf("cluster-require-full-coverage", "no"))
	w.proxy = proxy.New(t, w.nodes[0].Addr())
	for _, name := range names(30) {
		if first := slotOf(name)*3/16384 == 0; first && len(w.mine) < 4 {
			w.mine = append(w.mine, name)
		} else if !first && len(w.others) < 6 {
			w.others = append(w.others, name)
		}
	}
	return w
}

// open returns an opener of clients that reach the first master through p, or directly if p is nil.
func (w *island) open(p *proxy.Proxy) opener {
	var addrs []string
	for _, s := range w.nodes {
		addrs = append(addrs, s.Addr())
	}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p != nil && addr == addrs[0] {
			addr = p.Addr()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	return func(t *testing.T) drivertest.Driver {
		switch backend.Adapter(t) {
		case "rueidis":
			return drivertest.Of(holdfastrueidis.NewDriver(rueidis.ClientOption{
				InitAddress: addrs,
				DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
					return dial(ctx, "tcp", addr)
				},
			}))
		case "valkey":
			return drivertest.Of(holdfastvalkey.NewDriver(valkey.ClientOption{
				InitAddress: addrs,
				DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
					return dial(ctx, "tcp", addr)
				},
			}))
		}
		return goRedis(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Dialer: dial}))
	}
}

// tenure is a lease whose history is recorded.
type tenure struct {
	*holdfast.Lease
	attempt *history.Attempt
}

// take acquires a lock. If it is told that the master does not answer, it asks again.
func (w *island) take(c *holdfast.Client, name string, ttl time.Duration) *tenure {
	for w.t.Context().Err() == nil {
		a := w.record.Ask(int(w.asked.Add(1)), name)
		lease, err := c.Mutex(name, holdfast.TTL(ttl)).Acquire(w.t.Context())
		if err == nil {
			a.Granted(lease.Fence(), lease.Deadline(), 0)
			return &tenure{lease, a}
		}
		a.GaveUp()
		if kindOf(err) != holdfast.ErrUnavailable && w.t.Context().Err() == nil {
			w.t.Errorf("Acquire(%q): %v", name, err)
			return nil
		}
	}
	return nil
}

func (w *island) start(c *holdfast.Client, name string, ttl time.Duration) <-chan *tenure {
	got := make(chan *tenure, 1)
	go func() { got <- w.take(c, name, ttl) }()
	return got
}

// await waits for the lease from start.
func (w *island) await(got <-chan *tenure, name, when string) (of *tenure) {
	w.t.Helper()
	backend.Eventually(w.t, name+" is granted "+when, func() bool {
		select {
		case of = <-got:
			return true
		default:
			return false
		}
	})
	if of == nil {
		w.t.Fatalf("no lease of %q", name)
	}
	return of
}

// leave releases a lease.
func (w *island) leave(of *tenure) {
	w.t.Helper()
	of.attempt.Released(of.Deadline())
	backend.Release(w.t, of.Lease)
}

// ends waits until a lease is lost, which Err must report from the deadline on.
func (of *tenure) ends(t *testing.T) {
	t.Helper()
	backend.Eventually(t, "the lease of "+of.Name()+" ends", func() bool {
		deadline := of.Deadline()
		over := time.Now().After(deadline)
		err := of.Err()
		if over && err == nil && of.Deadline().Equal(deadline) {
			t.Fatalf("the lease of %q is believed in after its deadline", of.Name())
		}
		select {
		case <-of.Done():
			return true
		default:
			return false
		}
	})
	of.attempt.Released(of.Deadline())
	var lost *holdfast.LostError
	if err := of.Err(); !errors.As(err, &lost) || lost.Reason == holdfast.LossTaken || lost.Reason == holdfast.LossDeleted {
		t.Errorf("the lease of %q has ended with %v", of.Name(), err)
	}
	if cause := context.Cause(of.Context(context.Background())); !errors.Is(cause, holdfast.ErrLost) {
		t.Errorf("its context has ended with %v", cause)
	}
}

func (w *island) run() {
	t := w.t
	const brief, longer = 5 * time.Second, 15 * time.Second
	far := w.open(w.proxy)
	holder, waiter, third := far.client(t, unhurried), far.client(t, unhurried), far.client(t, unhurried)
	all := append(append([]string{}, w.mine...), w.others...)
	ttl := func(i int) time.Duration {
		if i < len(w.mine) {
			return brief
		}
		return longer
	}
	held := make([]*tenure, len(all))
	next := make([]<-chan *tenure, len(all))
	for i, name := range all {
		held[i] = w.take(holder, name, ttl(i))
	}
	for i, name := range all {
		next[i] = w.start(waiter, name, ttl(i))
	}
	for _, name := range all {
		backend.Waiters(t, third.Mutex(name), 1)
	}
	w.isolate()
	before := make([]time.Time, len(all))
	for i := range all {
		before[i] = held[i].Deadline()
	}

	// Clients on the master's side of the cut get its locks when the leases are over: not earlier, and with a
	// higher fence, which the history shows.
	var nearby []<-chan *tenure
	if w.near != nil {
		for _, name := range w.mine {
			nearby = append(nearby, w.start(w.near, name, longer))
		}
	}
	for i := range w.mine {
		held[i].ends(t)
	}
	var beside []*tenure
	for i, got := range nearby {
		beside = append(beside, w.await(got, w.mine[i], "by its master to a client that reaches it"))
	}
	for i := len(w.mine); i < len(all); i++ {
		backend.Eventually(t, "the lease of "+all[i]+" is renewed", func() bool { return held[i].Deadline().After(before[i]) })
		if err := held[i].Err(); err != nil {
			t.Fatalf("%q, on another master: %v", all[i], err)
		}
		w.leave(held[i])
		w.leave(w.await(next[i], all[i], "by another master"))
		for range 10 {
			w.leave(w.take(third, all[i], longer))
		}
	}
	for i, name := range w.mine {
		select {
		case of := <-next[i]:
			t.Errorf("%q is granted to a client that cannot reach its master: %v", name, of)
		default:
		}
	}

	w.heal()
	for _, of := range beside {
		if err := of.Err(); err != nil {
			t.Errorf("%q, of a client that could reach the master: %v", of.Name(), err)
		}
		w.leave(of)
	}
	for i, name := range w.mine {
		w.leave(w.await(next[i], name, "after the master is back"))
		for _, c := range []*holdfast.Client{holder, waiter, third} {
			w.leave(w.await(w.start(c, name, longer), name, "again"))
		}
	}
	events, err := w.record.Events()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range history.Check(events) {
		t.Error(v)
	}
}
