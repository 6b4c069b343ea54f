package virtual

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// who is a lock's holder in tests of its waiters.
const who = "the holder"

// lockOf makes a lock with options.
type lockOf func(c *holdfast.Client, options ...holdfast.WaitOption) *holdfast.Lock

// kinds makes a lock of each kind that callers wait for.
var kinds = map[string]lockOf{
	"mutex": func(c *holdfast.Client, o ...holdfast.WaitOption) *holdfast.Lock {
		return c.Mutex("a", of[holdfast.MutexOption](o)...)
	},
	"key": func(c *holdfast.Client, o ...holdfast.WaitOption) *holdfast.Lock {
		return c.MutexKey("k", of[holdfast.MutexOption](o)...)
	},
	"redisson": func(c *holdfast.Client, o ...holdfast.WaitOption) *holdfast.Lock {
		return c.RedissonMutex("r", of[holdfast.MutexOption](o)...)
	},
	"writer": func(c *holdfast.Client, o ...holdfast.WaitOption) *holdfast.Lock {
		return c.RWMutex("rw").Writer(of[holdfast.RWMutexOption](o)...)
	},
	"permit": func(c *holdfast.Client, o ...holdfast.WaitOption) *holdfast.Lock {
		return c.Semaphore("s", 1, of[holdfast.SemaphoreOption](o)...).Permits(1)
	},
	"several": func(c *holdfast.Client, o ...holdfast.WaitOption) *holdfast.Lock {
		return c.Multi([]string{"b", "a"}, of[holdfast.MultiOption](o)...)
	},
}

// of returns options, which must fit all kinds, as options of one kind.
func of[Kind any](options []holdfast.WaitOption) []Kind {
	var kind []Kind
	for _, o := range options {
		kind = append(kind, any(o).(Kind))
	}
	return kind
}

// A caller whose time is up while the lock is held is told who holds it, leaves the queue, and has waited no longer. If the context's time
// is up, the error also matches the context's. If the context is canceled, Acquire returns the context's error alone.
func TestWaitEndsWhileTheLockIsHeld(t *testing.T) {
	type options = []holdfast.WaitOption
	const limit = 3 * time.Second
	for kind, lock := range kinds {
		for way, of := range map[string]struct {
			options      options
			limit, slack time.Duration
			deadline     bool // it is the context's time that is up
		}{
			"queued":                             {options{holdfast.Wait(limit)}, limit, time.Second, false},
			"at once":                            {options{holdfast.Wait(0)}, 0, time.Second, false},
			"polling":                            {options{holdfast.Wait(limit), holdfast.Poll(time.Hour)}, limit, 100 * time.Millisecond, false},
			"a deadline":                         {nil, limit, 100 * time.Millisecond, true},
			"a deadline, polling":                {options{holdfast.Poll(time.Second)}, limit, 100 * time.Millisecond, true},
			"a deadline, with more time to wait": {options{holdfast.Wait(time.Minute)}, limit, 100 * time.Millisecond, true},
		} {
			eachWayOf(t, kind+", "+way, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
				lease := acquire(t, lock(client(t, srv), holdfast.Identity(who)))
				c := configured(t, srv, cfg)
				names := []string{lease.Name()}
				if kind == "several" {
					names = []string{"a", "b"}
					if !strings.HasSuffix(way, "polling") { // in their order
						names = names[:1]
					}
				}
				for turn := range 3 { // before the client has reached the server, after that, and behind another waiter of its process
					var first *waiting
					if turn == 2 {
						first = wait(t, lock(c))
					}
					ctx := t.Context()
					if of.deadline {
						ctx = lasting(t, of.limit)
					}
					began := time.Now()
					_, err := lock(c, of.options...).Acquire(ctx)
					took := time.Since(began)
					var held *holdfast.HeldError
					if !errors.As(err, &held) || !errors.Is(err, holdfast.ErrHeld) || errors.Is(err, holdfast.ErrUnavailable) ||
						errors.Is(err, context.DeadlineExceeded) != of.deadline ||
						strings.HasSuffix(err.Error(), ": context deadline exceeded") != of.deadline {
						t.Fatalf("turn %d: Acquire: %v; want ErrHeld", turn, err)
					}
					if !slices.Contains(names, held.Name) || held.Holder.Identity != who || !strings.Contains(err.Error(), who) {
						t.Errorf("turn %d: %v names %q, held by %+v", turn, err, held.Name, held.Holder)
					}
					expect.Between(t, fmt.Sprintf("turn %d: how long it waited", turn), took, of.limit, of.limit+of.slack)
					if first == nil {
						continue
					}
					expect.Equal(t, "canceled", first.giveUp(), context.Canceled)
				}
				time.Sleep(time.Millisecond) // it leaves in the background
				if s, err := lock(client(t, srv)).Status(t.Context()); err != nil || len(s.Waiters) != 0 {
					t.Errorf("%d wait still: %v", len(s.Waiters), err)
				}
				release(t, lease)
				release(t, acquire(t, lock(c)))
			})
		}
	}
}

// If a waiter was granted the lock and does not know it, it gets the lock when its time is up.
func TestAGrantThatWasNotHeardIsFoundWhenTimeIsUp(t *testing.T) {
	for kind, lock := range kinds {
		if kind == "key" || kind == "redisson" {
			continue // their waiters ask again and again
		}
		bubbleOf(t, kind, func(t *testing.T, srv *holdfasttest.Server) {
			lease := acquire(t, lock(client(t, srv)))
			c := client(t, srv, deaf)
			got := wait(t, lock(c, holdfast.Wait(3*time.Second)))
			time.Sleep(1500 * time.Millisecond)
			release(t, lease)
			got.granted(t)
			expect.Rises(t, lease.Fence(), got.lease.Fence())
			time.Sleep(time.Minute)
			expect.Err(t, "a minute later", got.lease.Err(), nil)
			release(t, got.lease)
		})
	}
}

// If a caller's time is up while the server does not answer, the error says so, not that the lock is held.
func TestWaitEndsInSilence(t *testing.T) {
	for kind, lock := range kinds {
		eachWayOf(t, kind, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
			var d moody
			c := configured(t, srv, cfg, d.wrap)
			release(t, acquire(t, lock(c))) // the server has been reached
			d.hangs.Store(true)
			silent := func(what string, l *holdfast.Lock, limit time.Duration) {
				t.Helper()
				began := time.Now()
				_, err := l.Acquire(t.Context())
				if !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrHeld) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", what, err)
				}
				if took := time.Since(began); took < limit || took > limit+1200*time.Millisecond { // a second for the answer
					t.Errorf("%s: it waited for %s; want %s and about a second", what, took, limit)
				}
			}
			silent("from the beginning", lock(c, holdfast.Wait(time.Second)), time.Second)
			silent("at once", lock(c, holdfast.Wait(0)), 0)
			d.hangs.Store(false)
			lease := acquire(t, lock(client(t, srv)))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _ = lock(c).Acquire(ctx)
			cancel()
			time.AfterFunc(time.Second, func() { d.hangs.Store(true) })
			silent("while it is queued", lock(c, holdfast.Wait(2*time.Second)), 2*time.Second)
			d.hangs.Store(false)
			release(t, lease)
		})
	}
}

// Waiting for another run of a job is bounded; running the job itself is not.
func TestWaitBoundsJobs(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		job := func(options ...once.Option) *once.Job {
			return once.New(client(t, srv), "j", once.Every(time.Hour), options...)
		}
		running, over := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := job(holdfast.Identity(who), holdfast.Wait(time.Second)).Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
				close(running)
				time.Sleep(time.Minute)
				return "", errors.New("it failed")
			})
			over <- err
		}()
		<-running
		began := time.Now()
		_, err := job(holdfast.Wait(2*time.Second)).Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
			t.Error("two run it")
			return "", nil
		})
		var held *holdfast.HeldError
		if !errors.As(err, &held) || held.Name != "j" || held.Holder.Identity != who || time.Since(began) > 3*time.Second {
			t.Errorf("Do while another runs it: %v after %s", err, time.Since(began))
		}
		if err := <-over; err == nil || errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("Do: %v", err)
		}
	})
}
