package dataloss

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
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
	expect.OK(t, inspect.New(c).Admit(t.Context()))
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
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, strict(time.Hour))
		initialise(t, c)
		backend.Release(t, backend.Acquire(t, c.Mutex("a")))
		initialise(t, c) // the same again

		// A missing mark means lost data, whoever removed it.
		do(t, b.Server, "DEL", mark)
		_, err := c.Mutex("a").TryAcquire(t.Context())
		expect.Between(t, "what is left of a quarantine of an hour", quarantined(t, err), 50*time.Minute, time.Hour)
		if !strings.Contains(err.Error(), "holdfast init") || !strings.Contains(err.Error(), b.Server.Addr()) {
			t.Errorf("the error does not say what to do: %v", err)
		}
		expect.Err(t, "Admit of a server in quarantine", inspect.New(c).Admit(t.Context()), holdfast.ErrQuarantine)
		expect.Err(t, "ForceAdmit", inspect.New(c).ForceAdmit(t.Context()), nil)
		backend.Release(t, backend.Acquire(t, c.Mutex("a")))
	})
}

// Nobody is notified when an operator ends a quarantine. Waiters notice soon, however long it was to last.
func TestWaitersNoticeThatAQuarantineWasEnded(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, strict(time.Hour))
		waiting := backend.Start(t, c.Mutex("a"))
		backend.Eventually(t, "the waiter is queued", func() bool {
			s, err := c.Mutex("a").Status(t.Context())
			return err == nil && s.Waiting == 1
		})
		expect.OK(t, inspect.New(b.Client(t, strict(time.Hour))).ForceAdmit(t.Context()))
		backend.Release(t, backend.Receive(t, waiting))
	})
}

// Fault: A lock with waiters is released in quarantine. Nothing is handed over, and nothing is lost by that: they are served in turn
// afterwards.
func TestReleaseInQuarantineHandsNothingOver(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, strict(term))
		initialise(t, c)
		lease := backend.Acquire(t, c.Mutex("a"))
		first := backend.Start(t, b.Client(t, strict(term)).Mutex("a"))
		backend.Waiters(t, c.Mutex("a"), 1)
		second := backend.Start(t, b.Client(t, strict(term)).Mutex("a"))
		backend.Waiters(t, c.Mutex("a"), 2)
		losing := time.Now()
		do(t, b.Server, "DEL", mark)
		backend.Release(t, lease)
		next := backend.Receive(t, first)
		grantedAfter(t, "the first", next.Fence(), losing)
		time.Sleep(10 * time.Millisecond)
		if len(second) > 0 && next.Err() == nil {
			t.Error("the second is served beside the first")
		}
		backend.Release(t, next)
		backend.Release(t, backend.Receive(t, second))
	})
}

// Fault: The reply to a TryAcquire that was granted the lock is lost, and it is sent again in quarantine. It is refused, and what it was
// not told of is given back.
func TestAnAcquireThatIsRepeatedInQuarantine(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		p := proxy.New(t, b.Server.Addr())
		cfg := strict(term)
		cfg.CommandTimeout = 5 * time.Second // it runs out once
		cfg.RetryTimeout = 20 * time.Second
		hasty := b.Client(t, cfg, func(o *redis.Options) { o.Addr = p.Addr() })
		initialise(t, hasty)
		backend.Release(t, backend.Acquire(t, hasty.Mutex("a"))) // so that the server has the scripts
		lost := p.Hold(proxy.Containing(script.Acquire().SHA1), proxy.Hang)
		refused := make(chan error, 1)
		go func() {
			_, err := hasty.Mutex("a").TryAcquire(t.Context())
			refused <- err
		}()
		lost.Wait(t)
		lost.Forward(t) // to the server; nobody hears the reply
		expect.Equal[any](t, "the lock was not granted", do(t, b.Server, "EXISTS", "holdfast:{a}"), int64(1))
		do(t, b.Server, "DEL", mark)
		expect.Err(t, "TryAcquire", <-refused, holdfast.ErrQuarantine)
		backend.Eventually(t, "what TryAcquire was not told of is given back", func() bool {
			return do(t, b.Server, "EXISTS", "holdfast:{a}") == int64(0)
		})
	})
}

// Fault: A server without replicas is in quarantine, and still knows a lease. The lease is renewed: no other server
// can have granted anything.
func TestRenewalsGoOnInQuarantine(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, strict(term))
		initialise(t, c)
		lease := backend.Acquire(t, c.Mutex("a"))
		do(t, b.Server, "DEL", mark)
		_, err := c.Mutex("b").TryAcquire(t.Context())
		quarantined(t, err)
		begun := lease.Deadline()
		backend.Eventually(t, "the lease outlives the quarantine", func() bool {
			expect.OK(t, lease.Err())
			return lease.Deadline().Sub(begun) > term
		})
		expect.Err(t, "Extend", lease.Extend(t.Context(), time.Second), nil)
		backend.Release(t, lease)
	})
}

// Fault: A Strict server is given its first replica, and counts as another server, which might have replaced an old
// master. Leases end by their deadlines, and there is a quarantine.
func TestTheFirstReplicaEndsLeases(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
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

// Fault: A replica was made writable, in Strict mode. It grants nothing: its master does not see those writes.
func TestStrictGrantsNothingOnAReplica(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		master := &backend.Backend{Name: bin.Name, Server: server.Start(t, bin)}
		replica := &backend.Backend{Name: bin.Name, Server: server.StartReplica(t, bin, master.Server)}
		do(t, master.Server, "CONFIG", "SET", "min-replicas-to-write", "1")
		do(t, replica.Server, "CONFIG", "SET", "replica-read-only", "no")
		initialise(t, master.Client(t, strict(time.Second)))
		cfg := strict(time.Second)
		cfg.CommandTimeout, cfg.RetryTimeout = 10*time.Second, 50*time.Millisecond
		c := replica.Client(t, cfg)
		if err := inspect.New(c).ForceAdmit(t.Context()); !backend.HasCode(err, "READONLY") {
			t.Errorf("Init of a replica that takes writes: %v", err)
		}
		if _, err := c.Mutex("a").TryAcquire(t.Context()); !backend.HasCode(err, "READONLY") {
			t.Errorf("TryAcquire on a replica that takes writes: %v", err)
		}
	})
}

func TestQuarantineIsAsLongAsTheLongestKnown(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		short, long := b.Client(t, strict(time.Second)), b.Client(t, strict(time.Hour))
		initialise(t, short)
		initialise(t, long)
		// The mark is that of an earlier run.
		text := do(t, b.Server, "GET", mark).(string)
		do(t, b.Server, "SET", mark, strings.Replace(text, "hf2:", "hf2:0", 1))
		_, err := short.Mutex("a").TryAcquire(t.Context())
		expect.Between(t, "the quarantine after leases of an hour", quarantined(t, err), 50*time.Minute, time.Hour)
		// A quarantine that ends too far ahead means that the clock went back.
		part := strings.Split(do(t, b.Server, "GET", mark).(string), ":")
		do(t, b.Server, "SET", mark, fmt.Sprintf("hf2:%s:%s0:%s", part[1], part[2], part[3]))
		_, err = short.Mutex("a").TryAcquire(t.Context())
		expect.AtMost(t, "the quarantine", quarantined(t, err), time.Hour)
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
			expect.AtMost(t, "without replicas: a quarantine of", left(t, c), time.Hour)
			// It becomes a replica of a port where nobody listens, and is promoted.
			do(t, b.Server, "REPLICAOF", "127.0.0.1", "1")
			do(t, b.Server, "REPLICAOF", "NO", "ONE")
			expect.Between(t, "the quarantine of a replica that was promoted", left(t, c), time.Hour+1, time.Hour+lag)
		})
		t.Run("replicas of "+bin.Name, func(t *testing.T) {
			t.Parallel()
			b := &backend.Backend{Name: bin.Name, Server: server.Start(t, bin)}
			server.StartReplica(t, bin, b.Server)
			do(t, b.Server, "CONFIG", "SET", "min-replicas-to-write", "1")
			expect.Between(t, "the quarantine with a replica", left(t, b.Client(t, strict(time.Hour))), time.Hour+1, time.Hour+lag)
			// A user who sets the quarantine knows that no old master goes on.
			cfg := strict(2 * time.Hour)
			cfg.Quarantine = 2 * time.Hour
			expect.Between(t, "the quarantine with a Config.Quarantine", left(t, b.Client(t, cfg)), time.Hour+1, 2*time.Hour)
		})
	}
}

// Fault: The leases of a client can last longer than the server's quarantine. The quarantine is lengthened.
func TestAQuarantineIsLengthenedForLongerLeases(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		short, long := b.Client(t, strict(10*time.Minute)), b.Client(t, strict(time.Hour))
		for _, step := range []struct {
			c    *holdfast.Client
			term time.Duration
		}{{short, 10 * time.Minute}, {long, time.Hour}, {short, time.Hour}} {
			_, err := step.c.Mutex("a").TryAcquire(t.Context())
			expect.Between(t, "the quarantine that is left", quarantined(t, err), step.term-5*time.Minute+1, step.term)
		}
		// Once the quarantine is over, a client with longer leases starts no other: none was granted before it.
		expect.OK(t, inspect.New(short).ForceAdmit(t.Context()))
		backend.Release(t, backend.Acquire(t, b.Client(t, strict(2*time.Hour)).Mutex("a")))
	})
}

func TestStrictIsRefusedWhereItCannotWork(t *testing.T) {
	try := func(t *testing.T, c *holdfast.Client, kind error, part string) {
		t.Helper()
		_, err := c.Mutex("a").TryAcquire(t.Context())
		expect.ErrSays(t, "TryAcquire", err, kind, part)
		expect.Err(t, "Init", inspect.New(c).ForceAdmit(t.Context()), kind)
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
}
