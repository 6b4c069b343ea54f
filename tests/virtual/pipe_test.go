package virtual

import (
	"bytes"
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
	"github.com/holdfast-go/holdfast/internal/script"
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

// A caller gives up while its acquire is under way, and the server answers soon after. Then nothing more is released.
func TestASetThatIsAnsweredAfterItsCallerGaveUp(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		defer time.Sleep(distance) // until the last goroutine has seen that all is closed
		var releases atomic.Int64
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			server, err := srv.Dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			ours, theirs := net.Pipe()
			go func() {
				for b := make([]byte, 10_000); ; {
					n, err := theirs.Read(b)
					releases.Add(int64(bytes.Count(b[:n], []byte(script.Release().SHA1))))
					if _, failed := server.Write(b[:n]); err != nil || failed != nil {
						_ = server.Close()
						return
					}
				}
			}()
			go func() {
				for b := make([]byte, 10_000); ; {
					n, err := server.Read(b)
					time.Sleep(distance)
					if _, failed := theirs.Write(b[:n]); err != nil || failed != nil {
						_ = theirs.Close()
						return
					}
				}
			}()
			return ours, nil
		}})
		defer rdb.Close()
		c, err := holdfastgoredis.New(rdb, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		theirs := acquire(t, client(t, srv).Mutex("held"))
		defer release(t, theirs)
		for _, name := range []string{"free", "held"} {
			release(t, acquire(t, c.Mutex("first"))) // opens the connection
			releases.Store(0)
			ctx, cancel := context.WithTimeout(t.Context(), distance/2)
			defer cancel()
			if _, err := c.Mutex(name, holdfast.TTL(10*time.Minute)).TryAcquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			time.Sleep(time.Second)
			if exists(t, srv, "free") {
				t.Errorf("%s: the lock is set", name)
			}
			before := releases.Load()
			time.Sleep(20 * time.Minute)
			if n := releases.Load(); before == 0 || n != before {
				t.Errorf("%s: %d releases within a second, and then %d", name, before, n-before)
			}
		}
	})
}

// late is a connection on which answers take a while, in ns. If that is below 0, there are none.
type late struct {
	net.Conn
	by *atomic.Int64
}

func (c late) Write(b []byte) (int, error) {
	if c.by.Load() < 0 {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c late) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(max(time.Duration(c.by.Load()), 0))
	return n, err
}

// Everybody who asks a server gives up soon. It is lost if it does not answer within Config.CommandTimeout, and not if it answers later
// than they wait.
func TestAServerIsLostForThoseWhoGiveUpSoon(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		for takes, want := range map[time.Duration]int64{500 * time.Millisecond: 0, -1: 1} {
			var by, lost atomic.Int64
			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := srv.Dial(ctx, network, addr)
				return late{conn, &by}, err
			}})
			defer rdb.Close()
			cfg.CommandTimeout = time.Second
			cfg.Observers = []*holdfast.Observer{{ServerLost: func(holdfast.ServerEvent) { lost.Add(1) }}}
			c, err := holdfastgoredis.New(rdb, &cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			l := c.Mutex("a")
			release(t, acquire(t, l))
			time.Sleep(time.Second) // until the client has checked its server
			by.Store(int64(takes))
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := l.Status(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if time.Sleep(5 * time.Second); lost.Load() != want {
				t.Errorf("it answers after %s, and is lost %d times", takes, lost.Load())
			}
		}
	})
}

// A caller that gives up while a connection is being made has met no outage, unless none can be made.
func TestACallerGivesUpBeforeThereIsAConnection(t *testing.T) {
	eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
		for what, c := range map[string]struct {
			end  func(context.Context) (context.Context, context.CancelFunc)
			met  error // when a connection is made
			lost int64
		}{
			"its time is up": {end: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 200*time.Millisecond)
			}},
			"it is cancelled": {end: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(200*time.Millisecond, cancel)
				return ctx, cancel
			}},
			"none can be made": {end: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 200*time.Millisecond)
			}, met: errors.New("unreachable"), lost: 1},
		} {
			var slow, lost atomic.Int64
			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", MaxRetries: -1, DialerRetries: 1, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if slow.Load() == 0 {
					return srv.Dial(ctx, network, addr)
				}
				time.Sleep(500 * time.Millisecond)
				if c.met != nil {
					return nil, c.met
				}
				return srv.Dial(ctx, network, addr)
			}})
			defer rdb.Close()
			cfg.Observers = []*holdfast.Observer{{ServerLost: func(holdfast.ServerEvent) { lost.Add(1) }}}
			client, err := holdfastgoredis.New(rdb, &cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close(context.Background())
			release(t, acquire(t, client.Mutex("a")))
			time.Sleep(time.Hour) // after which the connection is not used again
			slow.Store(1)
			ctx, cancel := c.end(t.Context())
			defer cancel()
			if _, err := client.Mutex("a").TryAcquire(ctx); !errors.Is(err, ctx.Err()) || err == nil {
				t.Errorf("%s: %v", what, err)
			}
			if time.Sleep(time.Second); lost.Load() != c.lost {
				t.Errorf("%s: the server is lost %d times", what, lost.Load())
			}
			slow.Store(0)
			time.Sleep(10 * time.Second) // until go-redis has a connection again
		}
	})
}
