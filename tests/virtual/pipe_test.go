package virtual

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// still is a way to a server that accepts connections and, while it is stopped, does not answer on new ones. It counts those.
type still struct {
	stopped        atomic.Bool
	opened, closed atomic.Int64
}

// client returns a client that is connected, but for the connection of its pipe. Its user lets reads take an hour.
func (w *still) client(t *testing.T, srv *holdfasttest.Server) *holdfast.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", ReadTimeout: time.Hour, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := srv.Dial(ctx, network, addr)
		if err != nil || !w.stopped.Load() {
			return conn, err
		}
		w.opened.Add(1)
		return &swallowing{Conn: conn, w: w}, nil
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := holdfastgoredis.New(rdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.stopped.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	if _, err := c.Mutex("a").Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
		t.Errorf("an acquire whose connection is not greeted: %v after %s", err, time.Since(began))
	}
	if opened, closed := w.opened.Load(), w.closed.Load(); opened != 1 || closed != 0 {
		t.Fatalf("%d connections were opened and %d closed, want one that waits", opened, closed)
	}
	return c
}

// swallowing is a connection to such a server. Nothing that is sent on it arrives.
type swallowing struct {
	net.Conn
	w    *still
	ends atomic.Bool
}

func (c *swallowing) Write(p []byte) (int, error) { return len(p), nil }

func (c *swallowing) Close() error {
	if !c.ends.Swap(true) {
		c.w.closed.Add(1)
	}
	return c.Conn.Close()
}

// Fault: The server accepts the pipe's connection and never answers HELLO on it. Another connection is made.
func TestAConnectionThatIsNotGreetedIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var w still
		c := w.client(t, srv)
		w.stopped.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		lease, err := c.Mutex("a").Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if closed := w.closed.Load(); closed != 1 {
			t.Errorf("%d connections were closed", closed)
		}
	})
}

// remote is a connection to a server that is far away.
type remote struct {
	net.Conn
	asked atomic.Bool
}

const distance = 30 * time.Millisecond // there and back

func (c *remote) Write(p []byte) (int, error) {
	c.asked.Store(true)
	return c.Conn.Write(p)
}

func (c *remote) Read(p []byte) (int, error) {
	if c.asked.Swap(false) {
		time.Sleep(distance)
	}
	return c.Conn.Read(p)
}

// To make a connection takes several round trips, which together may take longer than a command may.
func TestAConnectionMayTakeLongerThanACommand(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(distance)
			conn, err := srv.Dial(ctx, network, addr)
			return &remote{Conn: conn}, err
		}})
		defer rdb.Close()
		cfg.CommandTimeout, cfg.RetryTimeout = 4*distance+distance/3, time.Second
		c, err := holdfastgoredis.New(rdb, &cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		for range 2 {
			release(t, acquire(t, c.Mutex("a")))
		}
	})
}
