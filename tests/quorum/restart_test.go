package quorum

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// brief is the longest lease in tests that wait for a quarantine.
const brief = 3 * time.Second

// lasting starts nodes that keep their data, each with a counter ahead of its clock.
func lasting(t *testing.T, bin server.Binary) *site {
	t.Helper()
	s := open(t, bin, 3, brief, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"))
	for _, node := range s.nodes {
		setCounter(t, node, time.Now().Add(time.Hour).UnixMicro())
	}
	return s
}

// Fault: All nodes restart, one by one, and nobody asks for a lock meanwhile. They vouch for each other once all are back.
func TestRollingRestart(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		s := lasting(t, bin)
		last := s.above(s.above(0))
		for range 2 { // the second time before any node was caught up
			for _, node := range s.nodes {
				node.Restart()
			}
			_, _ = s.lock().TryAcquire(t.Context()) // begins the quarantine
		}
		s.above(last)
	})
}

// Fault: All nodes have restarted, and one is away, or has lost its data. The others do not vouch for themselves,
// since it may have known the latest fence; with an empty one it takes an operator.
func TestRestartedTogether(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		s := lasting(t, bin)
		s.retryTimeout = 300 * time.Millisecond
		last := s.above(s.above(0))
		for _, node := range s.nodes {
			node.Restart()
		}
		s.nodes[2].Kill()
		fails := func(want error, says string) {
			t.Helper()
			var err error
			backend.Eventually(t, says, func() bool {
				var lease *holdfast.Lease
				if lease, err = s.lock().TryAcquire(t.Context()); err == nil {
					t.Fatalf("%q grant", nodesOf(lease))
				}
				return errors.Is(err, want) && !errors.Is(err, holdfast.ErrQuarantine)
			})
			backend.Eventually(t, "Acquire: "+says, func() bool { // a node may be late
				lease, err := s.lock().Acquire(t.Context())
				if err == nil {
					t.Fatalf("%q grant", nodesOf(lease))
				}
				return errors.Is(err, want)
			})
		}
		fails(holdfast.ErrUnavailable, "two are behind, and one is away")
		// It comes back without its data.
		expect.OK(t, os.RemoveAll(filepath.Join(s.nodes[2].Dir(), "appendonlydir")))
		s.nodes[2].Restart()
		fails(holdfast.ErrNotAdmitted, "one is empty")
		expect.OK(t, admit(t, s.quorum(), true))
		s.above(last)
	})
}

// While nodes are in quarantine, a waiter logs a warning of each, and the error with which it ends names the quarantine.
func TestWarnsOfAQuarantine(t *testing.T) {
	t.Parallel()
	s := open(t, server.One(t), 3, age, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"))
	for _, node := range s.nodes[1:] {
		node.Restart()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var warned atomic.Bool
	s.logger = slog.New(slog.NewTextHandler(writer(func(line string) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, "grants none for now") && !strings.Contains(line, "server="+s.nodes[0].Addr()) {
			warned.Store(true)
			cancel()
		}
	}), nil))
	lock := s.lock()
	_, err := lock.TryAcquire(ctx)
	if !errors.Is(err, holdfast.ErrQuarantine) || warned.Load() {
		t.Errorf("TryAcquire: %v; warned: %t", err, warned.Load())
	}
	ended := time.AfterFunc(time.Minute, cancel)
	defer ended.Stop()
	if _, err := lock.Acquire(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, holdfast.ErrQuarantine) || !warned.Load() {
		t.Errorf("Acquire: %v; warned: %t", err, warned.Load())
	}
}

// writer is called with each line of a log.
type writer func(line string)

func (w writer) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

// Fault: Somebody sets the fence counters of a quorum's nodes to something other than a counter. The error names the key and what to do.
func TestCountersThatAreNone(t *testing.T) {
	t.Parallel()
	s := lasting(t, server.One(t))
	for _, node := range s.nodes {
		s.do(node, "SET", "holdfast:fences", "notanumber")
	}
	const key, advice = `the fence counter holdfast:fences is not a stream`, `(if no other program uses that key, delete it`
	_, err := s.lock().TryAcquire(t.Context())
	if !errors.Is(err, holdfast.ErrMismatch) || strings.Count(err.Error(), key) < 2 || strings.Count(err.Error(), advice) != 1 || strings.Contains(err.Error(), "another name") {
		t.Errorf("the error is: %v", err)
	}
}

// Fault: Nodes are farther away than the default node timeout, connections are new, and scripts unknown. They can be locked.
func TestFarNodes(t *testing.T) {
	each(t, 3, 10*time.Second, func(t *testing.T, s *site) {
		s.retryTimeout = 10 * time.Minute // a slow machine needs many rounds
		links := s.links()
		for _, link := range links {
			link.DelayRequests(40 * time.Millisecond)
			link.DelayReplies(40 * time.Millisecond)
		}
		for range 3 {
			q := s.through(links)
			for range 2 {
				for i, node := range s.nodes {
					s.do(node, "SCRIPT", "FLUSH")
					links[i].Cut()
				}
				lease := expect.Of(q.Mutex("q").TryAcquire(t.Context())).OK(t)
				// On a slow machine the lease may be lost by then.
				if err := lease.Release(t.Context()); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
					t.Errorf("Release: %v", err)
				}
				s.cleaned()
			}
		}
	})
}

// Fault: A node without which it is not known who holds a lock is reached late. It is waited for.
func TestALateNodeIsAskedWhoHoldsALock(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		s.retryTimeout = 10 * time.Minute
		lease := acquire(t, s.quorum().Mutex("q", holdfast.Identity("me")))
		agree(t, lease, 3)
		s.do(s.nodes[0], "DEL", "holdfast:{q}")
		late := proxy.New(t, s.nodes[2].Addr())
		late.DelayReplies(300 * time.Millisecond)
		q := s.quorumOf([]string{s.nodes[0].Addr(), s.nodes[1].Addr(), late.Addr()})
		st, err := q.Mutex("q").Status(t.Context())
		if h, held := st.Holder(); err != nil || !held || h.Identity != "me" {
			t.Errorf("Status: %+v, %v", st, err)
		}
	})
}

// wants makes a new process acquire the lock, and returns once nodes were asked more than n times, or it has given up.
func (s *site) wants(ctx context.Context, n int64, acquire acquirer, links []*proxy.Proxy) <-chan result {
	s.t.Helper()
	var votes atomic.Int64
	s.wrap = func(_ int, d drivertest.Driver) drivertest.Driver { return counted{d, &votes} }
	q := s.through(links, 10*time.Second)
	s.wrap = nil
	results := make(chan result, 1)
	go func() {
		lease, err := acquire(q.Mutex("q"), ctx)
		results <- result{lease, err}
	}()
	backend.Eventually(s.t, "it has asked again and again, or given up", func() bool { return votes.Load() > n || len(results) > 0 })
	return results
}

// acquirer is a way to acquire a lock.
type acquirer func(*holdfast.Lock, context.Context) (*holdfast.Lease, error)

// result is what an acquire returned.
type result struct {
	lease *holdfast.Lease
	err   error
}

// cutOff returns links to the nodes, all but the first of which refuse connections.
func (s *site) cutOff() []*proxy.Proxy {
	links := s.links()
	for _, link := range links[1:] {
		link.Refuse(true)
	}
	return links
}

// Fault: A majority is away for less than RetryTimeout. It is waited for, even by TryAcquire.
func TestMajorityComesBack(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		s.retryTimeout = 10 * time.Minute
		for what, acquire := range map[string]acquirer{"Acquire": (*holdfast.Lock).Acquire, "TryAcquire": (*holdfast.Lock).TryAcquire} {
			links := s.cutOff()
			results := s.wants(t.Context(), 2, acquire, links)
			for _, link := range links {
				link.Refuse(false)
			}
			r := <-results
			if r.err != nil {
				t.Errorf("%s: %v", what, r.err)
				continue
			}
			backend.Release(t, r.lease)
			s.cleaned()
		}
	})
}

// Fault: The context ends while there is no majority. The error says both.
func TestContextEndsWithoutAMajority(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		s.retryTimeout = 10 * time.Minute
		ctx, cancel := context.WithCancel(t.Context())
		failed := s.wants(ctx, 2, (*holdfast.Lock).Acquire, s.cutOff())
		cancel()
		var few *quorum.Error
		err := (<-failed).err
		if !errors.Is(err, context.Canceled) || !errors.Is(err, holdfast.ErrUnavailable) || !errors.As(err, &few) || len(few.Nodes) < 2 {
			t.Errorf("Acquire: %v", err)
		}
		s.cleaned()
	})
}

// Fault: The context ends while nodes that lost their data grant nothing yet. The error says both.
func TestContextEndsInAQuarantine(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		for _, node := range s.nodes {
			s.do(node, "FLUSHALL")
		}
		s.commandTimeout, s.retryTimeout = time.Minute, 10*time.Minute // no slow machine reaches these: each round hears that the nodes grant nothing
		ctx, cancel := context.WithCancel(t.Context())
		failed := s.wants(ctx, 6, (*holdfast.Lock).Acquire, s.links()) // all nodes, twice
		cancel()
		expect.ErrBoth(t, "Acquire", (<-failed).err, context.Canceled, holdfast.ErrQuarantine)
	})
}

// Fault: A majority reports an error that waiting does not mend. It is returned at once.
func TestMajorityRefuses(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		s.retryTimeout = 10 * time.Minute
		l := s.lock()
		backend.Release(t, acquire(t, l)) // all nodes are known
		for _, node := range s.nodes[1:] {
			s.do(node, "ACL", "SETUSER", "default", "-set")
		}
		expect.Err(t, "Acquire", expect.ErrOf(l.Acquire(t.Context())), holdfast.ErrDenied)
		for _, node := range s.nodes[1:] {
			s.do(node, "ACL", "SETUSER", "default", "+@all")
		}
		s.cleaned()
	})
}
