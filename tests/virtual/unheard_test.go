package virtual

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// quiet is a logger for go-redis, which would log each connection that fails here.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(quiet{}) }

// state is that of the way to a server.
type state int

const (
	well    state = iota
	refused       // nobody listens any more
	hung          // connections are accepted, and nothing is answered
	stuck         // scripts are not answered; subscriptions stay
)

// way is the network path to a server, which can break.
type way struct {
	tap
	stuck atomic.Bool
}

func newWay(srv *holdfasttest.Server) *way { return &way{tap: tap{srv: srv}} }

func (w *way) become(s state) {
	w.stuck.Store(s == stuck)
	w.set(func() { w.deaf, w.refuses = s == hung, false })
	if s == refused {
		w.refuse()
	}
}

// client returns a new client that uses this way.
func (w *way) client(t *testing.T, cfg holdfast.Config) *holdfast.Client {
	t.Helper()
	c := opened(t, w.dial, cfg, func(o *redis.Options) { o.DialerRetries = 1 }, meddle(func(r request) (string, error) {
		if w.stuck.Load() {
			return r.hang()
		}
		return r.send()
	}))
	t.Cleanup(func() { w.become(well) })
	return c
}

// Fault: The server is out of order while a service waits for a lock for a second. The error says so, and so tells a
// 503 from a 409.
func TestAnOutageDoesNotLookLikeABusyLock(t *testing.T) {
	within := func(t *testing.T, l *holdfast.Lock) error {
		t.Helper()
		ctx := lasting(t, time.Second)
		lease, err := l.Acquire(ctx)
		if lease != nil {
			t.Error("Acquire returned a lease")
		}
		if over := ctx.Err() != nil; over != errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("that the context has ended is %v, and Acquire returned %v", over, err)
		}
		return err
	}
	for broken, said := range map[state]string{refused: "connection refused", hung: "no answer"} {
		for what, of := range map[string]struct {
			known  bool   // the lock was acquired before
			behind string // which lock another caller is waiting for
			held   bool   // and another waits in its queue
			polls  bool
		}{
			"first contact":                  {},
			"behind another's first contact": {behind: "b"},
			"a server that is known":         {known: true},
			"polling":                        {known: true, polls: true},
			"behind another of this process": {known: true, behind: "a"},
			"queued":                         {held: true},
		} {
			t.Run(fmt.Sprintf("%s, %s", what, said), func(t *testing.T) {
				eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
					w := newWay(srv)
					c := w.client(t, cfg)
					l := c.Mutex("a")
					if of.polls {
						l = c.Mutex("a", holdfast.Poll(10*time.Millisecond))
					}
					if of.known {
						release(t, acquire(t, l))
					}
					if of.held {
						lease := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(time.Hour)))
						first := wait(t, l) // it goes on
						t.Cleanup(func() { first.giveUp(); release(t, lease) })
					}
					if of.held && broken == hung {
						// go-redis waits for a subscription's connection while it holds a mutex, for which a
						// bubble's time stands still.
						w.become(stuck)
					} else {
						w.become(broken)
					}
					switch {
					case of.held:
						time.Sleep(time.Minute) // by then it has noticed
					case of.behind != "":
						go func() { _, _ = c.Mutex(of.behind).Acquire(t.Context()) }()
						time.Sleep(100 * time.Millisecond)
					}
					err := within(t, l)
					if !errors.Is(err, holdfast.ErrUnavailable) {
						t.Fatalf("want an error that matches ErrUnavailable, got %v", err)
					}
					parts := []string{`"a`, "127.0.0.1:0", said}
					if of.behind != "" { // it reports the outage that the other met as its own
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
	t.Run("a lock that others have, after an outage", func(t *testing.T) {
		eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			lease := acquire(t, client(t, srv).Mutex("a", holdfast.TTL(time.Hour)))
			defer release(t, lease)
			w := newWay(srv)
			l := w.client(t, cfg).Mutex("a")
			first := wait(t, l)
			w.become(refused)
			time.Sleep(time.Minute)
			w.become(well)
			time.Sleep(time.Minute)
			if err := within(t, l); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("Acquire: %v", err)
			}
			if err := first.giveUp(); err != context.Canceled {
				t.Errorf("the waiter that outlived the outage: %v", err)
			}
		})
	})
}

// Fault: A single command is not answered. The error is not one of the caller's context, which has not ended.
func TestAnUnansweredCommandDoesNotLookLikeTheCallersDeadline(t *testing.T) {
	for what, broken := range map[string]state{"refused": refused, "hung": hung} {
		t.Run(what, func(t *testing.T) {
			eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
				w := newWay(srv)
				known := w.client(t, cfg)
				lease := acquire(t, known.Mutex("held"))
				fresh := w.client(t, cfg)
				w.become(broken)
				ctx := lasting(t, time.Hour)
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
