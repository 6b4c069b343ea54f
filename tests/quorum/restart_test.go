package quorum

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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
	s := open(t, bin, 3, brief, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"))
	for _, node := range s.nodes {
		setCounter(t, node, time.Now().Add(time.Hour).UnixMicro())
	}
	return s
}

// Fault: All nodes restart, one by one, and nobody asks for a lock meanwhile. They vouch for each other once all are
// back.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, bin server.Binary) {
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
	t.Parallel()
	onEach(t, func(t *testing.T, bin server.Binary) {
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
		if err := os.RemoveAll(filepath.Join(s.nodes[2].Dir(), "appendonlydir")); err != nil {
			t.Fatal(err)
		}
		s.nodes[2].Restart()
		fails(holdfast.ErrNotAdmitted, "one is empty")
		if err := admit(t, s.quorum(), true); err != nil {
			t.Fatalf("Init: %v", err)
		}
		s.above(last)
	})
}

// Fault: Somebody sets the fence counters of a quorum's nodes to something other than a counter. The error names the key and what to do.
func TestCountersThatAreNone(t *testing.T) {
	t.Parallel()
	s := lasting(t, server.One(t))
	for _, node := range s.nodes {
		s.do(node, "SET", "holdfast:fences", "notanumber")
	}
	const says = `its key is "holdfast:fences" (if no other program uses that key, delete it`
	_, err := s.lock().TryAcquire(t.Context())
	if !errors.Is(err, holdfast.ErrMismatch) || strings.Count(err.Error(), says) < 2 || strings.Contains(err.Error(), "another name") {
		t.Errorf("the error is: %v", err)
	}
}
