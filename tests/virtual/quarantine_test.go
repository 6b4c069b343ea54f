package virtual

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

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
