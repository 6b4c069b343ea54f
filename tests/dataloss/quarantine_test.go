package dataloss

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

const mark = "holdfast:incarnation"

// strict has leases so short that a test can wait for a quarantine.
func strict(maxTTL time.Duration) *holdfast.Config {
	return &holdfast.Config{Strict: true, MaxTTL: maxTTL, TTL: maxTTL}
}

func do(t *testing.T, s *server.Server, args ...any) any {
	t.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

func initialise(t *testing.T, c *holdfast.Client) {
	t.Helper()
	if err := c.Admit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func quarantined(t *testing.T, err error) time.Duration {
	t.Helper()
	var q *holdfast.ServerError
	if !errors.Is(err, holdfast.ErrQuarantine) || errors.Is(err, holdfast.ErrHeld) || !errors.As(err, &q) {
		t.Fatalf("in quarantine: %v", err)
	}
	return q.RetryAfter
}

func TestInitAdmitsANewServer(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, strict(time.Hour))
		initialise(t, c)
		backend.Release(t, backend.Acquire(t, c.Mutex("a")))
		initialise(t, c) // the same again

		// A missing mark means lost data, whoever removed it.
		do(t, b.Server, "DEL", mark)
		_, err := c.Mutex("a").TryAcquire(t.Context())
		if left := quarantined(t, err); left < 50*time.Minute || left > time.Hour {
			t.Errorf("a quarantine of %s is left of an hour", left)
		}
		if !strings.Contains(err.Error(), "holdfast init") || !strings.Contains(err.Error(), b.Server.Addr()) {
			t.Errorf("the error does not say what to do: %v", err)
		}
		if err := c.Admit(t.Context()); !errors.Is(err, holdfast.ErrQuarantine) {
			t.Errorf("Admit of a server in quarantine: %v", err)
		}
		for what, l := range map[string]*holdfast.Lock{
			"a waiter": c.Mutex("a", holdfast.Wait(time.Second)), "one that does not wait": c.Mutex("a", holdfast.Wait(0)),
			"a poller": c.Mutex("a", holdfast.Wait(time.Second), holdfast.Poll(100*time.Millisecond)),
			"several":  c.Multi([]string{"a", "b"}, holdfast.Wait(time.Second)),
		} {
			var err error
			backend.Eventually(t, what+" is answered in time", func() bool {
				_, err = l.Acquire(t.Context())
				return !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrQuarantine)
			})
			if left := quarantined(t, err); left < 50*time.Minute || !errors.Is(err, holdfast.ErrUnavailable) {
				t.Errorf("%s, when its time is up: %v, with %s left", what, err, left)
			}
		}
		if err := c.ForceAdmit(t.Context()); err != nil {
			t.Error(err)
		}
		backend.Release(t, backend.Acquire(t, c.Mutex("a")))
	})
}

// Nobody is notified when an operator ends a quarantine. Waiters notice soon, however long it was to last.
func TestWaitersNoticeThatAQuarantineWasEnded(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, strict(time.Hour))
		waiting := backend.Start(t, c.Mutex("a"))
		backend.Eventually(t, "the waiter is queued", func() bool {
			s, err := c.Mutex("a").Status(t.Context())
			return err == nil && s.Waiting == 1
		})
		if err := b.Client(t, strict(time.Hour)).ForceAdmit(t.Context()); err != nil {
			t.Fatal(err)
		}
		backend.Release(t, backend.Receive(t, waiting))
	})
}

func TestAServerThatIsNotInitialisedIsInQuarantine(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		begun := time.Now()
		c := b.Client(t, strict(term))
		_, err := c.Mutex("a").TryAcquire(t.Context())
		quarantined(t, err)
		// Waiters are queued meanwhile, and served in turn.
		first, rdb := backend.Start(t, c.Mutex("a")), b.Redis(t)
		backend.Eventually(t, "the first is queued", func() bool {
			n, err := rdb.ZCard(t.Context(), "holdfast:{a}:q").Result()
			return err == nil && n == 1 || len(first) == 1
		})
		second := backend.Start(t, b.Client(t, strict(term)).Mutex("a"))
		lease := backend.Receive(t, first)
		grantedAfter(t, "the first", lease.Fence(), begun)
		time.Sleep(10 * time.Millisecond)
		if len(second) > 0 && lease.Err() == nil {
			t.Error("the second is served beside the first")
		}
		backend.Release(t, lease)
		backend.Release(t, backend.Receive(t, second))
	})
}

// Fault: A lock with waiters is released in quarantine. Nothing is handed over, and nothing is lost by that.
func TestReleaseInQuarantineHandsNothingOver(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, strict(term))
		initialise(t, c)
		lease := backend.Acquire(t, c.Mutex("a"))
		waiter := backend.Start(t, b.Client(t, strict(term)).Mutex("a"))
		backend.Waiters(t, c.Mutex("a"), 1)
		losing := time.Now()
		do(t, b.Server, "DEL", mark)
		backend.Release(t, lease)
		next := backend.Receive(t, waiter)
		grantedAfter(t, "the waiter", next.Fence(), losing)
		backend.Release(t, next)
	})
}

// Fault: A waiter is handed the lock and does not hear of it, and then a quarantine begins. It returns to its place
// when the claim is over, and gets its turn after the quarantine, once.
func TestAWaiterThatOwnsTheLockInQuarantine(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		for n := range 10 {
			if waiterOwnsTheLockInQuarantine(t, b, fmt.Sprint("a", n)) {
				return
			}
		}
		t.Error("this machine was too slow each time: the waiter had lost the lock again")
	})
}

// waiterOwnsTheLockInQuarantine reports whether the waiter still had the lock when the quarantine began.
func waiterOwnsTheLockInQuarantine(t *testing.T, b *backend.Backend, name string) bool {
	t.Helper()
	p := proxy.New(t, b.Server.Addr())
	holder, deaf, later := b.Client(t, strict(term)), b.Client(t, strict(term), func(o *redis.Options) { o.Addr = p.Addr() }), b.Client(t, strict(term))
	if err := holder.ForceAdmit(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := holder.Mutex(name)
	lease := backend.Acquire(t, l)
	first := backend.Start(t, deaf.Mutex(name))
	backend.Waiters(t, l, 1)
	second := backend.Start(t, later.Mutex(name))
	backend.Waiters(t, l, 2)

	p.Deafen(true)
	backend.Release(t, lease)
	handed, err := backend.HolderOf(t.Context(), l)
	if err != nil && !errors.Is(err, holdfast.ErrNotHeld) || err == nil && handed.Fence <= lease.Fence() {
		t.Fatalf("held by %+v, %v; want it handed over", handed, err)
	}
	losing := time.Now()
	do(t, b.Server, "DEL", mark)
	if h, err := backend.HolderOf(t.Context(), l); handed.Fence == 0 || err != nil || h.Fence != handed.Fence {
		p.Deafen(false)
		p.CutSubscriptions()
		for _, waiter := range []<-chan *holdfast.Lease{first, second} {
			_ = backend.Receive(t, waiter).Release(t.Context()) // it may be over
		}
		return false
	}
	p.Deafen(false)
	p.CutSubscriptions() // the waiter looks when it is subscribed again
	backend.Eventually(t, "what the waiter was handed is over", func() bool {
		return do(t, b.Server, "EXISTS", mark, "holdfast:{"+name+"}") == int64(1)
	})

	fence := handed.Fence
	for i, waiter := range []<-chan *holdfast.Lease{first, second} {
		next := backend.Receive(t, waiter)
		grantedAfter(t, "a waiter", next.Fence(), losing)
		if next.Fence() <= fence {
			t.Errorf("fence %d follows %d", next.Fence(), fence)
		}
		fence = next.Fence()
		h, err := backend.HolderOf(t.Context(), l)
		if next.Err() == nil && (err != nil || h.Fence != fence) {
			t.Errorf("held by %+v, %v; want fence %d", h, err, fence)
		}
		time.Sleep(10 * time.Millisecond)
		if len(first) > 0 || i == 0 && len(second) > 0 && next.Err() == nil {
			t.Error("another is served beside it")
		}
		backend.Release(t, next)
	}
	return true
}

// Fault: The reply to a waiter's request is lost, and the request is sent again in quarantine. It gets its turn after
// the quarantine, once.
func TestAnAcquireThatIsRepeatedInQuarantine(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		p := proxy.New(t, b.Server.Addr())
		cfg := strict(term)
		cfg.CommandTimeout = 5 * time.Second // it runs out once
		cfg.RetryTimeout = 20 * time.Second
		c := b.Client(t, strict(term))
		hasty := b.Client(t, cfg, func(o *redis.Options) { o.Addr = p.Addr() })
		initialise(t, c)
		backend.Release(t, backend.Acquire(t, hasty.Mutex("a"))) // so that the server has the scripts
		for _, waits := range []bool{false, true} {
			lost := p.Hold(proxy.Containing(script.Acquire().SHA1), proxy.Hang)
			results := make(chan *holdfast.Lease, 1)
			go func() {
				l := hasty.Mutex("a")
				if waits {
					results <- backend.Acquire(t, l)
					return
				}
				if lease, err := l.TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrQuarantine) {
					t.Errorf("TryAcquire: %v, %v", lease, err)
				}
				results <- nil
			}()
			lost.Wait(t)
			lost.Forward(t) // to the server; nobody hears the reply
			handed, err := backend.HolderOf(t.Context(), c.Mutex("a"))
			if err != nil {
				t.Fatal(err)
			}
			losing := time.Now()
			do(t, b.Server, "DEL", mark)
			lease := <-results
			if lease == nil {
				backend.Eventually(t, "what TryAcquire was not told of is given back", func() bool {
					return do(t, b.Server, "EXISTS", "holdfast:{a}") == int64(0)
				})
				if err := c.ForceAdmit(t.Context()); err != nil {
					t.Fatal(err)
				}
				continue
			}
			grantedAfter(t, "what was asked for again", lease.Fence(), losing)
			if lease.Fence() <= handed.Fence {
				t.Errorf("fence %d follows that of the lost grant, %d", lease.Fence(), handed.Fence)
			}
			backend.Release(t, lease)
		}
	})
}

// Fault: A server without replicas is in quarantine, and still knows a lease. The lease is renewed: no other server
// can have granted anything.
func TestRenewalsGoOnInQuarantine(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, strict(term))
		initialise(t, c)
		lease := backend.Acquire(t, c.Mutex("a"))
		do(t, b.Server, "DEL", mark)
		_, err := c.Mutex("b").TryAcquire(t.Context())
		quarantined(t, err)
		begun := lease.Deadline()
		backend.Eventually(t, "the lease outlives the quarantine", func() bool {
			if err := lease.Err(); err != nil {
				t.Fatal(err)
			}
			return lease.Deadline().Sub(begun) > term
		})
		if err := lease.Extend(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
		backend.Release(t, lease)
	})
}

// Fault: A Strict server is given its first replica, and counts as another server, which might have replaced an old
// master. Leases end by their deadlines, and there is a quarantine.
func TestTheFirstReplicaEndsLeases(t *testing.T) {
	t.Parallel()
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			b := &backend.Backend{Name: bin.Name, Server: server.Start(t, bin)}
			c := b.Client(t, strict(term))
			initialise(t, c)
			lease := backend.Acquire(t, c.Mutex("a"))
			server.StartReplica(t, bin, b.Server)
			do(t, b.Server, "CONFIG", "SET", "min-replicas-to-write", "1")
			_, err := c.Mutex("b").TryAcquire(t.Context())
			quarantined(t, err)
			lost(t, "an earlier lease", lease)
		})
	}
}

// Fault: A replica was made writable, in Strict mode. It grants nothing: its master does not see those writes.
func TestStrictGrantsNothingOnAReplica(t *testing.T) {
	t.Parallel()
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			master := &backend.Backend{Name: bin.Name, Server: server.Start(t, bin)}
			replica := &backend.Backend{Name: bin.Name, Server: server.StartReplica(t, bin, master.Server)}
			do(t, master.Server, "CONFIG", "SET", "min-replicas-to-write", "1")
			do(t, replica.Server, "CONFIG", "SET", "replica-read-only", "no")
			initialise(t, master.Client(t, strict(time.Second)))
			cfg := strict(time.Second)
			cfg.CommandTimeout, cfg.RetryTimeout = 10*time.Second, 50*time.Millisecond
			c := replica.Client(t, cfg)
			if err := c.ForceAdmit(t.Context()); !backend.HasCode(err, "READONLY") {
				t.Errorf("Init of a replica that takes writes: %v", err)
			}
			if _, err := c.Mutex("a").TryAcquire(t.Context()); !backend.HasCode(err, "READONLY") {
				t.Errorf("TryAcquire on a replica that takes writes: %v", err)
			}
		})
	}
}

func TestQuarantineIsAsLongAsTheLongestKnown(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		short, long := b.Client(t, strict(time.Second)), b.Client(t, strict(time.Hour))
		initialise(t, short)
		initialise(t, long)
		// The mark is that of an earlier run.
		text := do(t, b.Server, "GET", mark).(string)
		do(t, b.Server, "SET", mark, strings.Replace(text, "hf2:", "hf2:0", 1))
		_, err := short.Mutex("a").TryAcquire(t.Context())
		if left := quarantined(t, err); left < 50*time.Minute || left > time.Hour {
			t.Errorf("a quarantine of %s; a lease could last an hour", left)
		}
		// A quarantine that ends too far ahead means that the clock went back.
		part := strings.Split(do(t, b.Server, "GET", mark).(string), ":")
		do(t, b.Server, "SET", mark, fmt.Sprintf("hf2:%s:%s0:%s", part[1], part[2], part[3]))
		_, err = short.Mutex("a").TryAcquire(t.Context())
		if left := quarantined(t, err); left > time.Hour {
			t.Errorf("a quarantine of %s; an hour is the longest", left)
		}
	})
}

// If a server was promoted, or has replicas, an earlier master may go on granting until it misses its replicas.
func TestQuarantineIsLongerWhereThereAreReplicas(t *testing.T) {
	t.Parallel()
	const lag = 13 * time.Second
	left := func(t *testing.T, c *holdfast.Client) time.Duration {
		t.Helper()
		_, err := c.Mutex("a").TryAcquire(t.Context())
		return quarantined(t, err)
	}
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			b := &backend.Backend{Name: bin.Name, Server: server.Start(t, bin)}
			c := b.Client(t, strict(time.Hour))
			if d := left(t, c); d > time.Hour {
				t.Errorf("without replicas: a quarantine of %s", d)
			}
			// It becomes a replica of a port where nobody listens, and is promoted.
			do(t, b.Server, "REPLICAOF", "127.0.0.1", "1")
			do(t, b.Server, "REPLICAOF", "NO", "ONE")
			if d := left(t, c); d <= time.Hour || d > time.Hour+lag {
				t.Errorf("of a replica that was promoted: a quarantine of %s; want up to %s", d, time.Hour+lag)
			}
		})
		t.Run("replicas of "+bin.Name, func(t *testing.T) {
			t.Parallel()
			b := &backend.Backend{Name: bin.Name, Server: server.Start(t, bin)}
			server.StartReplica(t, bin, b.Server)
			do(t, b.Server, "CONFIG", "SET", "min-replicas-to-write", "1")
			if d := left(t, b.Client(t, strict(time.Hour))); d <= time.Hour || d > time.Hour+lag {
				t.Errorf("with a replica: a quarantine of %s; want up to %s", d, time.Hour+lag)
			}
			// A user who sets the quarantine knows that no old master goes on.
			cfg := strict(2 * time.Hour)
			cfg.Quarantine = 2 * time.Hour
			if d := left(t, b.Client(t, cfg)); d <= time.Hour || d > 2*time.Hour {
				t.Errorf("with a Config.Quarantine: a quarantine of %s", d)
			}
		})
	}
}

// Fault: The leases of a client can last longer than the server's quarantine. The quarantine is lengthened.
func TestAQuarantineIsLengthenedForLongerLeases(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		short, long := b.Client(t, strict(10*time.Minute)), b.Client(t, strict(time.Hour))
		for _, step := range []struct {
			c    *holdfast.Client
			term time.Duration
		}{{short, 10 * time.Minute}, {long, time.Hour}, {short, time.Hour}} {
			_, err := step.c.Mutex("a").TryAcquire(t.Context())
			if left := quarantined(t, err); left <= step.term-5*time.Minute || left > step.term {
				t.Errorf("a quarantine of %s is left; want up to %s", left, step.term)
			}
		}
		// Once the quarantine is over, a client with longer leases starts no other: none was granted before it.
		if err := short.ForceAdmit(t.Context()); err != nil {
			t.Fatal(err)
		}
		backend.Release(t, backend.Acquire(t, b.Client(t, strict(2*time.Hour)).Mutex("a")))
	})
}

func TestStrictIsRefusedWhereItCannotWork(t *testing.T) {
	t.Parallel()
	try := func(t *testing.T, c *holdfast.Client, kind error, part string) {
		t.Helper()
		_, err := c.Mutex("a").TryAcquire(t.Context())
		if !errors.Is(err, kind) || !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("TryAcquire: %v; want %v that mentions %q", err, kind, part)
		}
		if err := c.ForceAdmit(t.Context()); !errors.Is(err, kind) {
			t.Errorf("Init: %v; want %v", err, kind)
		}
	}
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		do(t, b.Server, "ACL", "SETUSER", "blind", "on", ">x", "~*", "&*", "+@all", "-info")
		blind := b.Client(t, strict(time.Minute), func(o *redis.Options) { o.Username, o.Password = "blind", "x" })
		try(t, blind, holdfast.ErrDenied, "INFO")
	})
	for _, bin := range server.Binaries(t) {
		t.Run("replicas of "+bin.Name, func(t *testing.T) {
			t.Parallel()
			b := &backend.Backend{Name: bin.Name, Server: server.Start(t, bin)}
			server.StartReplica(t, bin, b.Server)
			try(t, b.Client(t, strict(time.Minute)), holdfast.ErrUnsupported, "min-replicas-to-write")
			do(t, b.Server, "CONFIG", "SET", "min-replicas-to-write", "1")
			initialise(t, b.Client(t, strict(time.Minute)))
		})
		t.Run("cluster of "+bin.Name, func(t *testing.T) {
			t.Parallel()
			node := server.StartCluster(t, bin, 1)[0]
			b := &backend.Backend{Name: bin.Name, Server: node}
			try(t, b.Client(t, strict(time.Minute)), holdfast.ErrUnsupported, "Cluster")
		})
	}
	for _, cfg := range []holdfast.Config{
		{Quarantine: time.Hour},
		{Strict: true, MaxTTL: time.Minute, Quarantine: time.Second},
		{Strict: true, TTL: 2 * time.Minute},
	} {
		if _, err := holdfastgoredis.New(redis.NewClient(&redis.Options{}), &cfg); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		if err := b.Client(t, nil).Admit(context.Background()); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("Init of a client that is not Strict: %v", err)
		}
	})
}
