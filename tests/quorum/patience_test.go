package quorum

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

// Fault: Nodes are farther away than the default node timeout, connections are new, and scripts unknown. They can be
// locked.
func TestFarNodes(t *testing.T) {
	t.Parallel()
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
				lease, err := q.Mutex("q").TryAcquire(t.Context())
				if err != nil {
					t.Fatalf("TryAcquire: %v", err)
				}
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		for _, node := range s.nodes {
			s.do(node, "FLUSHALL")
		}
		s.commandTimeout, s.retryTimeout = time.Minute, 10*time.Minute // no slow machine reaches these: each round hears that the nodes grant nothing
		ctx, cancel := context.WithCancel(t.Context())
		failed := s.wants(ctx, 6, (*holdfast.Lock).Acquire, s.links()) // all nodes, twice
		cancel()
		if err := (<-failed).err; !errors.Is(err, context.Canceled) || !errors.Is(err, holdfast.ErrQuarantine) {
			t.Errorf("Acquire: %v", err)
		}
	})
}

// Fault: A majority reports an error that waiting does not mend. It is returned at once.
func TestMajorityRefuses(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		s.retryTimeout = 10 * time.Minute
		l := s.lock()
		backend.Release(t, acquire(t, l)) // all nodes are known
		for _, node := range s.nodes[1:] {
			s.do(node, "ACL", "SETUSER", "default", "-set")
		}
		if _, err := l.Acquire(t.Context()); !errors.Is(err, holdfast.ErrDenied) {
			t.Errorf("Acquire: %v", err)
		}
		for _, node := range s.nodes[1:] {
			s.do(node, "ACL", "SETUSER", "default", "+@all")
		}
		s.cleaned()
	})
}
