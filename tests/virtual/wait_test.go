package virtual

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
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

// Fault: The context of a waiter ends while a Strict server that lost its data grants nothing yet. The error says both, and for how
// long the server grants nothing; the log says it while the waiter waits.
func TestAContextEndsInAQuarantine(t *testing.T) {
	mutex := kinds["mutex"]
	type form struct {
		lock  lockOf
		polls time.Duration
		wrap  []wrapper
	}
	forms := map[string]form{
		"polls":   {mutex, 300 * time.Millisecond, nil},
		"unheard": {mutex, 0, []wrapper{new(unheard).wrap}},
	}
	for kind, lock := range kinds {
		forms[kind] = form{lock: lock}
	}
	for name, form := range forms {
		bubbleOf(t, name, func(t *testing.T, srv *holdfasttest.Server) {
			var log journal
			cfg := holdfast.Config{Strict: true, PollInterval: form.polls, Logger: log.logger()} // a quarantine lasts for a minute
			c := configured(t, srv, cfg, form.wrap...)
			// The first is told at once, before it looks; the others before and after the server is asked again.
			for _, patience := range []time.Duration{10 * time.Millisecond, time.Second, 12 * time.Second} {
				var first *waiting
				if patience >= time.Second {
					first = wait(t, form.lock(c))
				}
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				_, err := form.lock(c).Acquire(ctx)
				cancel()
				expect.Equal(t, "the acquire's time", time.Since(began), patience)
				inQuarantine(t, err, context.DeadlineExceeded)
				if first != nil {
					first.giveUp()
					inQuarantine(t, first.err, context.Canceled)
				}
			}
			release(t, acquire(t, form.lock(c)))
			expect.Equal(t, "warnings of the quarantine", strings.Count(strings.Join(log.lines("WARN"), "\n"), "grants none for now"), 1)
		})
	}
}

// A waiter that has to poll is told of a quarantine that began while it waited.
func TestAQuarantineBeginsWhileAWaiterPolls(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		strict := holdfast.Config{Strict: true}
		other := configured(t, srv, strict)
		expect.OK(t, inspect.New(other).ForceAdmit(t.Context()))
		held := acquire(t, other.Mutex("a"))
		waits := wait(t, configured(t, srv, strict, new(unheard).wrap).Mutex("a"))
		srv.Restart(false)
		<-held.Done()
		time.Sleep(10 * time.Second)
		waits.giveUp()
		inQuarantine(t, waits.err, context.Canceled)
	})
}

func inQuarantine(t *testing.T, err, ended error) {
	t.Helper()
	var server *holdfast.ServerError
	if !errors.Is(err, ended) || !errors.Is(err, holdfast.ErrQuarantine) || !errors.Is(err, holdfast.ErrUnavailable) ||
		!errors.As(err, &server) {
		t.Fatalf("Acquire: %v", err)
	}
	expect.Between(t, "for how long the server grants nothing", server.RetryAfter, 30*time.Second, time.Minute)
	if text := err.Error(); !strings.HasPrefix(text, "holdfast: acquire ") ||
		!strings.Contains(text, ended.Error()+"; server is in quarantine: it may have lost locks, and grants none for another ") {
		t.Errorf("the error says %s", text)
	}
}

// Waiters for a lock that is held are not told of a quarantine that an operator has ended.
func TestAContextEndsAfterAQuarantine(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		strict := holdfast.Config{Strict: true}
		one, other := configured(t, srv, strict), configured(t, srv, strict)
		first, second := wait(t, one.Mutex("a")), wait(t, one.Mutex("a"))
		expect.OK(t, inspect.New(other).ForceAdmit(t.Context()))
		<-first.done
		second.cancel() // at once
		<-second.done
		if first.err != nil || second.err != context.Canceled {
			t.Fatal(first.err, second.err)
		}
		for _, c := range []*holdfast.Client{one, other} {
			ctx := lasting(t, 10*time.Second)
			expect.ErrBoth(t, "Acquire", expect.ErrOf(c.Mutex("a").Acquire(ctx)), context.DeadlineExceeded, holdfast.ErrHeld)
		}
		release(t, first.lease)
	})
}

// Strict clients that hand a lock to each other do not ask at each turn whether the server is in quarantine.
func TestAQuarantineIsNotAskedForAtEachTurn(t *testing.T) {
	acquires := func(cfg holdfast.Config) int64 {
		var n atomic.Int64
		bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
			one, other := configured(t, srv, cfg, counted("acquire", &n)), configured(t, srv, cfg, counted("acquire", &n))
			if cfg.Strict {
				expect.OK(t, inspect.New(one).ForceAdmit(t.Context()))
			}
			held := acquire(t, one.Mutex("a"))
			for turn := range 20 {
				next := make(chan *holdfast.Lease)
				go func() { next <- acquire(t, []*holdfast.Client{other, one}[turn%2].Mutex("a")) }()
				time.Sleep(100 * time.Millisecond)
				release(t, held)
				held = <-next
			}
			release(t, held)
		})
		return n.Load()
	}
	// The turns take two seconds. Each client asks when it begins to wait, and not more than once a second after that.
	plain, strict := acquires(holdfast.Config{}), acquires(holdfast.Config{Strict: true})
	expect.Between(t, "acquires of 20 turns in Strict mode", strict, 0, plain+6)
}

// As on a real server, a key does not expire while a script runs. Otherwise a script that has read the key
// would write the remaining time, and leave the key without an expiry.
func TestKeysDoNotExpireWithinAScript(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "embedded", Dialer: holdfasttest.Run(t).Dial, ReadTimeout: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	const waits = `
redis.call('SET', KEYS[1], 'v', 'PX', 20)
for i = 1, tonumber(ARGV[1]) do
end
return redis.call('GET', KEYS[1]) or 'gone'`
	for loops, took := 1_000_000, time.Duration(0); took < 50*time.Millisecond; loops *= 2 {
		began := time.Now()
		if got, err := rdb.Eval(t.Context(), waits, []string{"k"}, loops).Result(); got != "v" {
			t.Fatalf("after %s in a script the key is %v, %v", time.Since(began), got, err)
		}
		took = time.Since(began)
	}
	time.Sleep(50 * time.Millisecond)
	expect.Equal(t, "keys after the script", rdb.Exists(t.Context(), "k").Val(), 0)
}
