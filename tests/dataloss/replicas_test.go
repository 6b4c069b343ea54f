package dataloss

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// inSoShortATime repeats f until it succeeds: a slow machine may take longer than the replica has to confirm
// it.
func inSoShortATime[T any](t *testing.T, f func(context.Context) (T, error)) (got T) {
	t.Helper()
	backend.Eventually(t, "the replica confirms it in time", func() bool {
		var err error
		if got, err = f(t.Context()); err != nil && !errors.Is(err, holdfast.ErrReplicas) {
			t.Fatal(err)
		}
		return err == nil
	})
	return got
}

// Fault: Replicas do not confirm a lock, of any kind. It is neither granted nor kept, and a run that they have not confirmed does
// not count.
func TestMinReplicas(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		p := startPair(t, bin)
		master, replica := p.servers[0], p.servers[1]
		do(t, master, "CONFIG", "SET", "min-replicas-to-write", "0")
		cfg := &holdfast.Config{CommandTimeout: 10 * time.Second}
		c, other := p.client(cfg), p.client(cfg)
		confirmed, soon := holdfast.Durability{Replicas: 1, Timeout: 10 * time.Second}, holdfast.Durability{Replicas: 1, Timeout: 300 * time.Millisecond}
		kinds := func(with ...backend.OneServer) map[string]backend.Pair {
			all := everyPair(with...)
			if testing.Short() {
				maps.DeleteFunc(all, func(what string, _ backend.Pair) bool { return what != "a mutex" })
			}
			return all
		}
		has := func(what string) {
			t.Helper()
			there, all := do(t, replica, "KEYS", "*{*").([]any), do(t, master, "KEYS", "*{*").([]any)
			if len(there) != len(all) || len(all) == 0 {
				t.Errorf("%s: the replica has %q of the keys %q", what, there, all)
			}
		}
		for what, pair := range kinds(confirmed) {
			lease := backend.Acquire(t, pair.Held(c))
			has(what)
			// A lease that is handed over is confirmed, too.
			waiter := backend.Start(t, pair.Wanted(other))
			backend.Waiters(t, pair.Seen(c), 1)
			backend.Release(t, lease)
			lease = backend.Receive(t, waiter)
			has(what)
			if text := fmt.Sprint(do(t, replica, "GET", "holdfast:{m}")); what == "a mutex" && !strings.Contains(text, fmt.Sprint(lease.Fence())) {
				t.Errorf("the replica has %q; the lease's fence is %d", text, lease.Fence())
			}
			backend.Release(t, lease)
		}

		lease := inSoShortATime(t, c.Mutex("a", holdfast.TTL(8*time.Second), soon).Acquire)
		replica.Pause()
		defer replica.Resume()
		// A renewal that was confirmed just now moves it by some seconds.
		before := lease.Deadline()
		if err := lease.Extend(t.Context(), time.Hour); !errors.Is(err, holdfast.ErrReplicas) || lease.Deadline().Sub(before) > time.Minute {
			t.Errorf("Extend without the replica: %v; the deadline moved by %s", err, lease.Deadline().Sub(before))
		}
		_, err := c.Mutex("b", soon).TryAcquire(t.Context())
		if !errors.Is(err, holdfast.ErrReplicas) || !strings.Contains(err.Error(), "0 of 1") || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("TryAcquire without the replica: %v", err)
		}
		plain := kinds()
		for what, pair := range kinds(soon) {
			expect.Err(t, what+": TryAcquire without the replica", expect.ErrOf(pair.Wanted(other).TryAcquire(t.Context())), holdfast.ErrReplicas)
			backend.Release(t, backend.Acquire(t, plain[what].Held(c))) // it was given back
			expect.Err(t, what+": Acquire without the replica", expect.ErrOf(pair.Wanted(other).Acquire(t.Context())), holdfast.ErrReplicas)
			lease := backend.Acquire(t, plain[what].Held(c))
			handed := make(chan error, 1)
			go func() {
				_, err := pair.Wanted(other).Acquire(t.Context())
				handed <- err
			}()
			backend.Waiters(t, pair.Seen(c), 1)
			backend.Release(t, lease)
			expect.Err(t, what+": Acquire of what is handed over without the replica", <-handed, holdfast.ErrReplicas)
		}
		lost(t, "renewals that no replica confirms", lease)
		job, ran := once.New(c, "j", once.Every(time.Hour), soon), false
		backend.Eventually(t, "a run begins that the replica confirms in time", func() bool {
			replica.Resume()
			_, err := job.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
				ran = true
				replica.Pause()
				return "", nil
			})
			expect.Err(t, "a run that the replica does not confirm", err, holdfast.ErrReplicas)
			return ran
		})
		backend.Eventually(t, "what was not confirmed is given back", func() bool {
			for _, key := range do(t, master, "KEYS", "*{*").([]any) {
				if key := key.(string); strings.HasSuffix(key, "}") || !strings.HasPrefix(key, "holdfast:") { // not a queue or a record
					return false
				}
			}
			return true
		})
		replica.Resume()
		backend.Release(t, backend.Acquire(t, c.Mutex("b", confirmed)))
	})
}

// Fault: The server is killed, and has only what was on disk when a lock was granted with Fsync. It has the lock.
func TestFsync(t *testing.T) {
	t.Parallel()
	tested := false
	for _, bin := range server.Binaries(t) {
		tested = tested || bin.AtLeast(7, 2)
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			if !bin.AtLeast(7, 2) {
				t.Skipf("SKIPPED: %s has no WAITAOF; Redis 7.2 or Valkey has", bin.Name)
			}
			s := server.Start(t, bin, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "everysec"))
			b := &backend.Backend{Name: bin.Name, Server: s}
			c := b.Client(t, &holdfast.Config{CommandTimeout: 20 * time.Second})
			lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(time.Minute), holdfast.Durability{Fsync: true, Timeout: 15 * time.Second}))
			copyAOF(t, s)
			s.Kill()
			restoreAOF(t, s)
			s.Restart()
			if h, err := backend.HolderOf(t.Context(), c.Mutex("a")); err != nil || h.Fence != lease.Fence() {
				t.Errorf("on the disk as it was when the lock was granted, its holder is %+v, %v", h, err)
			}
			backend.Release(t, lease)

			do(t, s, "CONFIG", "SET", "appendonly", "no")
			_, err := c.Mutex("b", holdfast.Durability{Fsync: true}).TryAcquire(t.Context())
			expect.Fails(t, "an acquire of a server that writes to no disk", err)
			t.Log(err)
		})
	}
	if !tested {
		t.Log("WAITAOF WAS NOT TESTED: no server here has it; set HOLDFAST_TEST_SERVERS")
	}
}

// Fault: The server syncs its disk once a second, as it does by default. A lock that must be on disk can be acquired
// with the default timeouts.
func TestFsyncOnceASecond(t *testing.T) {
	soak.Nightly(t)
	server.Each(t, func(t *testing.T, bin server.Binary) {
		if !bin.AtLeast(7, 2) {
			t.Skipf("SKIPPED: %s has no WAITAOF; Redis 7.2 or Valkey has", bin.Name)
		}
		s := server.Start(t, bin, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "everysec"))
		b := &backend.Backend{Name: bin.Name, Server: s}
		c := b.Client(t, &holdfast.Config{CommandTimeout: 2 * time.Second, RetryTimeout: 3 * time.Second})
		const want = 6
		for granted, tries := 0, 0; granted < want; tries++ {
			if tries == 5*want {
				t.Fatalf("%d of %d acquires succeeded; the disk is too slow for this test", granted, tries)
			}
			// Each begins when the previous one is on disk, and so waits for about a second.
			lease, err := c.Mutex(fmt.Sprint("a", tries), holdfast.Durability{Fsync: true}).TryAcquire(t.Context())
			if err == nil {
				granted++
				backend.Release(t, lease)
				continue
			}
			// The machine's disk may be slow: no default would wait as long as it takes now.
			var took time.Duration
			for i := range 4 { // the first of them may be written together with earlier data
				begun := time.Now()
				do(t, s, "SET", "measured", i)
				do(t, s, "WAITAOF", 1, 0, 10_000)
				took = max(took, time.Since(begun))
			}
			if !errors.Is(err, holdfast.ErrReplicas) && !errors.Is(err, holdfast.ErrUnavailable) || took < 1300*time.Millisecond {
				t.Fatalf("TryAcquire: %v; without it a write is on disk after %s", err, took)
			}
		}
	})
}

// Fault: A script was carried out, and then the server refuses to wait for the disk or the replicas. The lock is
// given back, and nobody else in the queue is affected.
func TestALockIsGivenBackWhenWaitingIsRefused(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		do(t, b.Server, "ACL", "SETUSER", "hasty", "on", ">x", "~*", "&*", "+@all", "-wait")
		hasty := b.Client(t, nil, func(o *redis.Options) { o.Username, o.Password = "hasty", "x" })
		c := b.Client(t, nil)
		free := func(what string) {
			t.Helper()
			backend.Eventually(t, "the lock that "+what+" was not granted is free", func() bool {
				return do(t, b.Server, "EXISTS", "holdfast:{a}") == int64(0)
			})
		}
		for what, l := range map[string]*holdfast.Lock{
			"for want of an append-only file": c.Mutex("a", holdfast.Durability{Fsync: true}),
			"for want of permission to WAIT":  hasty.Mutex("a", holdfast.Durability{Replicas: 1, Timeout: time.Second}),
		} {
			if _, err := l.TryAcquire(t.Context()); err == nil {
				t.Errorf("TryAcquire: granted %s", what)
			} else {
				t.Log(err)
			}
			free(what)
			expect.Fails(t, "Acquire "+what, expect.ErrOf(l.Acquire(t.Context())))
			free(what)
		}

		lease := backend.Acquire(t, c.Mutex("a"))
		refused := make(chan error, 1)
		go func() {
			_, err := c.Mutex("a", holdfast.Durability{Fsync: true}).Acquire(t.Context())
			refused <- err
		}()
		backend.Waiters(t, c.Mutex("a"), 1)
		next := backend.Start(t, c.Mutex("a"))
		backend.Release(t, lease)
		expect.Fails(t, "a wait for a lock that is on no disk", <-refused)
		backend.Release(t, backend.Receive(t, next))
	})
}
