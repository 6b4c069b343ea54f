package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

// refuseWrites makes the server refuse writes with NOREPLICAS, or accept them again.
func refuseWrites(t *testing.T, b *backend.Backend, on bool) {
	t.Helper()
	replicas := "0"
	if on {
		replicas = "1"
	}
	do(t, b.Server, "CONFIG", "SET", "min-replicas-to-write", replicas)
}

// tombstones returns how many tombstones the lock's queue has.
func tombstones(t *testing.T, rdb *redis.Client) int64 {
	t.Helper()
	n, err := rdb.ZCount(t.Context(), "holdfast:{a}:q", "-inf", "(0").Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// cancelled acquires a lock by script through p, and gives up while the request is on its way. It returns the request
// once the server has its tombstone.
func cancelled(t *testing.T, p *proxy.Proxy, l *holdfast.Lock, rdb *redis.Client) proxy.Held {
	t.Helper()
	held := p.Hold(single.acquiring(l.Name()), proxy.Hang)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := l.Acquire(ctx)
		failed <- err
	}()
	held.Wait(t)
	cancel()
	if err := <-failed; err != context.Canceled {
		t.Errorf("Acquire: %v", err)
	}
	backend.Eventually(t, "the tombstone stands", func() bool { return tombstones(t, rdb) == 1 })
	return held
}

// Fault: The server refuses all writes when a lock is released. Release returns ErrUnavailable with the code
// NOREPLICAS; when the server recovers, the lock is released in the background, and its waiter need not wait for the
// TTL.
//
// Bug: A failed release drops the token, so that nobody can repeat it.
func TestRefusedReleaseIsDoneInTheBackground(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	for _, refusal := range []struct {
		name   string
		want   error
		refuse []any
		allow  []any
	}{
		{"too few replicas", backend.Code("NOREPLICAS"),
			[]any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}},
		{"no permission", holdfast.ErrDenied,
			[]any{"ACL", "SETUSER", "default", "-get"}, []any{"ACL", "SETUSER", "default", "+get"}},
	} {
		for _, w := range []way{native, single} {
			t.Run(refusal.name+"/"+w.name, func(t *testing.T) {
				lease := backend.Acquire(t, b.Client(t, w.config()).Mutex("a", holdfast.TTL(time.Minute)))
				next := backend.Start(t, b.Client(t, nil).Mutex("a"))
				backend.Waiters(t, b.Client(t, nil).Mutex("a"), 1)
				do(t, b.Server, refusal.refuse...)
				if err := lease.Release(t.Context()); !backend.Matches(err, refusal.want) {
					t.Errorf("Release: %v", err)
				}
				time.Sleep(300 * time.Millisecond) // the background meets the refusal, too
				do(t, b.Server, refusal.allow...)
				backend.Release(t, backend.Receive(t, next)) // it looks for itself after 30s
				b.Cleaned(t)
			})
		}
	}
}

// Fault: Release is called again after a refusal, and the release in the background has been carried out meanwhile.
// It returns ErrAmbiguous, which is no loss of the lease.
func TestReleaseRepeatedAfterARefusalIsAmbiguous(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	for _, w := range []way{native, single} {
		t.Run(w.name, func(t *testing.T) {
			lease := backend.Acquire(t, b.Client(t, w.config()).Mutex("a", holdfast.TTL(longest)))
			refuseWrites(t, b, true)
			if err := lease.Release(t.Context()); !backend.HasCode(err, "NOREPLICAS") {
				t.Errorf("Release: %v", err)
			}
			refuseWrites(t, b, false)
			other := b.Client(t, nil).Mutex("a")
			backend.Eventually(t, "the background releases the lock", func() bool {
				held, err := backend.IsHeld(t.Context(), other)
				return !held && err == nil
			})
			if err := lease.Release(t.Context()); !errors.Is(err, holdfast.ErrAmbiguous) || errors.Is(err, holdfast.ErrLost) {
				t.Errorf("Release again: %v", err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release once more: %v", err)
			}
		})
	}
}

// Fault: A copy of a TryAcquire that was answered "held" comes when the lock is free. It takes nothing, or gives it back.
func TestLateCopyOfATryThatFoundTheLockHeldTakesNothing(t *testing.T) {
	t.Parallel()
	b := onePlace(t)
	p := proxy.New(t, b.Server.Addr())
	eachWay(t, p, patient, func(t *testing.T, c *holdfast.Client, w way) {
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("a"))
		held := p.Hold(w.acquiring("a"), proxy.Cut)
		if _, err := c.Mutex("a", holdfast.TTL(longest)).TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("TryAcquire: %v", err)
		}
		if w.native {
			backend.Release(t, lease)
			givenBack(t, b, held)
			return
		}
		backend.Eventually(t, "the tombstone stands", func() bool { return slices.Contains(b.Keys(t), "holdfast:{a}:q") })
		backend.Release(t, lease)
		if reply := held.Forward(t); !w.refused(reply, "gone") {
			t.Errorf("the late copy is answered %q", reply)
		}
		b.Cleaned(t)
	})
}

// Fault: A lock is deleted, and a late copy of its acquire brings it back with the same token. The lease is lost:
// somebody may have held the lock in between.
func TestDeletedLockThatALateCopyBringsBackIsLost(t *testing.T) {
	t.Parallel()
	b := onePlace(t)
	p := proxy.New(t, b.Server.Addr())
	eachWay(t, p, patient, func(t *testing.T, c *holdfast.Client, w way) {
		b.clients = []*holdfast.Client{c}
		held := p.Hold(w.acquiring("a"), proxy.Cut)
		lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(6*time.Second)))
		do(t, b.Server, "DEL", "holdfast:{a}")
		if reply := held.Forward(t); !w.granted(reply) {
			t.Fatalf("the late copy is answered %q", reply)
		}
		taken(t, lease)
		b.Cleaned(t)
	})
}

// Fault: The reply to an enqueue is lost, and the waiter is handed the lock meanwhile. It learns that from the answer
// to its repeated enqueue, as if it had just acquired the lock.
func TestLockHandedOverBehindALostReplyIsAWholeLease(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: part of make nightly")
	}
	t.Parallel()
	b := backend.One(t)
	for name, renew := range map[string]bool{"renewed": true, "not renewed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl = 12 * time.Second // a claim is an eighth of it
			p := proxy.New(t, b.Server.Addr())
			c := through(t, p, holdfast.Config{CommandTimeout: 800 * time.Millisecond})
			lease := backend.Acquire(t, b.Client(t, nil).Mutex(name))
			trap := p.LoseReply(proxy.Containing(script.Acquire().SHA1, "{"+name+"}", "holdfast:c:"), proxy.Hang)
			next := backend.Start(t, c.Mutex(name, holdfast.TTL(ttl), backend.Renew(renew)))
			if lost := trap.Reply(t); !strings.Contains(lost, "queued") {
				t.Fatalf("the lost reply was %q", lost)
			}
			released := time.Now()
			backend.Release(t, lease) // before the repeat
			lease = backend.Receive(t, next)
			first := lease.Deadline()
			if lasts := first.Sub(released); lasts < ttl/2 {
				t.Errorf("the lease lasts for %s of %s", lasts, ttl)
			}
			within(t, b.Redis(t), lease)
			if renew {
				backend.Eventually(t, "it is renewed", func() bool { return lease.Deadline().After(first) })
			}
			backend.Release(t, lease)
		})
	}
}

// Fault: A crashed waiter's entry is in the queue, and nobody keeps the queue alive. A tombstone in it lasts as long
// as it must.
func TestTombstoneOutlivesTheQueueOfADeadWaiter(t *testing.T) {
	t.Parallel()
	b := onePlace(t)
	p := proxy.New(t, b.Server.Addr())
	cfg := patient
	cfg.ViaClient = true
	c := b.through(t, p, cfg)
	left := 10 * time.Second
	if b.clock == nil { // it is waited for
		left = time.Second
	}
	rdb := b.Redis(t)
	dead := redis.Z{Score: float64(time.Now().Add(-time.Minute).UnixMicro()), Member: "dead\n1500\nholdfast:c:dead\n{}"}
	if err := rdb.ZAdd(t.Context(), "holdfast:{a}:q", dead).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.PExpire(t.Context(), "holdfast:{a}:q", left).Err(); err != nil {
		t.Fatal(err)
	}
	held := cancelled(t, p, c.Mutex("a", holdfast.TTL(time.Minute)), rdb)
	b.pass(t, left)
	if reply := held.Forward(t); !single.refused(reply, "gone") {
		t.Errorf("the late copy is answered %q", reply)
	}
	b.pass(t, max(0, rdb.PTTL(t.Context(), "holdfast:{a}:q").Val()))
	b.Cleaned(t)
}

// Fault: A client with a long RetryTimeout has left a tombstone in the queue, and another enqueues. The tombstone
// lasts as long as before.
func TestEnqueueDoesNotShortenTheLifeOfATombstone(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	const long = 5 * time.Minute
	c := through(t, p, holdfast.Config{CommandTimeout: patient.CommandTimeout, RetryTimeout: long, ViaClient: true})
	rdb := b.Redis(t)
	cancelled(t, p, c.Mutex("a"), rdb)
	lease := backend.Acquire(t, b.Client(t, nil).Mutex("a"))
	next := backend.Start(t, b.Client(t, nil).Mutex("a"))
	backend.Waiters(t, b.Client(t, nil).Mutex("a"), 1)
	if pttl := rdb.PTTL(t.Context(), "holdfast:{a}:q").Val(); pttl < long-time.Minute {
		t.Errorf("the queue has %s left; its tombstone stands for %s", pttl, long)
	}
	backend.Release(t, lease)
	backend.Release(t, backend.Receive(t, next))
	if n := tombstones(t, rdb); n != 1 {
		t.Errorf("%d tombstones", n)
	}
}

// slowly makes go-redis wait for answers as long as the client does.
func slowly(o *redis.Options) { o.ReadTimeout = 5 * time.Minute }

// Fault: Answers take less time than a lease lasts, but more than one try may take. The lease is kept.
func TestRenewalsOnASlowWayKeepTheLease(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	for _, w := range []way{native, single} {
		t.Run(w.name, func(t *testing.T) {
			c := through(t, p, holdfast.Config{CommandTimeout: 5 * time.Minute, ViaClient: !w.native}, slowly)
			machine.Unhurried(t, 500*time.Millisecond, func(unit time.Duration) error {
				ttl := unit * 16 / 5
				p.DelayReplies(unit)
				defer p.DelayReplies(0)
				lease, err := c.Mutex("a", holdfast.TTL(ttl)).Acquire(t.Context())
				if err != nil {
					return err
				}
				select {
				case <-lease.Done():
					return fmt.Errorf("the lease ended: %w", context.Cause(lease.Context(context.Background())))
				case <-time.After(3 * ttl):
					within(t, b.Redis(t), lease)
				}
				p.DelayReplies(0)
				return lease.Release(t.Context())
			})
		})
	}
}

// Fault: The answers to an Extend and to a later renewal come in the wrong order. The Extend, which was sent first
// and asked for more, counts.
func TestExtendAnsweredAfterALaterRenewalCounts(t *testing.T) {
	backend.NeedsManyConnections(t)
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	c := through(t, p, holdfast.Config{CommandTimeout: 5 * time.Minute, ViaClient: true}, slowly) // one try, however slow
	machine.Unhurried(t, 500*time.Millisecond, func(unit time.Duration) error {
		// A second renewal would tell the client how long the lock really lasts.
		lease, err := c.Mutex("a", holdfast.TTL(6*unit), holdfast.MaxRenewals(1)).Acquire(t.Context())
		if err != nil {
			return err
		}
		defer func() { _ = lease.Release(t.Context()) }()
		first, began := lease.Deadline(), time.Now()
		p.DelayRequests(4 * unit)
		extended := make(chan error, 1)
		go func() { extended <- lease.Extend(t.Context(), time.Hour) }()
		time.Sleep(unit) // the request is in the proxy now
		p.DelayRequests(0)
		for lease.Err() == nil && !lease.Deadline().After(first) { // until the renewal is answered
			time.Sleep(2 * time.Millisecond)
		}
		if lasts := lease.Deadline().Sub(began); lasts > 30*time.Minute {
			return fmt.Errorf("the renewal came second: the lease lasts for %s", lasts)
		}
		if err := <-extended; err != nil {
			return fmt.Errorf("Extend: %w", err)
		}
		if lasts := lease.Deadline().Sub(began); lasts < 59*time.Minute {
			return fmt.Errorf("the lease lasts for %s, after an Extend by an hour", lasts)
		}
		within(t, b.Redis(t), lease)
		return lease.Release(t.Context())
	})
	b.Cleaned(t)
}
