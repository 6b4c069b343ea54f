package quorum

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

// Fault: Nodes are farther away than the default node timeout, connections are new, and scripts unknown. They can be
// locked.
func TestFarNodes(t *testing.T) {
	t.Parallel()
	each(t, 3, 10*time.Second, func(t *testing.T, s *site) {
		s.retryTimeout = 10 * time.Minute // a slow machine needs many rounds
		var links []*proxy.Proxy
		for _, node := range s.nodes {
			link := proxy.New(t, node.Addr())
			link.DelayRequests(40 * time.Millisecond)
			link.DelayReplies(40 * time.Millisecond)
			links = append(links, link)
		}
		for range 3 {
			q := s.through(links)
			for range 2 {
				for i, node := range s.nodes {
					if _, err := node.Do("SCRIPT", "FLUSH"); err != nil {
						t.Fatal(err)
					}
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
		lease := acquire(t, s.quorum().Mutex("q", holdfast.Owner("me")))
		agree(t, lease, 3)
		if _, err := s.nodes[0].Do("DEL", "holdfast:{q}"); err != nil {
			t.Fatal(err)
		}
		late := proxy.New(t, s.nodes[2].Addr())
		late.DelayReplies(300 * time.Millisecond)
		q := s.quorumOf([]string{s.nodes[0].Addr(), s.nodes[1].Addr(), late.Addr()})
		st, err := q.Mutex("q").Status(t.Context())
		if h, held := st.Holder(); err != nil || !held || h.Owner != "me" {
			t.Errorf("Status: %+v, %v", st, err)
		}
	})
}

// cutOff returns a quorum two of whose nodes cannot be reached, and a function that ends that; votes counts how
// often nodes are asked for locks.
func (s *site) cutOff(votes *atomic.Int64) (q *holdfast.Quorum, mend func()) {
	var links []*proxy.Proxy
	for i, node := range s.nodes {
		link := proxy.New(s.t, node.Addr())
		link.Refuse(i > 0)
		links = append(links, link)
	}
	s.wrap = func(_ int, d drivertest.Driver) drivertest.Driver { return counted{d, votes} }
	defer func() { s.wrap = nil }()
	return s.through(links, 10*time.Second), func() {
		for _, link := range links {
			link.Refuse(false)
		}
	}
}

// Fault: A majority is away for less than RetryTimeout. It is waited for, even by TryAcquire.
func TestMajorityComesBack(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		s.retryTimeout = 10 * time.Minute
		for what, acquire := range map[string]func(*holdfast.Lock, context.Context) (*holdfast.Lease, error){
			"Acquire": (*holdfast.Lock).Acquire, "TryAcquire": (*holdfast.Lock).TryAcquire,
		} {
			var votes atomic.Int64
			q, mend := s.cutOff(&votes)
			type result struct {
				lease *holdfast.Lease
				err   error
			}
			results := make(chan result, 1)
			go func() {
				lease, err := acquire(q.Mutex("q"), t.Context())
				results <- result{lease, err}
			}()
			backend.Eventually(t, "it has tried three times, or given up", func() bool { return votes.Load() >= 3 || len(results) > 0 })
			mend()
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
		var votes atomic.Int64
		q, _ := s.cutOff(&votes)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := q.Mutex("q").Acquire(ctx)
			failed <- err
		}()
		backend.Eventually(t, "it has tried three times, or given up", func() bool { return votes.Load() >= 3 || len(failed) > 0 })
		cancel()
		var few *holdfast.QuorumError
		if err := <-failed; !errors.Is(err, context.Canceled) || !errors.Is(err, holdfast.ErrUnavailable) || !errors.As(err, &few) || len(few.Nodes) < 2 {
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
			if _, err := node.Do("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
		}
		s.commandTimeout, s.retryTimeout = time.Minute, 10*time.Minute // no slow machine reaches these: each round hears that the nodes grant nothing
		var votes atomic.Int64
		s.wrap = func(_ int, d drivertest.Driver) drivertest.Driver { return counted{d, &votes} }
		q := s.quorum(time.Minute)
		s.wrap = nil
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := q.Mutex("q").Acquire(ctx)
			failed <- err
		}()
		backend.Eventually(t, "it has asked all nodes twice, or given up", func() bool { return votes.Load() >= 7 || len(failed) > 0 })
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) || !errors.Is(err, holdfast.ErrQuarantine) {
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
			if _, err := node.Do("ACL", "SETUSER", "default", "-set"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.Acquire(t.Context()); !errors.Is(err, holdfast.ErrDenied) {
			t.Errorf("Acquire: %v", err)
		}
		for _, node := range s.nodes[1:] {
			if _, err := node.Do("ACL", "SETUSER", "default", "+@all"); err != nil {
				t.Fatal(err)
			}
		}
		s.cleaned()
	})
}
