// Package virtual tests what takes minutes, in bubbles of testing/synctest, where time advances as soon as
// everybody waits for it.
package virtual

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// bubble runs f with a server of its own. What f opens is closed before the bubble ends.
func bubble(t *testing.T, f func(t *testing.T, srv *holdfasttest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, holdfasttest.Run(t)) })
}

// bubbleOf is bubble in a subtest.
func bubbleOf(t *testing.T, what string, f func(t *testing.T, srv *holdfasttest.Server)) {
	t.Helper()
	t.Run(what, func(t *testing.T) { bubble(t, f) })
}

// ways are the ways of sending a client's requests, set by Config.ViaClient.
var ways = map[string]holdfast.Config{"natively": {}, "by script": {ViaClient: true}}

// eachWay is bubble, once for each way of sending requests.
func eachWay(t *testing.T, f func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config)) {
	t.Helper()
	for name, cfg := range ways {
		bubbleOf(t, name, func(t *testing.T, srv *holdfasttest.Server) { f(t, srv, cfg) })
	}
}

// eachWayOf is eachWay in a subtest.
func eachWayOf(t *testing.T, what string, f func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config)) {
	t.Helper()
	t.Run(what, func(t *testing.T) { eachWay(t, f) })
}

// client returns a new client, like one in another process. wrap may put something between it and its driver.
func client(t *testing.T, srv *holdfasttest.Server, wrap ...wrapper) *holdfast.Client {
	t.Helper()
	return configured(t, srv, holdfast.Config{}, wrap...)
}

// configured is client with a configuration.
func configured(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config, wrap ...wrapper) *holdfast.Client {
	t.Helper()
	return opened(t, srv.Dial, cfg, func(*redis.Options) {}, wrap...)
}

// dialer opens connections.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// opened returns a new client over a go-redis client that opens its connections so, and may be changed otherwise.
func opened(t *testing.T, dial dialer, cfg holdfast.Config, change func(*redis.Options), wrap ...wrapper) *holdfast.Client {
	t.Helper()
	// go-redis would look a name up in real time, and has one set of timers for all goroutines that wait for a
	// connection, across bubbles.
	o := &redis.Options{Addr: "127.0.0.1:0", Dialer: dial, PoolSize: 4096}
	change(o)
	rdb := redis.NewClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	d := drivertest.Of(holdfastgoredis.NewDriver(rdb))
	for _, f := range wrap {
		d = f(d)
	}
	c := expect.Of(holdfast.New(d, &cfg)).OK(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		expect.Err(t, "Close", c.Close(ctx), nil)
	})
	return c
}

// alive requires that none of the leases is over, and releases them.
func alive(t *testing.T, leases []*holdfast.Lease) {
	t.Helper()
	for _, lease := range leases {
		expect.Err(t, lease.Name(), lease.Err(), nil)
		release(t, lease)
	}
}

// lostBy requires that err is the loss of a lease, for that reason.
func lostBy(t *testing.T, err error, reason holdfast.LossReason) {
	t.Helper()
	var lost *holdfast.LostError
	if !errors.As(err, &lost) || lost.Reason != reason {
		t.Errorf("the lease ended with %v; want %q", err, reason)
	}
}

// waiting is an Acquire under way.
type waiting struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it has returned
	at     time.Time     // when it returned
	lease  *holdfast.Lease
	err    error
}

// wait acquires the lock in a goroutine, and returns when that waits.
func wait(t *testing.T, l *holdfast.Lock) *waiting {
	t.Helper()
	return waitFor(t, l, time.Second)
}

// waitFor is wait, but returns after that time.
func waitFor(t *testing.T, l *holdfast.Lock, d time.Duration) *waiting {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &waiting{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lease, w.err = l.Acquire(ctx)
		w.at = time.Now()
	}()
	time.Sleep(d)
	select {
	case <-w.done:
		t.Fatalf("Acquire of a held lock returned %v", w.err)
	default:
	}
	return w
}

// over waits until Acquire has returned.
func (w *waiting) over(t *testing.T) {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(24 * time.Hour):
		t.Fatal("the waiter is not served")
	}
}

// granted waits until w has the lock.
func (w *waiting) granted(t *testing.T) *holdfast.Lease {
	t.Helper()
	if w.over(t); w.err != nil {
		t.Fatalf("Acquire: %v", w.err)
	}
	return w.lease
}

// giveUp ends w's context, and returns Acquire's error.
func (w *waiting) giveUp() error {
	w.cancel()
	<-w.done
	return w.err
}

// served waits until w has the lock, and checks that it took no longer than limit.
func (w *waiting) served(t *testing.T, limit time.Duration) {
	t.Helper()
	begun := time.Now()
	w.over(t)
	switch {
	case w.err != nil:
		t.Errorf("Acquire: %v", w.err)
		return
	case w.at.Sub(begun) > limit:
		t.Errorf("the waiter was served after %s", w.at.Sub(begun))
	}
	release(t, w.lease)
}

// lasting returns a context that ends after that time.
func lasting(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// left returns how long the server will keep the lock with that name.
func left(t *testing.T, srv *holdfasttest.Server, name string) time.Duration {
	t.Helper()
	return server(t, srv).PTTL(t.Context(), "holdfast:{"+name+"}").Val()
}

func acquire(t *testing.T, l *holdfast.Lock) *holdfast.Lease {
	t.Helper()
	return expect.Of(l.Acquire(t.Context())).OK(t)
}

func release(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	expect.Err(t, "Release", l.Release(context.Background()), nil)
}

// async calls f in a goroutine, and returns where its result will be.
func async[T any](f func() T) <-chan T {
	over := make(chan T, 1)
	go func() { over <- f() }()
	return over
}

// A waiter is told to look when the lock may expire, because the one before it leaves. It must look before
// that, too: nobody else keeps the queue alive.
//
// Fault: The contexts of waiters end. They leave the queue, and those behind them are served.
//
// Bug: Live waiters are expelled from the queue.
func TestWaiterWhoMovesUpStaysInTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		ttl := holdfast.TTL(10 * time.Minute)
		lease := acquire(t, client(t, srv).Mutex("a", ttl))
		first := wait(t, client(t, srv).Mutex("a", ttl))
		second := wait(t, client(t, srv).Mutex("a", ttl))
		first.cancel()
		<-first.done
		expect.Equal(t, "Acquire", first.err, context.Canceled)
		time.Sleep(5 * time.Minute)
		release(t, lease)
		second.served(t, time.Second)
	})
}

// Fault: The server refuses all writes when a lock is released. Release says so; the lock is released in the background for as
// long as it may last, and its waiter need not wait for the TTL. A Release after that is ambiguous, which is no loss of the lease.
//
// Bug: A failed release drops the token, so that nobody can repeat it.
func TestBackgroundReleaseOutlivesALongRefusal(t *testing.T) {
	for what, c := range map[string]struct {
		with driver.ReplyError
		want error
	}{
		"too few replicas": {"NOREPLICAS Not enough good replicas to write.", backend.Code("NOREPLICAS")},
		"no permission":    {"NOPERM User default has no permissions to run the 'get' command", holdfast.ErrDenied},
	} {
		eachWayOf(t, what, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			var refuses atomic.Bool
			lease := acquire(t, configured(t, srv, cfg, meddle(func(r request) (string, error) {
				if refuses.Load() && r.does("release") {
					return "", c.with
				}
				return r.send()
			})).Mutex("a", holdfast.TTL(10*time.Minute)))
			next := wait(t, client(t, srv).Mutex("a"))
			refuses.Store(true)
			if err := lease.Release(t.Context()); !backend.Matches(err, c.want) {
				t.Errorf("Release: %v", err)
			}
			time.Sleep(5 * time.Minute)
			refuses.Store(false)
			next.served(t, 10*time.Second)
			expect.ErrBut(t, "Release again", lease.Release(t.Context()), holdfast.ErrAmbiguous, holdfast.ErrLost)
			expect.Err(t, "Release once more", lease.Release(t.Context()), nil)
		})
	}
}

// If no lock of a client has had a waiter for a minute, the client has no subscription; nor has one that has held no lock for
// two.
//
// Bug: Channels are never unsubscribed.
func TestAnIdleSubscriptionIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		observer := server(t, srv)
		channels := func() int {
			all := observer.PubSubChannels(t.Context(), "*").Val()
			return len(slices.DeleteFunc(all, func(name string) bool { return name == "holdfast:c:h" }))
		}
		c := client(t, srv)
		for range 2 { // it is opened again when it is needed
			lease := acquire(t, client(t, srv).Mutex("a"))
			next := wait(t, c.Mutex("a"))
			expect.Equal(t, "channels while somebody waits", channels(), 1)
			release(t, lease)
			next.served(t, time.Second)
			time.Sleep(50 * time.Second)
			expect.Equal(t, "channels soon after", channels(), 1)
			time.Sleep(15 * time.Second)
			expect.Equal(t, "channels after a minute", channels(), 0)
		}
		lease := acquire(t, c.Mutex("a"))
		time.Sleep(5 * time.Minute)
		heard := func() int64 { return observer.PubSubNumSub(t.Context(), "holdfast:c:h").Val()["holdfast:c:h"] }
		expect.Equal(t, "those who hear operators while a lock is held", heard(), 1)
		release(t, lease)
		time.Sleep(2 * time.Minute)
		expect.Equal(t, "those who hear operators when no lock is held", heard(), 0)
	})
}
