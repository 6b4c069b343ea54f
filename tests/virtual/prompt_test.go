package virtual

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// counted is a path to a server, and counts connections.
type counted struct {
	srv  *holdfasttest.Server
	slow atomic.Bool // scripts are not answered; connections can be made

	maxAge, maxIdle time.Duration // of connections, as clients are told

	mu             sync.Mutex
	opened, closed int // closed by the client
}

func (w *counted) counts() (opened, closed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened, w.closed
}

// client returns a new client whose calls nothing intercepts.
func (w *counted) client(t *testing.T) *holdfast.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", DialerRetries: 1, PoolSize: 4096, ConnMaxLifetime: w.maxAge, ConnMaxIdleTime: w.maxIdle, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := w.srv.Dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.opened++
		return &countedConn{Conn: conn, w: w}, nil
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := holdfastgoredis.New(rdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.slow.Store(false)
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

type countedConn struct {
	net.Conn
	w    *counted
	once sync.Once
}

func (c *countedConn) Write(p []byte) (int, error) {
	if c.w.slow.Load() && bytes.Contains(p, []byte("evalsha")) {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		c.w.closed++
	})
	return c.Conn.Close()
}

// cycle acquires and releases a lock with a context that can be cancelled.
func cycle(t *testing.T, l *holdfast.Lock) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lease, err := l.Acquire(ctx)
	if err == nil {
		err = lease.Release(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// giveUp asks for a lock for 20 ms, in vain, and returns how many connections that closed.
func (w *counted) giveUp(t *testing.T, l *holdfast.Lock) (closed int) {
	t.Helper()
	const patience = 20 * time.Millisecond
	_, before := w.counts()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	_, err := l.Acquire(ctx)
	if took := time.Since(began); took != patience || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after %v: %v", took, err)
	}
	synctest.Wait()
	_, after := w.counts()
	return after - before
}

// promptly returns a client's lock whose next call is sent in the caller's goroutine.
func (w *counted) promptly(t *testing.T) *holdfast.Lock {
	t.Helper()
	l := w.client(t).Mutex("a")
	for range 2 {
		cycle(t, l)
		time.Sleep(10 * time.Millisecond) // a connection is made meanwhile
	}
	return l
}

// Fault: The server does not answer scripts for a while, and callers with short contexts come one after the other. Each
// returns when its context ends, and not each costs a connection.
func TestCallersThatGiveUpOnASlowServerCostOneConnection(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		w := &counted{srv: srv}
		l := w.promptly(t)
		w.slow.Store(true)
		closed := w.giveUp(t, l)
		if closed != 1 {
			t.Fatalf("%d connections were closed, want the one on which the caller waited", closed)
		}
		for range 40 {
			closed += w.giveUp(t, l)
		}
		if closed != 1 {
			t.Errorf("%d connections were closed within a second", closed)
		}
	})
}

// Fault: Many callers give up although the server answers others. They do not cost a connection each.
func TestCallersThatGiveUpOftenCostFewConnections(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		w := &counted{srv: srv}
		l := w.promptly(t)
		closed := 0
		for range 10 {
			w.slow.Store(true)
			closed += w.giveUp(t, l)
			w.slow.Store(false)
			for range 3 {
				cycle(t, l)
				time.Sleep(10 * time.Millisecond)
			}
		}
		if closed != 1 {
			t.Errorf("%d connections were closed within a second, want 1", closed)
		}
	})
}

func TestTheConnectionOfACallerThatGaveUpIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		w := &counted{srv: srv}
		l := w.promptly(t)
		for range 3 {
			w.slow.Store(true)
			if closed := w.giveUp(t, l); closed != 1 {
				t.Errorf("%d connections were closed, want the one on which the caller waited", closed)
			}
			w.slow.Store(false)
			time.Sleep(time.Minute) // what is under way ends, and what was granted is taken back
			cycle(t, l)
			time.Sleep(10 * time.Millisecond)
			opened, closed := w.counts()
			for range 10 {
				cycle(t, l)
			}
			if o, c := w.counts(); o != opened || c != closed {
				t.Errorf("%d connections were opened and %d closed by callers that waited", o-opened, c-closed)
			}
		}
	})
}

// The connection of lone callers is used no longer than the user wants of all connections.
func TestTheConnectionOfLoneCallersIsReplacedInTime(t *testing.T) {
	for name, w := range map[string]*counted{
		"age":      {maxAge: 10 * time.Second},
		"idleness": {maxIdle: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
				w.srv = srv
				l := w.promptly(t)
				opened, closed := w.counts()
				const pause = 1900 * time.Millisecond
				for range 3 {
					time.Sleep(pause)
					cycle(t, l)
				}
				if o, c := w.counts(); o != opened || c != closed {
					t.Errorf("%d connections were opened and %d closed too early", o-opened, c-closed)
				}
				time.Sleep(max(w.maxAge-3*pause, w.maxIdle) + time.Second)
				cycle(t, l)
				synctest.Wait()
				if _, c := w.counts(); c == closed {
					t.Error("no connection was closed")
				}
			})
		})
	}
}

// still is a server that accepts connections and does not answer, as if it were stopped.
type still struct{ counted }

// driver returns a new driver whose user lets reads take an hour, and has made it make a connection that is not greeted.
func (w *still) driver(t *testing.T) driver.Driver {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", ReadTimeout: time.Hour, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := w.srv.Dial(ctx, network, addr)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.opened++
		return &stillConn{countedConn{Conn: conn, w: &w.counted}}, err
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	d, err := holdfastgoredis.NewDriver(rdb)
	if err != nil {
		t.Fatal(err)
	}
	w.slow.Store(true)
	w.echo(t, d, driver.ErrNotSent)
	synctest.Wait()
	if opened, closed := w.counts(); opened != 1 || closed != 0 {
		t.Fatalf("%d connections were opened and %d closed, want one that waits", opened, closed)
	}
	return d
}

// echo sends a call promptly, and tests what it meets.
func (w *still) echo(t *testing.T, d driver.Driver, want error) {
	t.Helper()
	call := driver.Call{Script: driver.Script{Name: "echo", Command: "echo"}, Args: []string{"a"}}
	if reply, err := d.(driver.Prompt).RunPrompt(t.Context(), time.Now().Add(time.Minute), call); !errors.Is(err, want) || err == nil && reply != "a" {
		t.Errorf("RunPrompt = %q, %v, want %v", reply, err, want)
	}
}

// stillConn is a connection to such a server.
type stillConn struct{ countedConn }

func (c *stillConn) Write(p []byte) (int, error) {
	if c.w.slow.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Fault: The server accepts a lone caller's connection and stops before it answers HELLO. Close does not wait for it.
func TestCloseDoesNotWaitForAGreeting(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		w := &still{counted{srv: srv}}
		d := w.driver(t)
		began := time.Now()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %v", took)
		}
		synctest.Wait()
		if opened, closed := w.counts(); opened != closed {
			t.Errorf("%d of %d connections were closed", closed, opened)
		}
	})
}

// Fault: The server accepts a lone caller's connection and never answers HELLO on it. Another connection is made.
func TestAConnectionThatIsNotGreetedIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		w := &still{counted{srv: srv}}
		d := w.driver(t)
		defer d.Close()
		w.slow.Store(false)
		time.Sleep(15 * time.Second)
		w.echo(t, d, driver.ErrNotSent)
		time.Sleep(10 * time.Millisecond)
		w.echo(t, d, nil)
		if opened, closed := w.counts(); opened != 2 || closed != 1 {
			t.Errorf("%d connections were opened and %d closed", opened, closed)
		}
	})
}
