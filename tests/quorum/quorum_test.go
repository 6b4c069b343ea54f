// Package quorum tests locks over several independent servers, which are killed, paused and emptied. It does
// not use the embedded server, which has no incarnations.
package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/clockshim"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/recorder"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

func TestMain(m *testing.M) {
	backend.AtOnce(20) // the tests mostly wait
	os.Exit(m.Run())
}

// term is the longest lease, and so the quarantine. It is very long where a test must notice locks that were not given back.
const (
	term = 6 * time.Second
	age  = time.Hour
)

// site is some servers, the nodes of a quorum, with the TTL of its locks.
type site struct {
	t     *testing.T
	bin   server.Binary
	nodes []*server.Server
	ttl   time.Duration
	wrap  func(i int, d drivertest.Driver) drivertest.Driver // around the clients' drivers; may be nil

	logger         *slog.Logger         // nil: the default
	observers      []*holdfast.Observer // of the first client, which tells of the quorum's locks
	commandTimeout time.Duration        // 0: 10 s, which a machine that stands still for two seconds does not reach
	retryTimeout   time.Duration        // 0: the default
	clients        []*holdfast.Client   // of the latest quorum
}

func open(t *testing.T, bin server.Binary, n int, ttl time.Duration, opts ...server.Option) *site {
	t.Helper()
	s := start(t, bin, n, opts...)
	s.ttl = ttl
	expect.OK(t, admit(t, s.quorum(), false))
	return s
}

// admit calls Admit or ForceAdmit, again if nodes were too slow to answer.
func admit(t *testing.T, q *quorum.Quorum, force bool) error {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; {
		in := inspect.NewQuorum(q)
		admit := in.Admit
		if force {
			admit = in.ForceAdmit
		}
		err := admit(t.Context())
		if !errors.Is(err, holdfast.ErrUnavailable) || time.Now().After(limit) {
			return err
		}
	}
}

func start(t *testing.T, bin server.Binary, n int, opts ...server.Option) *site {
	t.Helper()
	s := &site{t: t, bin: bin, ttl: term}
	for range n {
		s.nodes = append(s.nodes, server.Start(t, bin, opts...))
	}
	return s
}

// quorum returns the quorum of a new process, with the node timeout if one is given.
func (s *site) quorum(nodeTimeout ...time.Duration) *quorum.Quorum {
	s.t.Helper()
	return s.quorumOf(addrsOf(s.nodes), nodeTimeout...)
}

// links returns a proxy for each node.
func (s *site) links() (links []*proxy.Proxy) {
	s.t.Helper()
	for _, node := range s.nodes {
		links = append(links, proxy.New(s.t, node.Addr()))
	}
	return links
}

// through returns the quorum of a process that reaches each node through a proxy.
func (s *site) through(links []*proxy.Proxy, nodeTimeout ...time.Duration) *quorum.Quorum {
	s.t.Helper()
	return s.quorumOf(addrsOf(links), nodeTimeout...)
}

func addrsOf[T interface{ Addr() string }](all []T) (addrs []string) {
	for _, one := range all {
		addrs = append(addrs, one.Addr())
	}
	return addrs
}

func (s *site) quorumOf(addrs []string, nodeTimeout ...time.Duration) *quorum.Quorum {
	s.t.Helper()
	var clients []*holdfast.Client
	for i, addr := range addrs {
		d := backend.Connect(s.t, &redis.Options{Addr: addr})
		if s.wrap != nil {
			d = s.wrap(i, d)
		}
		cfg := &holdfast.Config{Strict: true, MaxTTL: s.ttl, TTL: s.ttl, CommandTimeout: cmp.Or(s.commandTimeout, 10*time.Second), RetryTimeout: s.retryTimeout, Logger: s.logger}
		if i == 0 {
			cfg.Observers = s.observers
		}
		clients = append(clients, backend.New(s.t, cfg, d))
	}
	s.clients = clients
	return s.waiting(nodeTimeout...)
}

// waiting returns the quorum of the latest clients, with the node timeout if one is given.
func (s *site) waiting(nodeTimeout ...time.Duration) *quorum.Quorum {
	s.t.Helper()
	cfg := &quorum.Config{}
	if len(nodeTimeout) > 0 {
		cfg.NodeTimeout = nodeTimeout[0]
	}
	q := expect.Of(quorum.New(s.clients, cfg)).OK(s.t)
	quorums.Lock()
	defer quorums.Unlock()
	quorums.all = append(quorums.all, q)
	return q
}

// quorums are all quorums that were made.
var quorums struct {
	sync.Mutex
	all []*quorum.Quorum
}

// nodesOf returns the nodes that hold a lease of any quorum.
func nodesOf(lease *holdfast.Lease) []string {
	quorums.Lock()
	all := quorums.all
	quorums.Unlock()
	for _, q := range all {
		if nodes := q.Nodes(lease); nodes != nil {
			return nodes
		}
	}
	return nil
}

// lock returns the lock of a new process, with a node timeout that a slow machine keeps.
func (s *site) lock(opts ...quorum.Option) *holdfast.Lock {
	s.t.Helper()
	return s.lockWaiting(min(s.ttl/4, 10*time.Second), opts...)
}

// lockWaiting is lock with another node timeout.
func (s *site) lockWaiting(nodeTimeout time.Duration, opts ...quorum.Option) *holdfast.Lock {
	s.t.Helper()
	return s.quorum(nodeTimeout).Mutex("q", opts...)
}

// acquire acquires the lock, again if nodes were too slow to answer.
func acquire(t *testing.T, l *holdfast.Lock) *holdfast.Lease {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); ; {
		lease, err := l.Acquire(t.Context())
		if err == nil {
			return lease
		}
		if !errors.Is(err, holdfast.ErrUnavailable) || time.Now().After(limit) {
			t.Fatalf("Acquire: %v", err)
		}
	}
}

// above acquires the lock as a new process does, requires a fence above last, releases the lock, and returns the fence.
func (s *site) above(last uint64) uint64 {
	s.t.Helper()
	lease := acquire(s.t, s.lock())
	rises(s.t, lease, last)
	if err := lease.Release(s.t.Context()); err != nil && !errors.Is(err, holdfast.ErrLost) { // on a slow machine it may be over
		s.t.Errorf("Release: %v", err)
	}
	return lease.Fence()
}

// rises requires that a lease's fence is above the last one.
func rises(t *testing.T, lease *holdfast.Lease, last uint64) {
	t.Helper()
	expect.Rises(t, last, lease.Fence())
}

// cancelled makes the acquire of a lock wait until ready returns, and requires that it ends with its context then.
func cancelled(t *testing.T, l *holdfast.Lock, ready func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := l.Acquire(ctx)
		failed <- err
	}()
	ready()
	cancel()
	expect.Equal(t, "Acquire, cancelled", <-failed, context.Canceled)
}

// acquireOn acquires a lock that is not renewed on n nodes, again if one was slower than the others.
func acquireOn(t *testing.T, l *holdfast.Lock, n int) *holdfast.Lease {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; {
		lease := acquire(t, l)
		if len(nodesOf(lease)) == n {
			return lease
		}
		if time.Now().After(limit) {
			t.Fatalf("%q agree, not %d", nodesOf(lease), n)
		}
		backend.Release(t, lease)
	}
}

// each runs a test with n nodes of every kind of server.
func each(t *testing.T, n int, ttl time.Duration, f func(t *testing.T, s *site)) {
	t.Helper()
	server.Each(t, func(t *testing.T, bin server.Binary) { f(t, open(t, bin, n, ttl)) })
}

// eachWithClock runs a test with three nodes of every kind of server, and lets it move their clock.
func eachWithClock(t *testing.T, f func(t *testing.T, s *site, clock *clockshim.Clock)) {
	t.Helper()
	server.Each(t, func(t *testing.T, bin server.Binary) {
		clock := clockshim.New(t)
		f(t, open(t, bin, 3, age, clock.Option()), clock)
	})
}

// eachUnhurried runs a test with n nodes of every kind of server, whose leases last for term. A slow machine
// may lose them; then f returns an error, and is called again with longer leases.
func eachUnhurried(t *testing.T, n int, f func(t *testing.T, s *site) error) {
	t.Helper()
	server.Each(t, func(t *testing.T, bin server.Binary) {
		machine.Unhurried(t, term, func(unit time.Duration) error { return f(t, open(t, bin, n, unit)) })
	})
}

// agree waits until n nodes hold the lease's lock.
func agree(t *testing.T, lease *holdfast.Lease, n int) {
	t.Helper()
	expect.OK(t, agreed(lease, n))
}

func agreed(lease *holdfast.Lease, n int) error {
	// A node returns after its quarantine.
	for limit := time.Now().Add(time.Minute); len(nodesOf(lease)) != n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) || lease.Err() != nil {
			return fmt.Errorf("%q agree, not %d; the lease: %w", nodesOf(lease), n, lease.Err())
		}
	}
	return nil
}

func wantHeld(t *testing.T, l *holdfast.Lock) {
	t.Helper()
	lease, err := l.TryAcquire(t.Context())
	for limit := time.Now().Add(30 * time.Second); errors.Is(err, holdfast.ErrUnavailable) && time.Now().Before(limit); {
		lease, err = l.TryAcquire(t.Context()) // nodes were too slow to answer
	}
	expect.Err(t, "TryAcquire of a held lock", err, holdfast.ErrHeld)
	if lease != nil {
		_ = lease.Release(t.Context())
	}
}

// All nodes name the same holder, and a waiter whose time is up is told who that is.
func TestOneHolderAtATime(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		q := s.quorum(10 * time.Second)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			expect.Equal(t, verb+" of a quorum", fmt.Sprintf(verb, q), "quorum.Quorum("+strings.Join(addrsOf(s.nodes), ", ")+")")
		}
		lease := acquire(t, q.Mutex("q")) // its client makes up an owner's name
		agree(t, lease, 3)
		expect.Same(t, "Nodes", nodesOf(lease), slices.Sorted(slices.Values(addrsOf(s.nodes))))
		other := s.lock()
		wantHeld(t, other)
		var held *holdfast.HeldError
		var err error
		backend.Eventually(t, "a waiter whose time is up is told the holder", func() bool { // nodes may be late
			_, err = s.lock(holdfast.Wait(5 * time.Second)).Acquire(t.Context())
			return !errors.Is(err, holdfast.ErrUnavailable) && (!errors.As(err, &held) || held.Holder.Identity != "")
		})
		if !errors.As(err, &held) || held.Holder.Identity != lease.Identity() || held.Name != "q" {
			t.Errorf("a waiter whose time is up: %v", err)
		}
		status, err := other.Status(t.Context())
		if err != nil || status.Key != "holdfast:{q}" || len(status.Holders) != 1 || status.Holders[0].Identity != lease.Identity() ||
			status.Holders[0].Mode != holdfast.ModeExclusive || status.Fence != status.Holders[0].Fence || status.Waiting != 0 || status.Waiters != nil {
			t.Errorf("Status: %+v, %v", status, err)
		}
		backend.Release(t, lease)
		backend.Release(t, lease) // counts once
		expect.Err(t, "Err after the release", lease.Err(), holdfast.ErrReleased)
		next := acquire(t, other)
		if next.Fence() <= lease.Fence() || next.Fences()["q"] != next.Fence() {
			t.Errorf("fence %d follows %d; %v", next.Fence(), lease.Fence(), next.Fences())
		}
		backend.Release(t, next)
		s.cleaned()
	})
}

// While nobody asks, the nodes' clocks may drift from what the client knows of them.
func TestClocksPartWhileNothingIsAsked(t *testing.T) {
	eachWithClock(t, func(t *testing.T, s *site, clock *clockshim.Clock) {
		l := s.lock()
		lease := acquire(t, l)
		agree(t, lease, 3)
		backend.Release(t, lease)
		clock.Jump(time.Minute)
		backend.Release(t, expect.Of(l.TryAcquire(t.Context())).OK(t))
	})
}

// remains lists the keys of locks without an expiry, and those with anything but tombstones.
const remains = `
local left = {}
for _, key in ipairs(redis.call('KEYS', 'holdfast:{*')) do
  local buried = redis.call('TYPE', key).ok == 'zset' and redis.call('ZCOUNT', key, 0, '+inf') == 0
  if not buried or redis.call('PTTL', key) < 0 then left[#left + 1] = key end
end
return left`

// cleaned waits until no running node has a lock or a waiter left. Tombstones go by themselves: they last for a node timeout and a second.
func (s *site) cleaned() {
	s.t.Helper()
	var left []any
	s.t.Cleanup(func() {
		if s.t.Failed() && len(left) > 0 {
			s.t.Logf("left: %v", left)
		}
	})
	backend.Eventually(s.t, "nothing but tombstones is left", func() bool {
		left = nil
		for _, node := range s.nodes {
			keys, _ := node.Do("EVAL", remains, 0) // a node that is down has none
			list, _ := keys.([]any)
			left = append(left, list...)
		}
		return len(left) == 0
	})
}

// Fault: Nodes are down. A minority is in nobody's way; without a majority nothing is granted, and nothing is left.
func TestNodesAreDown(t *testing.T) {
	each(t, 5, age, func(t *testing.T, s *site) {
		l := s.lock()
		first := acquire(t, l)
		backend.Release(t, first)
		s.nodes[1].Kill()
		s.nodes[4].Kill()
		lease := acquire(t, l)
		rises(t, lease, first.Fence())
		agree(t, lease, 3)
		wantHeld(t, s.lock())
		backend.Release(t, lease)
		backend.Release(t, acquire(t, s.lock())) // by a process that has never seen the two
		s.nodes[2].Kill()
		for what, l := range map[string]*holdfast.Lock{"a process that knew them": l, "a process that did not": s.lock()} {
			_, err := l.Acquire(t.Context())
			var q *quorum.Error
			if !errors.Is(err, holdfast.ErrUnavailable) || !errors.As(err, &q) || len(q.Nodes) < 3 {
				t.Errorf("without a majority, %s gets %v", what, err)
			}
			for _, i := range []int{1, 2, 4} {
				if err != nil && !strings.Contains(err.Error(), s.nodes[i].Addr()) {
					t.Errorf("the error does not name %s: %v", s.nodes[i].Addr(), err)
				}
			}
		}
		s.cleaned()
	})
}

// A lock counts as held if a majority says so. If one node says so and the others are away, that is no majority.
func TestHeldWithoutAMajority(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		lease := acquire(t, s.lock())
		agree(t, lease, 3)
		other := s.lockWaiting(time.Second)
		wantHeld(t, other)
		s.nodes[1].Kill()
		s.nodes[2].Pause()
		_, err := other.TryAcquire(t.Context())
		held, unknown := backend.IsHeld(t.Context(), other)
		s.nodes[2].Resume()
		expect.ErrBut(t, "TryAcquire", err, holdfast.ErrUnavailable, holdfast.ErrHeld)
		var few *quorum.Error
		if !errors.As(unknown, &few) {
			t.Errorf("IsHeld: %t, %v", held, unknown)
		}
		backend.Release(t, lease)
	})
}

// Fault: A process gets one node of three. It has nothing, and leaves nothing.
func TestMinorityIsGivenBack(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		for _, node := range s.nodes[1:] {
			s.do(node, "SET", "holdfast:{q}", "theirs", "PX", "3600000")
		}
		for range 10 {
			wantHeld(t, s.lock())
		}
		cancelled(t, s.lock(), func() { time.Sleep(50 * time.Millisecond) }) // after a few rounds
		for _, node := range s.nodes[1:] {
			s.do(node, "DEL", "holdfast:{q}")
		}
		s.cleaned()
	})
}

// Fault: A node has lost its counter. It grants nothing before it knows the counters of a majority of the others;
// fences rise, although they are ahead of the clock.
func TestRestartedNodeIsToldTheFences(t *testing.T) {
	eachWithClock(t, func(t *testing.T, s *site, clock *clockshim.Clock) {
		s.retryTimeout = 300 * time.Millisecond
		ahead := time.Now().Add(time.Hour).UnixMicro()
		for _, node := range s.nodes {
			setCounter(t, node, ahead)
		}
		l := s.lockWaiting(200 * time.Millisecond)
		backend.Release(t, acquire(t, l))
		s.nodes[2].Pause()
		var last uint64
		for range 5 {
			lease := acquire(t, l)
			last = lease.Fence()
			backend.Release(t, lease)
		}
		s.nodes[0].Kill()
		s.nodes[1].Pause()
		s.nodes[2].Resume()
		s.nodes[0].Restart()
		_, _ = s.lock().TryAcquire(t.Context()) // which begins the quarantine
		clock.Jump(s.ttl + time.Second)
		expect.Fails(t, "TryAcquire with a node that cannot know the fences", expect.ErrOf(s.lock().TryAcquire(t.Context())))
		s.nodes[1].Resume()
		lease := acquire(t, s.lock())
		agree(t, lease, 3) // the third one, too, has been told
		expect.AtLeast(t, "its counter", lastFence(t, s.nodes[0]), int64(last))
		backend.Release(t, lease)
		s.nodes[1].Pause() // the only one that knew all fences
		lease = acquire(t, s.lockWaiting(200*time.Millisecond))
		rises(t, lease, last)
		backend.Release(t, lease)
		s.nodes[1].Resume()
	})
}

// Fault: A lease loses its majority. It is lost, and its holder is told.
func TestMajorityIsLost(t *testing.T) {
	each(t, 3, 9*time.Second, func(t *testing.T, s *site) {
		var r recorder.Recorder
		t.Cleanup(func() { r.Check(t) })
		s.observers = []*holdfast.Observer{r.Observer()}
		lease := acquire(t, s.lock())
		agree(t, lease, 3)
		s.nodes[0].Kill()
		agree(t, lease, 2)
		backend.Eventually(t, "a renewal failed", func() bool { return slices.Contains(r.Latest(t).Events, "RenewFailed") })
		if a := r.Latest(t); lease.Err() != nil || a.Last != nil {
			t.Errorf("with a majority left: %v; told was %v", lease.Err(), a.Events)
		}
		s.nodes[2].Kill()
		<-lease.Done()
		var lost *holdfast.LostError
		if cause := context.Cause(lease.Context(context.Background())); !errors.As(cause, &lost) || lost.Name != "q" {
			t.Errorf("the context ends with %v", cause)
		}
		backend.Eventually(t, "the loss was told", func() bool { return r.Latest(t).Lost })
		if e := r.Latest(t).Last; e.Kind != holdfast.KindQuorum || e.Name != "q" || !errors.Is(e.Err, holdfast.ErrLost) {
			t.Errorf("Lost: %+v", *e)
		}
		expect.Err(t, "Release", lease.Release(t.Context()), holdfast.ErrLost)
	})
}

// takenFrom makes another program take the lease's lock on a node, and waits until the lease notices.
func (s *site) takenFrom(lease *holdfast.Lease, node int) {
	s.t.Helper()
	s.do(s.nodes[node], "SET", "holdfast:{q}", "theirs", "PX", "3600000")
	backend.Eventually(s.t, "the node is missed", func() bool {
		_ = lease.Extend(s.t.Context(), time.Millisecond)
		return !slices.Contains(nodesOf(lease), s.nodes[node].Addr())
	})
}

// A lease that has lost a minority is released on its remaining nodes. If the lost nodes do not answer, that is not a loss of the lease.
func TestReleaseOfALeaseThatLostAMinority(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		lease := acquire(t, s.lock())
		agree(t, lease, 3)
		s.takenFrom(lease, 0)
		s.nodes[2].Kill()
		expect.OK(t, lease.Err())
		expect.ErrBut(t, "Release", lease.Release(t.Context()), holdfast.ErrUnavailable, holdfast.ErrLost)
	})
}

// The deadline is that of the majority that remains, not that of lost nodes.
func TestDeadlineIsOfTheNodesThatAreLeft(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		lease := acquireOn(t, s.lock(holdfast.TTL(time.Minute), holdfast.NoRenew()), 3)
		last := lease.Deadline().Add(5 * time.Second)
		s.nodes[2].Kill()
		if err := lease.Extend(t.Context(), age/2); err != nil || !lease.Deadline().After(last) {
			t.Fatalf("Extend on two nodes: %v; the deadline is %s after the first one", err, lease.Deadline().Sub(last))
		}
		s.takenFrom(lease, 0)
		if d := lease.Deadline(); lease.Err() != nil || d.After(last) {
			t.Errorf("the deadline is %s past that of a node that is needed; %v", d.Sub(last), lease.Err())
		}
		_ = lease.Release(t.Context()) // one node has lost it
		expect.AtMost(t, "time left after the release", time.Until(lease.Deadline()), 0)
	})
}

// slowProbe is a driver that takes long to find out what the server is.
type slowProbe struct {
	drivertest.Driver
	until <-chan struct{}
}

func (d slowProbe) Probe(ctx context.Context) (driver.ServerInfo, error) {
	select {
	case <-d.until:
	case <-ctx.Done():
	}
	return d.Driver.Probe(ctx)
}

// Fault: A process starts while some node cannot be reached. It does not wait for that node once it has reached a majority.
func TestMajorityIsReachedBeforeTheRest(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		for slow := range s.nodes {
			never := make(chan struct{})
			s.commandTimeout = 10 * time.Minute
			s.wrap = func(i int, d drivertest.Driver) drivertest.Driver {
				if i == slow {
					return slowProbe{d, never}
				}
				return d
			}
			begun := time.Now()
			lease := acquire(t, s.lockWaiting(time.Second))
			if took := time.Since(begun); took > s.commandTimeout/2 {
				t.Errorf("with node %d out of reach it takes %s\n%s", slow, took, machine.Report(begun))
			}
			close(never)
			backend.Release(t, lease)
		}
	})
}

// Fault: A process has reached a majority, one node of which does not grant. It waits for those that it is still
// reaching: they make another majority.
func TestNodesThatAreBeingReachedCount(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		s.nodes[2].Kill()
		s.nodes[2].Restart() // and is in quarantine
		later := make(chan struct{})
		time.AfterFunc(500*time.Millisecond, func() { close(later) })
		s.wrap = func(i int, d drivertest.Driver) drivertest.Driver {
			if i == 0 {
				return slowProbe{d, later}
			}
			return d
		}
		lease := expect.Of(s.lock().TryAcquire(t.Context())).OK(t)
		backend.Release(t, lease)
	})
}

// onFence calls f before a node is told of a fence.
type onFence struct {
	drivertest.Driver
	f func()
}

func (d onFence) Run(ctx context.Context, call driver.Call) (string, error) {
	if call.Script.Name == "node_fence" {
		d.f()
	}
	return d.Driver.Run(ctx, call)
}

// whenToldAFence returns the lock of a process that calls f before it tells node i of a fence. It has to, since the first node's counter
// leads and the third one's lock is another program's.
func (s *site) whenToldAFence(f func(i int)) *holdfast.Lock {
	s.t.Helper()
	s.wrap = func(i int, d drivertest.Driver) drivertest.Driver { return onFence{d, func() { f(i) }} }
	setCounter(s.t, s.nodes[0], time.Now().Add(time.Hour).UnixMicro())
	s.do(s.nodes[2], "SET", "holdfast:{q}", "theirs", "PX", "3600000")
	return s.lock()
}

func (s *site) do(node *server.Server, args ...any) {
	s.t.Helper()
	expect.OK(s.t, expect.ErrOf(node.Do(args...)))
}

// Fault: The context ends while nodes are told of a fence. That says nothing about the nodes, and the error says why it failed.
func TestContextEndsWhileNodesAreToldAFence(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		ctx, cancel := context.WithCancel(t.Context())
		l := s.whenToldAFence(func(int) {
			cancel()
			time.Sleep(100 * time.Millisecond)
		})
		if _, err := l.Acquire(ctx); err != context.Canceled {
			t.Errorf("Acquire: %v", err)
		}
		s.do(s.nodes[2], "DEL", "holdfast:{q}")
		s.cleaned()
	})
}

// A client that is closed while nodes are told of a fence says so, and does not wait for a lease that nobody has.
func TestCloseWhileNodesAreToldAFence(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		var closed sync.WaitGroup
		l := s.whenToldAFence(func(int) {
			for _, c := range s.clients {
				closed.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					expect.Err(t, "Close", c.Close(ctx), nil)
				})
			}
			time.Sleep(100 * time.Millisecond)
		})
		if lease, err := l.Acquire(t.Context()); err != holdfast.ErrClosed {
			t.Errorf("Acquire: %v, %v", lease, err)
		}
		closed.Wait()
		s.do(s.nodes[2], "DEL", "holdfast:{q}")
		s.cleaned()
	})
}

// Fault: A node loses the lock before it is told of its fence. Too few agree, and the error says why.
func TestNodeLosesTheLockBeforeItIsToldAFence(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		for _, c := range []struct {
			command []any
			want    error
		}{{[]any{"DEL", "holdfast:{q}"}, holdfast.ErrUnavailable}, {[]any{"FLUSHALL"}, holdfast.ErrQuarantine}} {
			s := open(t, s.bin, 3, age)
			l := s.whenToldAFence(func(i int) {
				expect.Err(t, "Do", expect.ErrOf(s.nodes[i].Do(c.command...)), nil)
			})
			if lease, err := l.TryAcquire(t.Context()); !errors.Is(err, c.want) || strings.Contains(err.Error(), "malformed") {
				t.Errorf("after %v: %v, %v", c.command, lease, err)
			}
		}
	})
}

// heard waits until the holder of a lock hears what operators do on all nodes, about a second after the grant.
func (s *site) heard() {
	s.t.Helper()
	backend.Eventually(s.t, "the holder listens", func() bool {
		return !slices.ContainsFunc(s.nodes, func(node *server.Server) bool {
			channels, err := node.Do("PUBSUB", "CHANNELS", "holdfast:c:h")
			all, _ := channels.([]any)
			return err != nil || len(all) == 0
		})
	})
}

func setCounter(t *testing.T, node *server.Server, fence int64) {
	t.Helper()
	backend.SetCounter(t, dialed(t, node), "holdfast:fences", fence)
}

// lastFence returns the last fence of a node; 0 if it has none.
func lastFence(t *testing.T, node *server.Server) int64 {
	t.Helper()
	return backend.LastFence(t, dialed(t, node), "holdfast:fences")
}

func dialed(t *testing.T, node *server.Server) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: node.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Nodes that nobody has admitted grant nothing, and are named in the error.
func TestUninitialisedNodes(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		s := start(t, bin, 3)
		expect.Err(t, "TryAcquire on new nodes", expect.ErrOf(s.lock().TryAcquire(t.Context())), holdfast.ErrQuarantine)
		_, err := s.lock().Acquire(t.Context()) // which waits for the end of the quarantine
		expect.ErrSays(t, "Acquire on new nodes", err, holdfast.ErrNotAdmitted, s.nodes[1].Addr())
		// A third node may still be in quarantine when two say that they are new.
		q := s.quorum()
		backend.Eventually(t, "they are admitted", func() bool { return inspect.NewQuorum(q).Admit(t.Context()) == nil })
		backend.Release(t, acquire(t, s.lock()))
	})
}

// If all nodes come back with older data, they know no later fence. Fences rise all the same once they are admitted.
func TestFencesRiseWhenAllNodesAreOlder(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		last := s.above(s.above(0))
		for _, node := range s.nodes {
			node.Kill()
			node.Restart()
			setCounter(t, node, int64(last-1000)) // of an older file
		}
		expect.OK(t, admit(t, s.quorum(), false))
		s.above(last)
	})
}

// A node that was emptied looks like a new one. Admit does not admit it while a lock that it has lost may be held on the others.
func TestInitOfANodeThatWasEmptied(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		lease := acquire(t, s.lock())
		agree(t, lease, 3)
		s.do(s.nodes[2], "DEL", "holdfast:{q}") // as if it had not been reached
		s.do(s.nodes[0], "FLUSHALL")
		backend.Eventually(t, "only the node that was emptied is in the way", func() bool { // others may be too slow to answer
			err := inspect.NewQuorum(s.quorum()).Admit(t.Context())
			if err == nil {
				t.Fatal("Admit admits it")
			}
			var q *quorum.Error
			return errors.Is(err, holdfast.ErrQuarantine) && errors.As(err, &q) && len(q.Nodes) == 1 && q.Nodes[0].Server == s.nodes[0].Addr()
		})
		if other, err := s.lock().TryAcquire(t.Context()); err == nil {
			t.Errorf("two have the lock, on %q and %q", nodesOf(lease), nodesOf(other))
			_ = other.Release(t.Context())
		}
		_ = lease.Release(t.Context()) // of which one node remains
		expect.Err(t, "Init with force", admit(t, s.quorum(), true), nil)
		backend.Release(t, acquire(t, s.lock()))
	})
}

// Fault: A node comes back empty while a lock is held. It is first in quarantine, is then told the fences, and then
// holds what the others hold.
func TestNodeComesBackEmpty(t *testing.T) {
	eachUnhurried(t, 3, func(t *testing.T, s *site) error {
		l := s.lock()
		for range 5 {
			backend.Release(t, acquire(t, l))
		}
		lease := acquire(t, l)
		if err := agreed(lease, 3); err != nil {
			return err
		}
		s.nodes[0].Kill()
		if err := agreed(lease, 2); err != nil {
			return err
		}
		restarting := time.Now()
		s.nodes[0].Restart()
		if err := agreed(lease, 3); err != nil {
			return err
		}
		expect.AtLeast(t, "its quarantine after the restart", time.Since(restarting), s.ttl)
		// Now one of those that know the fence is away.
		s.nodes[1].Kill()
		if err := agreed(lease, 2); err != nil {
			return err
		}
		if err := lease.Release(t.Context()); err != nil {
			return fmt.Errorf("Release: %w", err)
		}
		s.above(lease.Fence())
		return nil
	})
}

// Fault: A lease has lost its majority, and nodes come back that would grant it. It is not extended to them.
func TestNodesAreNotRefilledWithoutAMajority(t *testing.T) {
	eachUnhurried(t, 3, func(t *testing.T, s *site) error {
		lease := acquire(t, s.lock())
		if err := agreed(lease, 3); err != nil {
			return err
		}
		away := s.nodes[:2]
		away[0].Pause()
		if err := agreed(lease, 2); err != nil { // from now on the first is asked again and again
			away[0].Resume()
			return err
		}
		away[1].Pause()
		<-lease.Done()
		expect.Err(t, "without a majority", lease.Err(), holdfast.ErrLost)
		time.Sleep(s.ttl/4 + time.Second) // past the drift, and everything that was sent to them
		for _, node := range away {
			node.Resume()
		}
		for until := time.Now().Add(s.ttl / 2); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
			for _, node := range away {
				if n, err := node.Do("EXISTS", "holdfast:{q}"); err != nil || n != int64(0) {
					t.Fatalf("%s has the lock of a lease that was lost: %v, %v", node.Addr(), n, err)
				}
			}
		}
		s.above(lease.Fence())
		s.cleaned()
		return nil
	})
}

// before is a Driver that does something before it sends a script, once.
type before struct {
	drivertest.Driver
	script driver.Script
	once   sync.Once
	do     func()
}

func (d *before) Run(ctx context.Context, call driver.Call) (string, error) {
	if call.Script.SHA1 == d.script.SHA1 || d.script.SHA1 == script.NodeAcquire().SHA1 && asks(call.Script) {
		d.once.Do(d.do)
	}
	return d.Driver.Run(ctx, call)
}

// A waiter goes on waiting if a node is emptied while it is told the fences.
func TestNodeIsEmptiedWhileItIsRaised(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		s.do(s.nodes[0], "DEL", "holdfast:caughtup")
		emptied := make(chan struct{})
		s.wrap = func(i int, d drivertest.Driver) drivertest.Driver {
			switch i {
			case 0:
				return &before{Driver: d, script: script.NodeRaise(), do: func() {
					_, _ = s.nodes[0].Do("FLUSHALL")
					close(emptied)
				}}
			case 1: // its vote is missing until then
				return &before{Driver: d, script: script.NodeAcquire(), do: func() {
					select {
					case <-emptied:
					case <-time.After(30 * time.Second):
						t.Error("no node is told of the fences within 30s")
					}
				}}
			}
			return d
		}
		l := s.quorum(time.Second).Mutex("q")
		backend.Release(t, acquire(t, l))
	})
}

// Fault: Two nodes of five are killed in turn, and come back without data, under load. Two processes never hold the
// lock at the same time, and fences rise.
func TestNodesKilledInTurnUnderLoad(t *testing.T) {
	soak.Nightly(t)
	each(t, 5, term, func(t *testing.T, s *site) {
		var holders, overlaps atomic.Int32
		var last, grants atomic.Uint64
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		for range 3 {
			q := s.quorum(200 * time.Millisecond)
			for range 3 {
				l := q.Mutex("q")
				wg.Go(func() {
					for ctx.Err() == nil {
						lease, err := l.Acquire(ctx)
						if err != nil {
							continue // there was no majority just then
						}
						if n := holders.Add(1); n != 1 {
							overlaps.Add(1)
							t.Errorf("%d holders", n)
						}
						expect.Rises(t, last.Swap(lease.Fence()), lease.Fence())
						grants.Add(1)
						time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
						lost := lease.Err()
						holders.Add(-1)
						if err := lease.Release(context.Background()); lost == nil && err != nil && !errors.Is(err, holdfast.ErrLost) {
							t.Logf("Release: %v", err)
						}
					}
				})
			}
		}
		for i, until := 0, time.Now().Add(soak.Duration(t)); i < 2 || time.Now().Before(until); i++ {
			node := s.nodes[i%2]
			before := grants.Load()
			node.Kill()
			backend.Eventually(t, "the others grant", func() bool { return grants.Load() > before+10 })
			node.Restart()
			time.Sleep(term + 500*time.Millisecond)
		}
		cancel()
		wg.Wait()
		t.Logf("%d grants while 2 of 5 nodes were killed and emptied in turn; %d overlaps", grants.Load(), overlaps.Load())
	})
}

// dallying is the context of an acquire whose process pauses after it has sent its first request.
type dallying struct {
	context.Context
	looks  atomic.Int32
	rested chan struct{} // closed when it goes on
}

// Err is called at the beginning, and before each sending.
func (d *dallying) Err() error {
	if d.looks.Add(1) > 2 {
		<-d.rested
	}
	return d.Context.Err()
}

// A process that stops between its requests for longer than its locks last must not count its grants as a lease
// if some of them are over: another process may have held the lock meanwhile, with a higher fence.
func TestStopsBetweenItsRequests(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		for ttl := 400 * time.Millisecond; ttl < 10*time.Second; ttl *= 2 {
			for range 2 {
				if s.stopsBetweenItsRequests(ttl) {
					return
				}
			}
		}
		t.Error("too slow: its requests came too late each time")
	})
}

// stopsBetweenItsRequests returns false if the time was too short.
func (s *site) stopsBetweenItsRequests(ttl time.Duration) bool {
	s.t.Helper()
	t := s.t
	slow := s.lockWaiting(ttl/4, holdfast.TTL(ttl))
	_ = acquire(t, slow).Release(t.Context())
	// The others reach two of the nodes each.
	away := server.Start(t, s.bin)
	away.Kill()
	var others []*holdfast.Lock
	for i := range s.nodes {
		part := site{t: t, ttl: s.ttl, nodes: []*server.Server{s.nodes[i], s.nodes[(i+1)%3], away}}
		others = append(others, part.lockWaiting(300*time.Millisecond))
		backend.Release(t, acquire(t, others[i]))
	}
	s.cleaned()
	for _, node := range s.nodes {
		setCounter(t, node, 1000)
	}
	ctx := &dallying{Context: t.Context(), rested: make(chan struct{})}
	var late *holdfast.Lease
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		late, err = slow.TryAcquire(ctx)
	}()
	granted := func(node *server.Server) bool { return lastFence(t, node) > 1000 }
	first, asked := -1, time.Now()
	backend.Eventually(t, "one node has granted, or it stopped before it asked", func() bool {
		first = slices.IndexFunc(s.nodes, granted)
		return first >= 0 || time.Since(asked) > 10*time.Second
	})
	if first < 0 {
		close(ctx.rested)
		<-done
		if late != nil {
			_ = late.Release(t.Context())
		}
		return false
	}

	// When that grant is over, another process has the lock.
	lease := acquire(t, others[first])
	backend.Release(t, lease)

	close(ctx.rested)
	<-done
	switch {
	case err != nil && strings.Contains(err.Error(), "its clock jumps"):
		return false
	case errors.Is(err, holdfast.ErrHeld): // a node that was told late of the release
		return false
	case late != nil && late.Fence() <= lease.Fence():
		t.Errorf("fence %d follows %d", late.Fence(), lease.Fence())
	case err != nil && !errors.Is(err, holdfast.ErrUnavailable):
		t.Errorf("the process that stopped: %v", err)
	}
	if late != nil {
		_ = late.Release(t.Context())
	}
	return true
}

// counted is a Driver that counts how often nodes are asked for locks.
type counted struct {
	drivertest.Driver
	votes *atomic.Int64
}

func (d counted) Run(ctx context.Context, call driver.Call) (string, error) {
	if asks(call.Script) {
		d.votes.Add(1)
	}
	return d.Driver.Run(ctx, call)
}

// If a node hangs, a waiter does not ask it more and more often.
func TestWaitingWhileANodeHangs(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		lease := acquire(t, s.lock())
		agree(t, lease, 3)
		votes := make([]atomic.Int64, 3)
		s.commandTimeout = time.Minute // so long that no slow machine reaches it: requests stay unanswered
		s.wrap = func(i int, d drivertest.Driver) drivertest.Driver { return counted{d, &votes[i]} }
		var l *holdfast.Lock
		machine.Unhurried(t, 50*time.Millisecond, func(patience time.Duration) error {
			for i := range votes {
				votes[i].Store(0)
			}
			l = s.quorum(patience).Mutex("q")
			backend.Eventually(t, "all nodes are asked", func() bool {
				_, _ = l.TryAcquire(t.Context())
				return votes[0].Load() > 0 && votes[1].Load() > 0 && votes[2].Load() > 0
			})
			s.nodes[2].Pause()
			defer s.nodes[2].Resume()
			before := votes[2].Load()
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan struct{})
			go func() {
				defer close(over)
				for ctx.Err() == nil {
					_, _ = l.Acquire(ctx) // again, if nodes were too slow to answer
				}
			}()
			rounds := votes[0].Load() + 25
			backend.Eventually(t, "it tries again and again", func() bool { return votes[0].Load() >= rounds })
			n := votes[2].Load() - before
			t.Logf("the node that hangs was asked %d times", n)
			cancel()
			<-over
			if n > 14 { // the others answer in time, unless the machine is slow
				return fmt.Errorf("the node that hangs was asked %d times", n)
			}
			return nil
		})
		backend.Release(t, lease)
		backend.Eventually(t, "the node is asked again", func() bool {
			lease, err := l.TryAcquire(t.Context())
			if err != nil {
				return false
			}
			n := len(nodesOf(lease))
			return lease.Release(t.Context()) == nil && n == 3
		})
		s.cleaned()
	})
}

// blocked waits until n goroutines, started by the caller's, wait in a function of the library: only their
// stacks show that they have come that far.
func blocked(t *testing.T, function string, n int) {
	t.Helper()
	stacks := make([]byte, 16<<20)
	_, mine, _ := strings.Cut(string(stacks[:runtime.Stack(stacks, false)]), " ") // "goroutine 7 [running]:"
	mine, _, _ = strings.Cut(mine, " ")
	backend.Eventually(t, fmt.Sprint(n, " goroutines wait in ", function), func() bool {
		count := 0
		for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			state, frames, _ := strings.Cut(stack, "\n")
			if strings.Contains(state, "[select") && strings.Contains(frames, function+"(") && strings.Contains(frames, "in goroutine "+mine+"\n") {
				count++
			}
		}
		return count >= n
	})
}

// Goroutines of one process do not compete with each other.
func TestGoroutinesOfOneProcessAreServedInOrder(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		l := s.lock()
		lease := acquire(t, l)
		order := make(chan int, 10)
		for i := range cap(order) {
			go func() {
				lease, err := l.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					order <- i
					return
				}
				order <- i
				expect.Err(t, "Release", lease.Release(t.Context()), nil)
			}()
			blocked(t, "(*Quorum).take", i+1)
		}
		backend.Release(t, lease)
		for want := range cap(order) {
			expect.Equal(t, "the goroutine that is served", <-order, want)
		}
		// A waiter that leaves passes the turn on.
		lease = acquire(t, l)
		cancelled(t, l, func() {})
		backend.Release(t, lease)
		backend.Release(t, acquire(t, l))
	})
}

// Goroutines of one process contend for a mutex one at a time. The next one's turn comes when the lease is lost, but not once more when
// a lost lease is released, and when the nodes have answered a release, even if its caller has stopped waiting for them.
func TestGoroutinesTakeTurnsAtAQuorumsMutex(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		l := s.lock(holdfast.NoRenew())
		lost := acquireOn(t, l, 3)
		granted := make(chan *holdfast.Lease)
		const waiting = 4
		for range waiting {
			go func() {
				lease, err := l.Acquire(t.Context())
				if err != nil {
					t.Error(err)
				}
				granted <- lease
			}()
		}
		for left := waiting; left > 1; left-- {
			blocked(t, "(*Quorum).take", left)
			for _, node := range s.nodes {
				s.do(node, "DEL", "holdfast:{q}")
			}
			expect.Err(t, "Extend", lost.Extend(t.Context(), time.Minute), holdfast.ErrLost)
			lease := <-granted
			if lease == nil {
				return
			}
			expect.Err(t, "Release of the lost lease", lost.Release(t.Context()), holdfast.ErrLost)
			blocked(t, "(*Quorum).take", left-1)
			lost = lease
		}
		for _, node := range s.nodes {
			node.Pause()
			defer node.Resume()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		expect.Err(t, "Release while the nodes hang", lost.Release(ctx), context.DeadlineExceeded)
		blocked(t, "(*Quorum).take", 1)
		for _, node := range s.nodes {
			node.Resume()
		}
		backend.Release(t, <-granted)
		backend.Release(t, acquire(t, s.lock()))
		s.cleaned()
	})
}

// A server that is named by two addresses counts once.
func TestOneServerByTwoAddresses(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		s := start(t, bin, 2)
		a, b := s.nodes[0].Addr(), s.nodes[1].Addr()
		q := s.quorumOf([]string{a, strings.Replace(a, "127.0.0.1", "localhost", 1), b}, term/4)
		expect.OK(t, admit(t, q, false))
		l := q.Mutex("q")
		backend.Release(t, acquire(t, l))
		s.nodes[1].Kill()
		for _, acquire := range []func(context.Context) (*holdfast.Lease, error){l.TryAcquire, l.Acquire} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			lease, err := acquire(ctx)
			cancel()
			expect.Contains(t, "a majority of one server", fmt.Sprint(lease, err), "same server")
		}
	})
}

func TestQuorumRefuses(t *testing.T) {
	t.Parallel()
	client := func(i int, cfg holdfast.Config) *holdfast.Client {
		return backend.Open(t, &cfg, &redis.Options{Addr: fmt.Sprint("127.0.0.1:", i+1)})
	}
	strict := holdfast.Config{Strict: true, MaxTTL: time.Minute}
	var many []*holdfast.Client
	for i := range 32 {
		many = append(many, client(i, strict))
	}
	with := func(third *holdfast.Client) []*holdfast.Client { return []*holdfast.Client{many[0], many[1], third} }
	other := func(change func(*holdfast.Config)) []*holdfast.Client {
		cfg := strict
		change(&cfg)
		return with(client(2, cfg))
	}
	for what, all := range map[string][]*holdfast.Client{
		"no clients":     nil,
		"two clients":    many[:2],
		"32 nodes":       many,
		"a nil client":   with(nil),
		"a server twice": with(many[0]),
		"not Strict":     other(func(cfg *holdfast.Config) { cfg.Strict = false }),
		"another MaxTTL": other(func(cfg *holdfast.Config) { cfg.MaxTTL = 2 * time.Minute }),
		"Replicas":       other(func(cfg *holdfast.Config) { cfg.Durability.Replicas = 1 }),
		"Fsync":          other(func(cfg *holdfast.Config) { cfg.Durability.Fsync = true }),
	} {
		expect.Err(t, what, expect.ErrOf(quorum.New(all, nil)), holdfast.ErrInvalid)
	}
	for _, timeout := range []time.Duration{-1, time.Microsecond} {
		expect.Err(t, "a node timeout of "+timeout.String(), expect.ErrOf(quorum.New(many[:3], &quorum.Config{NodeTimeout: timeout})), holdfast.ErrInvalid)
	}
	q := expect.Of(quorum.New(many[:3], &quorum.Config{NodeTimeout: time.Second})).OK(t)
	for what, l := range map[string]*holdfast.Lock{
		"no name": q.Mutex(""), "a TTL of 0": q.Mutex("a", holdfast.TTL(0)), "a TTL beyond MaxTTL": q.Mutex("a", holdfast.TTL(time.Hour)),
		"a node timeout too long for the TTL": q.Mutex("a", holdfast.TTL(time.Second)),
	} {
		expect.Err(t, what, expect.ErrOf(l.TryAcquire(t.Context())), holdfast.ErrInvalid)
	}
}

func TestAQuorumElectsALeader(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		isElection := func(l backend.Locked) {
			t.Helper()
			expect.Equal(t, "its kind", expect.Of(l.Status(t.Context())).OK(t).Kind, holdfast.KindElection)
		}
		e := election.New(s.lock(holdfast.Identity("first")))
		isElection(e)
		expect.Err(t, "Leader while nobody leads", expect.ErrOf(e.Leader(t.Context())), holdfast.ErrNotHeld)
		first := backend.Campaign(t.Context(), e)
		one, _ := first.Elected(t)
		isElection(s.lock())
		other := election.New(s.lock())
		expect.Equal(t, "the leader", expect.Of(other.Leader(t.Context())).OK(t).Identity, "first")
		for status, err := range other.Watch(t.Context()) {
			expect.OK(t, err)
			if h, _ := status.Holder(); h.Identity != "first" {
				t.Errorf("Watch yields %+v", status)
			}
			break
		}
		second := backend.Campaign(t.Context(), other)
		first.Answer <- nil
		two, _ := second.Elected(t)
		rises(t, two, one.Fence())
		second.Answer <- nil
		for _, c := range []*backend.Candidate{first, second} {
			expect.Err(t, "Run", <-c.Over, nil)
		}
	})
}

// Where the clients of a quorum differ, the first one's Config counts.
func TestAQuorumHasTheConfigOfItsFirstClient(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		lease := acquire(t, s.lock())
		queued := make(chan struct{}, 1)
		var all []*holdfast.Client
		for i, node := range s.nodes {
			cfg := &holdfast.Config{Strict: true, MaxTTL: age}
			if i == 0 {
				cfg.PollInterval, cfg.TTL = time.Hour, 40*time.Second
				cfg.Observers = []*holdfast.Observer{{AcquireQueued: func(context.Context, holdfast.AcquireEvent) { queued <- struct{}{} }}}
			}
			all = append(all, backend.Open(t, cfg, &redis.Options{Addr: node.Addr()}))
		}
		l := expect.Of(quorum.New(all, &quorum.Config{NodeTimeout: 10 * time.Second})).OK(t).Mutex("q")
		cancelled(t, l, func() {
			<-queued
			backend.Release(t, lease)
			time.Sleep(2 * time.Second) // one that asked every 300 ms or sooner would have the lock by then
		})
		lease = acquire(t, l)
		expect.Between(t, "how long a lease lasts, by the first client's TTL", time.Until(lease.Deadline()), 0, 40*time.Second)
		backend.Release(t, lease)
	})
}
