package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// asks reports whether a script asks a node for locks.
func asks(s driver.Script) bool {
	return s.SHA1 == script.NodeAcquire().SHA1
}

// known returns the quorum's lock, which is not renewed, after two leases from all nodes: they are asked by their own commands.
func (s *site) known(q *quorum.Quorum) *holdfast.Lock {
	s.t.Helper()
	l := q.Mutex("q", holdfast.NoRenew())
	for range 2 {
		backend.Release(s.t, acquireOn(s.t, l, len(s.nodes)))
	}
	return l
}

// Fault: A node does not answer a vote. The others grant the lock, and votes for other locks reach the node on other connections. The
// vote is given back.
func TestALoneVoteIsNotAnswered(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		s.commandTimeout = 10 * time.Minute // the connection hangs until it is cut
		links := s.links()
		q := s.through(links, 10*time.Second) // one round, however slow the machine is
		l := q.Mutex("a", holdfast.NoRenew())
		backend.Release(t, acquireOn(t, l, 3))
		trap := links[1].LoseReply(proxy.Containing("MULTI"), proxy.Hang)
		lease := acquire(t, l)
		trap.Reply(t)
		if nodes := nodesOf(lease); len(nodes) != 2 || slices.Contains(nodes, links[1].Addr()) {
			t.Errorf("%q agree", nodes)
		}
		backend.Release(t, acquireOn(t, q.Mutex("b", holdfast.NoRenew()), 3))
		backend.Release(t, lease)
		s.cleaned()
		links[1].Cut()
		backend.Release(t, acquireOn(t, l, 3))
	})
}

// A lease takes one round even if a node is missing: then the nodes count fences one by one, so they agree.
//
// Fault: A node hangs while it is asked, and grants when nobody waits for its answer any more. It is sent the release, too.
func TestOneRoundWithoutANode(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		l := s.quorum(500*time.Millisecond).Mutex("q", holdfast.NoRenew())
		fence := func(nodes int) uint64 {
			lease := acquireOn(t, l, nodes)
			backend.Release(t, lease)
			return lease.Fence()
		}
		before := fence(3)
		time.Sleep(2 * time.Millisecond)
		if next := fence(3); next == before+1 {
			t.Errorf("with all nodes, which are asked by their own commands, fence %d follows %d", next, before)
		}
		s.nodes[2].Pause()
		last := fence(2)
		for range 3 {
			next := fence(2)
			expect.Equal(t, "the next fence", next, last+1)
			last = next
		}
		s.nodes[2].Resume()
		s.cleaned()
	})
}

// Fault: A node has lost its data, or its mark alone, and nobody has noticed. Its vote does not count, and it does not keep the lock that it
// has set.
func TestAVoteThatDoesNotCount(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		loses    []any
		counters int64
	}{
		"its data": {[]any{"FLUSHALL"}, 0}, // if other nodes restart as well, the missing counter shows that this one has lost it
		"its mark": {[]any{"DEL", "holdfast:incarnation"}, 1},
	} {
		t.Run(what, func(t *testing.T) {
			each(t, 3, age, func(t *testing.T, s *site) {
				l := s.known(s.quorum(10 * time.Second))
				s.do(s.nodes[2], c.loses...)
				lease := acquire(t, l)
				if nodes := nodesOf(lease); len(nodes) != 2 || slices.Contains(nodes, s.nodes[2].Addr()) {
					t.Errorf("%q agree", nodes)
				}
				expect.Of(s.nodes[2].Do("EXISTS", "holdfast:{q}")).Is(t, "votes that the node keeps", int64(0))
				expect.Of(s.nodes[2].Do("EXISTS", "holdfast:fences")).Is(t, "the node's counters", c.counters)
				backend.Release(t, lease)
			})
		})
	}
}

// Fault: A vote is delayed until its release was answered. What the node sets then is released within seconds.
func TestAVoteComesAfterItsRelease(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		links := s.links()
		l := s.known(s.through(links, 10*time.Second))
		held := links[1].Hold(proxy.Containing("MULTI"), proxy.Cut)
		lease := acquire(t, l)
		held.Wait(t)
		time.Sleep(100 * time.Millisecond)
		expect.Contains(t, "the node has not set it", held.Forward(t), "\r\n*6\r\n+OK\r\n")
		backend.Eventually(t, "it is released", func() bool {
			set, err := s.nodes[1].Do("EXISTS", "holdfast:{q}")
			return set == int64(0) && err == nil
		})
		backend.Release(t, lease)
	})
}

// Fault: A node hangs while it is asked for a vote, and the client closes before the node goes on. The node then carries out the vote, and
// the release, which was sent behind it on the same connection.
func TestAClientClosesWhileANodeHangs(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		// Close gives up after these. After the first, the connection is cut, and nothing can be sent behind the vote any more.
		s.commandTimeout, s.retryTimeout = 6*time.Second, 500*time.Millisecond
		l := s.known(s.quorum(1500 * time.Millisecond)) // a connection that was silent for so long gets no new votes
		before := s.nodes[1].CommandStats()["set"]
		s.nodes[1].Pause()
		backend.Release(t, acquire(t, l))
		for _, c := range s.clients {
			expect.Err(t, "Close", c.Close(t.Context()), nil)
		}
		s.nodes[1].Resume()
		connections := func(node *server.Server) int {
			list := expect.Of(node.Do("CLIENT", "LIST")).OK(t)
			return strings.Count(list.(string), "\n")
		}
		backend.Eventually(t, "the node has read all", func() bool { return connections(s.nodes[1]) == connections(s.nodes[0]) })
		if s.nodes[1].CommandStats()["set"] == before {
			t.Error("the vote was not carried out")
		}
		expect.Of(s.nodes[1].Do("EXISTS", "holdfast:{q}")).Is(t, "votes that are left", int64(0))
	})
}

// Fault: The clocks of the nodes are set back, and the ids of their counters reach too high a number within a millisecond. Votes with such
// fences are given back and scripts ask again, without holding up other answers on the connection.
func TestVotesWhoseFencesDoNotFit(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		s.commandTimeout, s.retryTimeout = 20*time.Second, 10*time.Second
		l := s.known(s.quorum(10 * time.Second))
		for _, node := range s.nodes {
			s.do(node, "XADD", "holdfast:fences", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), "-999"), "g", "")
		}
		lease := expect.Of(l.Acquire(t.Context())).OK(t)
		backend.Release(t, lease)
		s.cleaned()
	})
}

// A node that refuses one of the commands is asked by script for a while, and not by these commands each time.
func TestANodeThatRefusesVotes(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		links := s.links()
		l := s.known(s.through(links, 10*time.Second))
		s.do(s.nodes[1], "ACL", "SETUSER", "default", "-mget")
		var votes atomic.Int64
		links[1].Hold(func(request []byte) bool {
			if bytes.Contains(request, []byte("MULTI")) {
				votes.Add(1)
			}
			return false
		}, proxy.Cut)
		const leases = 30
		for range leases {
			backend.Release(t, acquireOn(t, l, 3))
		}
		expect.Between(t, fmt.Sprintf("votes for %d leases", leases), votes.Load(), 1, leases/2)
	})
}

// Fault: Proxies before the nodes close the connection at a transaction. Scripts ask for votes.
func TestNodesBehindProxiesWithoutTransactions(t *testing.T) {
	t.Parallel()
	s := open(t, server.One(t), 3, age)
	links := s.links()
	var tried atomic.Int64
	for _, link := range links {
		link.Filter(func(request []byte) []byte {
			if bytes.Contains(request, []byte("\r\nMULTI\r\n")) {
				tried.Add(1)
				return nil
			}
			return request
		})
	}
	l := s.through(links, 10*time.Second).Mutex("a") // a vote that is given up would not count as refused
	for range 10 {
		backend.Release(t, acquire(t, l))
	}
	expect.AtMost(t, "transactions were tried", tried.Load(), 2*3)
}

// One of four nodes may be away. Two processes with two nodes each have no majority; three nodes are one.
func TestFourNodes(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		// Only the last step is repeated: a node that restarts is in quarantine for as long as a lease may last.
		machine.Unhurried(t, term, func(unit time.Duration) error {
			s := open(t, bin, 4, unit)
			lease := acquire(t, s.lock())
			if err := agreed(lease, 4); err != nil {
				return err
			}
			wantHeld(t, s.lock())
			last := lease.Fence()
			backend.Release(t, lease)
			s.nodes[0].Kill()
			for range 2 {
				lease := acquire(t, s.lock())
				expect.Equal(t, "nodes agree", len(nodesOf(lease)), 3)
				rises(t, lease, last)
				last = lease.Fence()
				wantHeld(t, s.lock())
				backend.Release(t, lease)
			}
			s.nodes[1].Pause()
			var q *quorum.Error
			if lease, err := s.lockWaiting(unit / 20).TryAcquire(t.Context()); !errors.As(err, &q) || q.Need != 3 || q.Of != 4 {
				t.Errorf("two of four nodes: %v, %v", lease, err)
			}
			s.nodes[1].Resume()
			// Two of the three others tell the fences to the one that comes back empty.
			s.nodes[0].Restart()
			s.nodes[3].Kill()
			lease = acquire(t, s.lock())
			rises(t, lease, last)
			expect.Equal(t, "nodes agree", len(nodesOf(lease)), 3)
			if err := lease.Release(t.Context()); err != nil {
				return err
			}
			s.cleaned()
			return nil
		})
	})
}
