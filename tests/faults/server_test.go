package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

func do(t *testing.T, s *server.Server, args ...any) any {
	t.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// Fault: The server stands still for longer than the TTL. The holder is told meanwhile, with the reason; afterwards
// the waiter is served, with a higher fence.
func TestServerPausedPastTheTTL(t *testing.T) {
	eachKind(t, func(t *testing.T, b *place, w form) {
		const ttl = 6 * time.Second // so that a renewal has failed before it ends, even on a machine that stands still
		lease := backend.Acquire(t, w.lock(b.Client(t, &impatient), holdfast.TTL(ttl)))
		next := backend.Start(t, w.rival(b.Client(t, nil)))
		backend.Waiters(t, w.lock(b.Client(t, nil)), 1)
		b.Server.Pause()
		select {
		case <-lease.Done():
		case <-time.After(30 * time.Second):
			t.Fatal("the holder is not told")
		}
		var lost *holdfast.LostError
		if !errors.As(lease.Err(), &lost) || lost.Reason != holdfast.LossUnreachable || !errors.Is(lost, holdfast.ErrUnavailable) {
			t.Errorf("the lease is lost: %v", lease.Err())
		}
		b.Server.Resume()
		second := backend.Receive(t, next)
		expect.Rises(t, lease.Fence(), second.Fence())
		backend.Release(t, second)
		b.Cleaned(t)
	})
}

// Fault: The server restarts with its data while clients wait. They wait on, and are served.
func TestWaitersOutliveARestart(t *testing.T) {
	eachKind(t, func(t *testing.T, b *place, w form) {
		lease := backend.Acquire(t, w.lock(b.Client(t, &impatient), holdfast.TTL(time.Minute)))
		next := backend.Start(t, w.rival(b.Client(t, &impatient)))
		backend.Waiters(t, w.lock(b.Client(t, nil)), 1)
		b.Server.Stop()
		time.Sleep(impatient.RetryTimeout + 200*time.Millisecond) // longer than an operation is retried
		b.Server.Restart()
		backend.Waiters(t, w.lock(b.Client(t, nil)), 1)
		backend.Release(t, lease)
		backend.Release(t, backend.Receive(t, next))
		b.Cleaned(t)
	}, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"))
}

// Fault: The server is out of memory and evicts nothing, also in the middle of a hand-over. Acquires fail with
// ErrUnavailable and the code OOM; renewals, releases and downgrades work, and nobody believes in a grant that was not made.
func TestOutOfMemory(t *testing.T) {
	eachMutex(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(9*time.Second)))
		waiting, writer := backend.Acquire(t, c.Mutex("b")), backend.Acquire(t, c.RWMutex("rw").Writer())
		next := backend.Start(t, b.Client(t, nil).Mutex("b"))
		backend.Waiters(t, c.Mutex("b"), 1)
		do(t, b.Server, "CONFIG", "SET", "maxmemory", "1")
		first := lease.Deadline()
		if _, err := c.Mutex("c").TryAcquire(t.Context()); !backend.HasCode(err, "OOM") {
			t.Errorf("TryAcquire: %v", err)
		}
		if _, err := c.Mutex("a").Acquire(t.Context()); !backend.HasCode(err, "OOM") {
			t.Errorf("Acquire of a held lock: %v", err)
		}
		backend.Eventually(t, "renewals go on", func() bool { return lease.Deadline().After(first) })
		backend.Release(t, lease)
		reader := expect.Of(c.RWMutex("rw").Downgrade(t.Context(), writer)).OK(t)
		backend.Release(t, reader)
		// In the middle of a hand-over. The release is done in any case.
		backend.Release(t, waiting)
		do(t, b.Server, "CONFIG", "SET", "maxmemory", "0")
		backend.Release(t, backend.Receive(t, next))
		b.Cleaned(t)
	})
}

// expired reports whether err says that a lease is lost which would have ended by now, had it not been renewed
// since then. A claim of 1.5 s does not outlast a machine that stands still.
func expired(err error, deadline time.Time) bool {
	return errors.Is(err, holdfast.ErrLost) && time.Now().After(deadline)
}

// Fault: SCRIPT FLUSH at any moment. There is no error, and one holder at a time.
func TestScriptFlush(t *testing.T) {
	eachMutex(t, func(t *testing.T, b *backend.Backend) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				expect.Err(t, "Do", expect.ErrOf(b.Server.Do("SCRIPT", "FLUSH")), nil)
			}
		})
		var inside sync.Mutex
		for range 4 {
			l := b.Client(t, nil).Mutex("a")
			wg.Go(func() {
				for ctx.Err() == nil {
					var deadline time.Time
					err := l.Do(t.Context(), func(_ context.Context, lease *holdfast.Lease) error {
						deadline = lease.Deadline()
						if !inside.TryLock() {
							return errors.New("two are inside")
						}
						inside.Unlock()
						return nil
					})
					if err != nil && !expired(err, deadline) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		b.Cleaned(t)
	})
}

// Fault: The server is busy with somebody's script. Requests are retried within RetryTimeout and the context, and
// then fail with ErrUnavailable and the code BUSY; afterwards all are served.
func TestBusyScript(t *testing.T) {
	eachMutex(t, func(t *testing.T, b *backend.Backend) {
		// Each try is answered, even on a busy machine, so the error is the server's.
		cfg := holdfast.Config{CommandTimeout: time.Minute, RetryTimeout: 600 * time.Millisecond}
		c := b.Client(t, &cfg)
		backend.Release(t, backend.Acquire(t, c.Mutex("a")))
		conn := expect.Of(b.Server.Dial()).OK(t)
		defer conn.Close()
		expect.OK(t, conn.Send("EVAL", "while true do end", 0))
		backend.Eventually(t, "the server is busy", func() bool {
			_, err := b.Server.Do("GET", "x")
			return err != nil && strings.HasPrefix(err.Error(), "BUSY")
		})
		begun := time.Now()
		_, err := c.Mutex("a").Acquire(t.Context())
		if !backend.HasCode(err, "BUSY") || errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("Acquire: %v", err)
		}
		expect.AtLeast(t, "gave up after", time.Since(begun), cfg.RetryTimeout/2)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := c.Mutex("a").Acquire(ctx); !backend.HasCode(err, "BUSY") && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire within a context: %v", err)
		}
		waiting := make(chan error, 1)
		go func() {
			lease, err := b.Client(t, &holdfast.Config{CommandTimeout: time.Minute, RetryTimeout: time.Minute}).Mutex("a").Acquire(t.Context())
			if err == nil {
				err = lease.Release(t.Context())
			}
			waiting <- err
		}()
		time.Sleep(100 * time.Millisecond)
		do(t, b.Server, "SCRIPT", "KILL")
		expect.Err(t, "Acquire of a server that is busy for a while", <-waiting, nil)
	}, server.Conf("lua-time-limit", "50"))
}

// Fault: READONLY, LOADING, MISCONF, NOREPLICAS, NOPERM, NOAUTH, a wrong password, a server that cannot be reached or
// is silent. Each is an error of its own, within the context's time; it names lock and server, not the password, and
// never says that the lock is held.
func TestRefusals(t *testing.T) {
	t.Parallel()
	bin := server.One
	type refusal struct {
		name string
		want error
		make func(t *testing.T) *redis.Options // of a server that refuses so
	}
	// The client waits long enough for the server's answer: otherwise it would report that there is none.
	patient := holdfast.Config{CommandTimeout: time.Minute, RetryTimeout: 600 * time.Millisecond}
	started := func(t *testing.T, opts ...server.Option) *server.Server { return server.Start(t, bin(t), opts...) }
	acl := func(rules ...any) func(t *testing.T) *redis.Options {
		return func(t *testing.T) *redis.Options {
			s := started(t)
			do(t, s, append([]any{"ACL", "SETUSER", "u", "on", ">secret-canary"}, rules...)...)
			return &redis.Options{Addr: s.Addr(), Username: "u", Password: "secret-canary"}
		}
	}
	for _, r := range []refusal{
		{"no password", holdfast.ErrDenied, func(t *testing.T) *redis.Options {
			return &redis.Options{Addr: started(t, server.Conf("requirepass", "secret-canary")).Addr()}
		}},
		{"wrong password", holdfast.ErrDenied, func(t *testing.T) *redis.Options {
			return &redis.Options{Addr: started(t, server.Conf("requirepass", "x")).Addr(), Password: "secret-canary"}
		}},
		{"no scripts", holdfast.ErrDenied, acl("~*", "&*", "+@all", "-@scripting")},
		{"no command in scripts", holdfast.ErrDenied, acl("~*", "&*", "+@all", "-set")},
		{"other keys", holdfast.ErrDenied, acl("~other:*", "&*", "+@all")},
		{"replica", backend.Code("READONLY"), func(t *testing.T) *redis.Options {
			master := started(t)
			return &redis.Options{Addr: server.StartReplica(t, bin(t), master).Addr()}
		}},
		{"too few replicas", backend.Code("NOREPLICAS"), func(t *testing.T) *redis.Options {
			return &redis.Options{Addr: started(t, server.Conf("min-replicas-to-write", "1")).Addr()}
		}},
		{"disk", backend.Code("MISCONF"), func(t *testing.T) *redis.Options {
			s := started(t, server.Conf("save", "3600 1"))
			expect.OK(t, os.Mkdir(filepath.Join(s.Dir(), "dump.rdb"), 0o700))
			do(t, s, "BGSAVE")
			backend.Eventually(t, "saving has failed", func() bool {
				return s.Info("persistence")["rdb_last_bgsave_status"] == "err"
			})
			t.Cleanup(func() { _ = os.Remove(filepath.Join(s.Dir(), "dump.rdb")) })
			return &redis.Options{Addr: s.Addr()}
		}},
		{"loading", backend.Code("LOADING"), func(t *testing.T) *redis.Options {
			s := started(t, server.Conf("enable-debug-command", "yes"), server.Conf("rdbcompression", "no"))
			do(t, s, "EVAL", "for n = 1, 8000 do redis.call('SET', 'k' .. n, string.rep('x', 1000)) end", 0)
			// The server reloads, at 10 ms a key, and answers after each key: that takes longer than the test.
			do(t, s, "CONFIG", "SET", "key-load-delay", "10000", "loading-process-events-interval-bytes", "1024")
			conn := expect.Of(s.Dial()).OK(t)
			t.Cleanup(func() { _ = conn.Close() })
			expect.OK(t, conn.Send("DEBUG", "RELOAD"))
			backend.Eventually(t, "the server is loading", func() bool {
				_, err := s.Do("GET", "x")
				return err != nil && strings.HasPrefix(err.Error(), "LOADING")
			})
			t.Cleanup(s.Kill)
			return &redis.Options{Addr: s.Addr()}
		}},
		{"unreachable", holdfast.ErrUnavailable, func(t *testing.T) *redis.Options {
			s := started(t)
			s.Kill()
			return &redis.Options{Addr: s.Addr()}
		}},
		{"silent", holdfast.ErrUnavailable, func(t *testing.T) *redis.Options {
			p := proxy.New(t, started(t).Addr())
			p.SwallowReplies(true)
			return &redis.Options{Addr: p.Addr()}
		}},
	} {
		for _, w := range []way{native, single} {
			t.Run(r.name+"/"+w.name, func(t *testing.T) {
				t.Parallel()
				cfg := patient
				if r.want == holdfast.ErrUnavailable {
					cfg = impatient
				}
				cfg.ViaClient = !w.native
				o := r.make(t)
				c := backend.Open(t, &cfg, o)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				l := c.Mutex("a")
				_, err1 := l.TryAcquire(ctx)
				_, err2 := l.Acquire(ctx)
				for _, err := range []error{err1, err2} {
					if !backend.Matches(err, r.want) || errors.Is(err, holdfast.ErrHeld) {
						t.Errorf("%v", err)
						continue
					}
					for _, part := range []string{`"a"`, o.Addr} {
						expect.Contains(t, "the error", err.Error(), part)
					}
					expect.Lacks(t, "the error", err.Error(), "canary")
				}
				expect.OK(t, ctx.Err())
			})
		}
	}
}

// Fault: CLIENT KILL ends the connections of waiters, ordinary ones and subscriptions. They subscribe again, look,
// and are served.
//
// Bug: A missed message stalls a waiter until the TTL has passed.
func TestKilledConnections(t *testing.T) {
	eachKind(t, func(t *testing.T, b *place, w form) {
		for _, kind := range []string{"normal", "pubsub"} {
			holder, waiter := b.Client(t, nil), b.Client(t, nil)
			for range 5 {
				lease := backend.Acquire(t, w.lock(holder, holdfast.TTL(time.Minute)))
				next := backend.Start(t, w.rival(waiter))
				backend.Waiters(t, w.lock(holder), 1)
				do(t, b.Server, "CLIENT", "KILL", "TYPE", kind)
				// The release may find the waiter without a subscription. It must return by itself, before it would look after 30s.
				if err := lease.Release(t.Context()); err != nil && !errors.Is(err, holdfast.ErrAmbiguous) {
					t.Fatal(err)
				}
				backend.Release(t, backend.Receive(t, next))
			}
		}
		b.Cleaned(t)
	})
}

// Fault: The application has used up its connections. Renewals go out all the same.
func TestExhaustedPool(t *testing.T) {
	eachMutex(t, func(t *testing.T, b *backend.Backend) {
		rdb := b.Redis(t, func(o *redis.Options) { o.PoolSize, o.ReadTimeout = 1, 2*time.Minute })
		c := expect.Of(holdfastgoredis.New(rdb, &holdfast.Config{CommandTimeout: 4 * time.Second, ViaClient: b.ViaClient})).OK(t)
		backend.CloseWith(t, c)
		lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(9*time.Second)))
		blocked, free := context.WithCancel(t.Context())
		go rdb.BLPop(blocked, time.Minute, "nothing")
		defer func() {
			do(t, b.Server, "RPUSH", "nothing", "x")
			free()
		}()
		backend.Eventually(t, "the pool is used up", func() bool { s := rdb.PoolStats(); return s.TotalConns == 1 && s.IdleConns == 0 })
		first := lease.Deadline()
		backend.Eventually(t, "renewals go out", func() bool {
			if lease.Err() != nil {
				t.Fatal(lease.Err())
			}
			return lease.Deadline().After(first)
		})
		backend.Release(t, lease)
	})
}

// Fault: Publishing on a waiter's channel is forbidden in the middle of a hand-over. The release succeeds, the lock
// is free, and nobody believes in a grant.
func TestHandoverWithoutPermissionToPublish(t *testing.T) {
	eachMutex(t, func(t *testing.T, b *backend.Backend) {
		for _, rules := range [][]any{{"-publish"}, {"resetchannels"}, {"-pubsub"}} {
			for !handsOverSilently(t, b, rules) {
			}
		}
	})
}

// handsOverSilently checks a hand-over by a user with these rules. It returns false if that took so long that the waiter may have looked by
// itself, as it has promised.
func handsOverSilently(t *testing.T, b *backend.Backend, rules []any) bool {
	t.Helper()
	do(t, b.Server, "FLUSHALL")
	waiter, rdb := b.Client(t, nil), b.Redis(t)
	do(t, b.Server, append([]any{"ACL", "SETUSER", "mute", "reset", "on", ">x", "~*", "&*", "+@all"}, rules...)...)
	mute := b.Client(t, nil, func(o *redis.Options) { o.Username, o.Password = "mute", "x" })
	lease := backend.Acquire(t, mute.Mutex("a"))
	next := backend.Start(t, waiter.Mutex("a"))
	backend.Waiters(t, waiter.Mutex("a"), 1)
	var claim, by int64
	member := strings.Split(rdb.ZRange(t.Context(), "holdfast:{a}:q", 0, -1).Val()[0], "\n")
	if _, err := fmt.Sscanf(member[1], "%d@%d", &claim, &by); err != nil {
		t.Fatalf("a waiter that promises nothing: %q", member)
	}
	backend.Release(t, lease)
	held, err := backend.IsHeld(t.Context(), waiter.Mutex("a"))
	time.Sleep(20 * time.Millisecond)
	believed := len(next) > 0
	if rdb.Time(t.Context()).Val().UnixMilli() >= by {
		backend.Release(t, backend.Receive(t, next))
		return false
	}
	if held || err != nil {
		t.Errorf("%v: after the release: held %v, %v", rules, held, err)
	}
	if believed {
		t.Errorf("%v: a phantom grant", rules)
	}
	// The next request of anybody serves the queue again, unless the waiter has looked by then.
	other := backend.Start(t, b.Client(t, nil).Mutex("a"))
	for range 2 {
		var served *holdfast.Lease
		select {
		case served = <-next:
		case served = <-other:
		}
		if served == nil {
			t.FailNow()
		}
		backend.Release(t, served)
	}
	return true
}
