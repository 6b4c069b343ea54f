package faults

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// still fails the test if the wait for a lease ends within d.
func still(t *testing.T, waiting <-chan *holdfast.Lease, d time.Duration) {
	t.Helper()
	select {
	case <-waiting:
		t.Fatal("the wait has ended")
	case <-time.After(d):
	}
}

// Fault: A queued waiter looks when the lock may have expired, and the server refuses. The waiter waits on.
func TestQueuedWaiterOutlivesRefusals(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	const ttl = 5 * time.Second
	backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(ttl), holdfast.NoRenew()))
	next := backend.Start(t, b.Client(t, &impatient).Mutex("a"))
	backend.Waiters(t, b.Client(t, nil).Mutex("a"), 1)
	refuseWrites(t, b, true)
	still(t, next, ttl+impatient.RetryTimeout)
	refuseWrites(t, b, false)
	backend.Release(t, backend.Receive(t, next)) // after a refused look it does not rest for 30s
	b.Cleaned(t)
}

// Fault: The server is away, or refuses, while a poller waits, which is in no queue. It waits on all the same.
func TestPollingWaiterOutlivesOutagesAndRefusals(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	do(t, b.Server, "ACL", "SETUSER", "deaf", "on", ">x", "~*", "resetchannels", "+@all")
	p := proxy.New(t, b.Server.Addr())
	answered := make(chan struct{})
	cfg := impatient
	cfg.Observers = []*holdfast.Observer{{AcquireQueued: func(context.Context, holdfast.AcquireEvent) { close(answered) }}}
	c := backend.Open(t, &cfg, &redis.Options{Addr: p.Addr(), Username: "deaf", Password: "x"})
	lease := backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(time.Minute)))
	next := backend.Start(t, c.Mutex("a"))
	backend.Told(t, "that it waits, since the server has answered it", answered)
	before := b.Server.CommandStats()["evalsha"]
	backend.Eventually(t, "it polls", func() bool { return b.Server.CommandStats()["evalsha"] >= before+4 }) // two of them may check the settings

	p.SwallowReplies(true)
	still(t, next, 2*impatient.RetryTimeout)
	p.SwallowReplies(false)

	do(t, b.Server, "CONFIG", "SET", "maxmemory", "1")
	backend.Release(t, lease)
	still(t, next, impatient.RetryTimeout)
	do(t, b.Server, "CONFIG", "SET", "maxmemory", "0")
	backend.Release(t, backend.Receive(t, next))
	b.Cleaned(t)
}

// The next goroutine has asked for its own lock's TTL, not for the other's.
func TestExtendedLeaseIsNotPassedOnWithinTheProcess(t *testing.T) {
	t.Parallel()
	b := backend.One(t)
	const ttl = 5 * time.Second
	l := b.Client(t, nil).Mutex("a", holdfast.TTL(ttl))
	other := b.Client(t, nil).Mutex("a")
	for range 5 { // a lease is passed on for 50 ms only
		began := time.Now()
		lease := backend.Acquire(t, other)
		next := [...]<-chan *holdfast.Lease{backend.Start(t, l), backend.Start(t, l)}
		backend.Waiters(t, other, 1)
		backend.Release(t, lease)
		var second <-chan *holdfast.Lease
		select {
		case lease = <-next[0]:
			second = next[1]
		case lease = <-next[1]:
			second = next[0]
		}
		// The renewal that turns the claim into a lease reserves a fence for the next one.
		backend.Eventually(t, "the claim is a lease", func() bool { return lease.Err() != nil || time.Until(lease.Deadline()) > ttl/2 })
		deadline := lease.Deadline()
		if err := lease.Extend(t.Context(), time.Hour); err != nil && !expired(err, deadline) {
			t.Fatal(err)
		}
		backend.ReleaseSince(t, began, lease)
		lease = backend.Receive(t, second)
		if left := time.Until(lease.Deadline()); left > ttl {
			t.Errorf("a lease with a TTL of %s lasts for %s", ttl, left)
		}
		if pttl := b.Redis(t).PTTL(t.Context(), "holdfast:{a}").Val(); pttl > ttl {
			t.Errorf("a lock with a TTL of %s expires in %s", ttl, pttl)
		}
		backend.Release(t, lease)
	}
	b.Cleaned(t)
}

// Fault: A renewal is never answered, and the lease could be passed on within the process only after that answer. The
// release does not wait for it.
func TestHangingRenewalDoesNotHoldUpRelease(t *testing.T) {
	backend.NeedsManyConnections(t)
	t.Parallel()
	b := backend.One(t)
	p := proxy.New(t, b.Server.Addr())
	l := through(t, p, holdfast.Config{CommandTimeout: 5 * time.Minute, ViaClient: true}).Mutex("a")
	t.Cleanup(p.Cut) // a command that hangs would keep the client from closing
	other := b.Client(t, nil).Mutex("a")
	// A claim lasts for 1.5s, and on a slow machine it may be over before the waiter hears of it, or releases.
	// tests/virtual has the test that Release does not wait for the claim's end, either.
	began := time.Now()
	for range 20 {
		if releasesInItsClaim(t, p, l, other) {
			b.Cleaned(t)
			return
		}
	}
	t.Fatalf("in none of 20 attempts was the lease released within its claim\n%s", machine.Report(began))
}

// releasesInItsClaim hands the lock over to a waiter of l whose renewal hangs, and releases it. It returns false
// if the claim was over before.
func releasesInItsClaim(t *testing.T, p *proxy.Proxy, l, other *holdfast.Lock) bool {
	t.Helper()
	lease := backend.Acquire(t, other)
	first, second := backend.Start(t, l), backend.Start(t, l)
	backend.Waiters(t, other, 1)
	claim := false
	renewal := p.Hold(func(request []byte) bool { // at once, for a claim
		claim = running(script.Renew(), "a")(request)
		return claim || running(script.BatchRenew(), "a")(request)
	}, proxy.Hang)
	backend.Release(t, lease)
	select {
	case lease = <-first:
		first = second
	case lease = <-second:
	}
	renewal.Wait(t)
	begun := time.Now()
	err := lease.Release(t.Context())
	lost := errors.Is(err, holdfast.ErrLost)
	if err != nil && !lost {
		t.Fatalf("Release: %v\n%s", err, machine.Report(begun))
	}
	if took := time.Since(begun); took > time.Minute { // CommandTimeout is five
		t.Errorf("Release took %s\n%s", took, machine.Report(begun))
	}
	next := backend.Receive(t, first)
	reply := renewal.Forward(t)
	if claim && !lost && !strings.Contains(reply, "gone") {
		t.Errorf("the late renewal is answered %q", reply)
	}
	if err := next.Release(t.Context()); err != nil && !errors.Is(err, holdfast.ErrLost) { // its claim, too, may be over
		t.Fatalf("Release of the next lease: %v\n%s", err, machine.Report(begun))
	}
	return claim && !lost
}

// Fault: The machine is suspended past the deadline, and the timers with it. Err says that the lease is lost, and
// contexts end soon after waking.
func TestSuspensionEndsLeasesOnWakingUp(t *testing.T) {
	var slept atomic.Int64
	begun := time.Now()
	t.Cleanup(clock.SetBoot(func() time.Duration { return time.Hour + time.Since(begun) + time.Duration(slept.Load()) }))
	b := backend.One(t)
	c := b.Client(t, nil)
	var leases []*holdfast.Lease
	var contexts []context.Context
	for name, renew := range map[string]bool{"renewed": true, "not renewed": false} {
		lease := backend.Acquire(t, c.Mutex(name, holdfast.TTL(10*time.Minute), backend.Renew(renew)))
		leases = append(leases, lease)
		contexts = append(contexts, lease.Context(context.Background()))
	}
	slept.Store(int64(time.Hour))
	limit := time.After(30 * time.Second) // renewals are due in 200s, the end of the other one in ten minutes
	for _, ctx := range contexts {        // before Err, which would end them, too
		select {
		case <-ctx.Done():
			var lost *holdfast.LostError
			if !errors.As(context.Cause(ctx), &lost) || lost.Reason != holdfast.LossExpired {
				t.Errorf("the context ended: %v", context.Cause(ctx))
			}
		case <-limit:
			t.Fatal("30s after waking up a context has not ended")
		}
	}
	for _, lease := range leases {
		if err := lease.Err(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("%s: Err: %v", lease.Name(), err)
		}
	}
	b.Cleaned(t)
}

// Fault: While a Cluster's slot moves, a script is refused if some of its keys are not on the node; the queue of a
// lock without waiters is such a key. Leases are renewed all the same.
func TestRenewalsInASlotOnTheMove(t *testing.T) {
	t.Parallel()
	nodes := server.StartCluster(t, server.One(t), 2)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := holdfastgoredis.New(rdb, &holdfast.Config{CommandTimeout: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	backend.CloseWith(t, c)
	const key = "holdfast:{a}"
	lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(9*time.Second)))
	survives := func(where string) {
		t.Helper()
		before := lease.Deadline()
		backend.Eventually(t, "it is renewed", func() bool { return lease.Err() != nil || lease.Deadline().After(before) })
		if err := lease.Err(); err != nil {
			t.Fatalf("%s: the lease ended: %v", where, err)
		}
	}

	slot := keys.Slot(key)
	slices.SortFunc(nodes, func(a, b *server.Server) int { // the node that has the key comes first
		return int(do(t, b, "CLUSTER", "COUNTKEYSINSLOT", slot).(int64) - do(t, a, "CLUSTER", "COUNTKEYSINSLOT", slot).(int64))
	})
	from, to := nodes[0], nodes[1]
	fromID, toID := do(t, from, "CLUSTER", "MYID"), do(t, to, "CLUSTER", "MYID")
	do(t, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	do(t, from, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	survives("before the key moves")
	host, port, _ := strings.Cut(to.Addr(), ":")
	do(t, from, "MIGRATE", host, port, "", 0, 5000, "KEYS", key, "holdfast:f{"+keys.Tag(slot)+"}")
	survives("when the key has moved")
	do(t, to, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	do(t, from, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	backend.Release(t, lease)
}
