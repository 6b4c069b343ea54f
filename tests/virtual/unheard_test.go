package virtual

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// quiet is a logger for go-redis, which would log each connection that fails here.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(quiet{}) }

// way is the network path to a server, which can break.
type way struct {
	srv *holdfasttest.Server

	mu    sync.Mutex
	state state
	conns []net.Conn
}

type state int

const (
	well    state = iota
	refused       // nobody listens any more
	hung          // connections are accepted, and nothing is answered
	stuck         // scripts are not answered; subscriptions stay
)

func (w *way) become(s state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = s
	if s == refused {
		for _, c := range w.conns {
			_ = c.Close()
		}
		w.conns = nil
	}
}

func (w *way) is(s state) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state == s
}

func (w *way) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if w.is(refused) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	conn, err := w.srv.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == refused { // since then; the function that closed the others does not know this one
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	w.conns = append(w.conns, conn)
	return travelled{conn, w}, nil
}

// travelled is a connection whose server does not receive anything while the way is hung.
type travelled struct {
	net.Conn
	way *way
}

func (c travelled) Write(p []byte) (int, error) {
	if c.way.is(hung) {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// halting is a driver whose scripts are not answered while the way is stuck.
type halting struct {
	drivertest.Driver
	way *way
}

func (d halting) Run(ctx context.Context, call driver.Call) (string, error) {
	if d.way.is(stuck) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return d.Driver.Run(ctx, call)
}

// client returns a new client that uses this way.
func (w *way) client(t *testing.T, cfg holdfast.Config) *holdfast.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: w.dial, DialerRetries: 1, PoolSize: 4096})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := holdfast.New(halting{drivertest.Of(holdfastgoredis.NewDriver(rdb)), w}, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.become(well)
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// Fault: The server is out of order while a service waits for a lock for a second. The error says so, and so tells a
// 503 from a 409.
func TestAnOutageDoesNotLookLikeABusyLock(t *testing.T) {
	const patience = time.Second
	within := func(t *testing.T, l *holdfast.Lock) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		lease, err := l.Acquire(ctx)
		if lease != nil {
			t.Error("Acquire returned a lease")
		}
		if over := ctx.Err() != nil; over != errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("that the context has ended is %v, and Acquire returned %v", over, err)
		}
		return err
	}
	met := map[state]string{refused: "connection refused", hung: "no answer"}
	for broken, said := range met {
		for what, acquire := range map[string]func(t *testing.T, w *way, cfg holdfast.Config) error{
			"first contact": func(t *testing.T, w *way, cfg holdfast.Config) error {
				l := w.client(t, cfg).Mutex("a")
				w.become(broken)
				return within(t, l)
			},
			"behind another's first contact": func(t *testing.T, w *way, cfg holdfast.Config) error {
				c := w.client(t, cfg)
				w.become(broken)
				go func() { _, _ = c.Mutex("b").Acquire(t.Context()) }()
				time.Sleep(100 * time.Millisecond)
				return within(t, c.Mutex("a"))
			},
			"a server that is known": func(t *testing.T, w *way, cfg holdfast.Config) error {
				l := w.client(t, cfg).Mutex("a")
				release(t, acquire(t, l))
				w.become(broken)
				return within(t, l)
			},
			"polling": func(t *testing.T, w *way, cfg holdfast.Config) error {
				l := w.client(t, cfg).Mutex("a", holdfast.Poll(10*time.Millisecond))
				release(t, acquire(t, l))
				w.become(broken)
				return within(t, l)
			},
			"a semaphore": func(t *testing.T, w *way, cfg holdfast.Config) error {
				l := w.client(t, cfg).Semaphore("a", 2).Permits(1)
				release(t, acquire(t, l))
				w.become(broken)
				return within(t, l)
			},
			"several at once": func(t *testing.T, w *way, cfg holdfast.Config) error {
				l := w.client(t, cfg).Multi([]string{"a", "b"})
				release(t, acquire(t, l))
				w.become(broken)
				return within(t, l)
			},
			"behind another of this process": func(t *testing.T, w *way, cfg holdfast.Config) error {
				l := w.client(t, cfg).Mutex("a")
				release(t, acquire(t, l))
				w.become(broken)
				go func() { _, _ = l.Acquire(t.Context()) }()
				time.Sleep(100 * time.Millisecond)
				return within(t, l)
			},
			"queued": func(t *testing.T, w *way, cfg holdfast.Config) error {
				l := w.client(t, cfg).Mutex("a")
				lease := acquire(t, client(t, w.srv).Mutex("a", holdfast.TTL(time.Hour)))
				t.Cleanup(func() { release(t, lease) })
				first := wait(t, l) // it goes on
				t.Cleanup(func() { first.cancel(); <-first.done })
				if broken == hung {
					// go-redis waits for a subscription's connection while it holds a mutex, for which a
					// bubble's time stands still.
					w.become(stuck)
				} else {
					w.become(broken)
				}
				time.Sleep(time.Minute) // by then it has noticed
				return within(t, l)
			},
		} {
			t.Run(fmt.Sprintf("%s, %s", what, said), func(t *testing.T) {
				eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
					err := acquire(t, &way{srv: srv}, cfg)
					if !errors.Is(err, holdfast.ErrUnavailable) {
						t.Fatalf("want an error that matches ErrUnavailable, got %v", err)
					}
					parts := []string{`"a`, "127.0.0.1:0", said}
					if strings.HasPrefix(what, "behind") { // it reports the outage that the other met as its own
						parts = parts[:2]
					}
					for _, part := range parts {
						if !strings.Contains(err.Error(), part) {
							t.Errorf("the error does not say %q: %v", part, err)
						}
					}
				})
			})
		}
	}
	t.Run("a lock that others have", func(t *testing.T) {
		eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			lease := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(time.Hour)))
			defer release(t, lease)
			c := configured(t, srv, cfg)
			for _, l := range []*holdfast.Lock{c.Mutex("a"), c.Mutex("a", holdfast.Poll(7*time.Millisecond))} {
				if err := within(t, l); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrHeld) {
					t.Errorf("Acquire: %v", err)
				}
			}
		})
	})
	t.Run("a lock that others have, after an outage", func(t *testing.T) {
		eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			lease := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(time.Hour)))
			defer release(t, lease)
			w := &way{srv: srv}
			l := w.client(t, cfg).Mutex("a")
			first := wait(t, l)
			w.become(refused)
			time.Sleep(time.Minute)
			w.become(well)
			time.Sleep(time.Minute)
			if err := within(t, l); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("Acquire: %v", err)
			}
			first.cancel()
			<-first.done
			if first.err != context.Canceled {
				t.Errorf("the waiter that outlived the outage: %v", first.err)
			}
		})
	})
}

// Fault: A single command is not answered. The error is not one of the caller's context, which has not ended.
func TestAnUnansweredCommandDoesNotLookLikeTheCallersDeadline(t *testing.T) {
	for what, broken := range map[string]state{"refused": refused, "hung": hung} {
		t.Run(what, func(t *testing.T) {
			eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
				w := &way{srv: srv}
				known := w.client(t, cfg)
				lease := acquire(t, known.Mutex("held"))
				fresh := w.client(t, cfg)
				w.become(broken)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				check := func(what string, err error) {
					t.Helper()
					if !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
						t.Errorf("%s: want ErrUnavailable and no error of a context, got %v", what, err)
					}
				}
				for of, c := range map[string]*holdfast.Client{"known": known, "fresh": fresh} {
					_, err := c.Mutex("a").Acquire(ctx)
					check("Acquire, "+of, err)
					_, err = c.Mutex("a").TryAcquire(ctx)
					check("TryAcquire, "+of, err)
					_, err = backend.HolderOf(ctx, c.Mutex("a"))
					check("Holder, "+of, err)
				}
				check("Extend", lease.Extend(ctx, time.Minute))
				select {
				case <-lease.Done():
				case <-ctx.Done():
				}
				check("a lost lease", lease.Err())
			})
		})
	}
}
