package quorum

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// brief is the longest lease in tests that wait for a quarantine.
const brief = 3 * time.Second

// lasting starts nodes that keep their data, each with a counter ahead of its clock.
func lasting(t *testing.T, bin server.Binary) *site {
	t.Helper()
	s := &site{t: t, bin: bin, ttl: brief}
	for range 3 {
		s.nodes = append(s.nodes, server.Start(t, bin, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always")))
	}
	if err := admit(t, s.quorum(), false); err != nil {
		t.Fatal(err)
	}
	for _, node := range s.nodes {
		setCounter(t, node, time.Now().Add(time.Hour).UnixMicro())
	}
	return s
}

// last acquires and releases the lock a few times, and returns the last fence.
func (s *site) last() (fence uint64) {
	s.t.Helper()
	for range 3 {
		lease := acquire(s.t, s.lock())
		fence = lease.Fence()
		_ = lease.Release(s.t.Context()) // on a slow machine it may be over
	}
	return fence
}

// eachLasting runs a test with such nodes of every kind of server.
func eachLasting(t *testing.T, f func(t *testing.T, s *site)) {
	t.Helper()
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			f(t, lasting(t, bin))
		})
	}
}

// Fault: All nodes restart, one by one, and nobody asks for a lock meanwhile. They vouch for each other once all are
// back.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	eachLasting(t, func(t *testing.T, s *site) {
		last := s.last()
		for range 2 { // the second time before any node was caught up
			for _, node := range s.nodes {
				node.Restart()
			}
			_, _ = s.lock().TryAcquire(t.Context()) // begins the quarantine
		}
		lease := acquire(t, s.lock())
		if lease.Fence() <= last {
			t.Errorf("fence %d follows %d", lease.Fence(), last)
		}
		_ = lease.Release(t.Context())
	})
}

// Fault: All nodes have restarted, and one is away, or has lost its data. The others do not vouch for themselves,
// since it may have known the latest fence; with an empty one it takes an operator.
func TestRestartedTogether(t *testing.T) {
	t.Parallel()
	eachLasting(t, func(t *testing.T, s *site) {
		s.retryTimeout = 300 * time.Millisecond
		last := s.last()
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
		if err := os.RemoveAll(filepath.Join(s.nodes[2].Dir(), "appendonlydir")); err != nil {
			t.Fatal(err)
		}
		s.nodes[2].Restart()
		fails(holdfast.ErrNotAdmitted, "one is empty")
		if err := admit(t, s.quorum(), true); err != nil {
			t.Fatalf("Init: %v", err)
		}
		lease, err := acquired(t, s.lock())
		if err != nil {
			t.Fatal(err)
		}
		if lease.Fence() <= last {
			t.Errorf("fence %d follows %d", lease.Fence(), last)
		}
		_ = lease.Release(context.WithoutCancel(t.Context()))
	})
}
