package quorum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: Three of seven nodes are away, and then four. Three may be, and no more.
func TestSevenNodes(t *testing.T) {
	t.Parallel()
	s := open(t, server.One(t), 7, age)
	lease := acquire(t, s.lock())
	agree(t, lease, 7)
	wantHeld(t, s.lock())
	backend.Release(t, lease)
	for _, i := range []int{0, 3, 6} {
		s.nodes[i].Kill()
	}
	next := acquire(t, s.lock())
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d follows %d", next.Fence(), lease.Fence())
	}
	agree(t, next, 4)
	wantHeld(t, s.lock())
	backend.Release(t, next)
	s.nodes[1].Kill()
	var q *holdfast.QuorumError
	if lease, err := s.lock().Acquire(t.Context()); !errors.As(err, &q) || !errors.Is(err, holdfast.ErrUnavailable) || q.Need != 4 || q.Of != 7 {
		t.Errorf("with three of seven nodes: %v, %v", lease, err)
	}
	s.cleaned()
}

// One of four nodes may be away. Two processes with two nodes each have no majority; three nodes are one.
func TestFourNodes(t *testing.T) {
	t.Parallel()
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			// Only the last step is repeated: a node that restarts is in quarantine for as long as a lease may
			// last.
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
					if n := len(nodesOf(lease)); n != 3 {
						t.Errorf("%d nodes agree", n)
					}
					if lease.Fence() <= last {
						t.Errorf("fence %d follows %d", lease.Fence(), last)
					}
					last = lease.Fence()
					wantHeld(t, s.lock())
					backend.Release(t, lease)
				}
				s.nodes[1].Pause()
				var q *holdfast.QuorumError
				if lease, err := s.lockWaiting(unit / 20).TryAcquire(t.Context()); !errors.As(err, &q) || q.Need != 3 || q.Of != 4 {
					t.Errorf("two of four nodes: %v, %v", lease, err)
				}
				s.nodes[1].Resume()
				// Two of the three others tell the fences to the one that comes back empty.
				s.nodes[0].Restart()
				s.nodes[3].Kill()
				lease = acquire(t, s.lock())
				if lease.Fence() <= last {
					t.Errorf("fence %d follows %d", lease.Fence(), last)
				}
				if n := len(nodesOf(lease)); n != 3 {
					t.Errorf("%d nodes agree", n)
				}
				if err := lease.Release(t.Context()); err != nil {
					return err
				}
				s.cleaned()
				return nil
			})
		})
	}
}

// asks reports whether a script asks a node for locks.
func asks(s driver.Script) bool {
	return s.SHA1 == script.NodeAcquire().SHA1
}

// hanging is a node that answers a request for locks only when it is woken.
type hanging struct {
	drivertest.Driver
	woken chan struct{}
}

func (d hanging) Run(ctx context.Context, call driver.Call) (string, error) {
	if asks(call.Script) {
		select {
		case <-d.woken:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return d.Driver.Run(ctx, call)
}

// Fault: A majority does not answer. That costs an acquire the node timeout, not CommandTimeout, and what the nodes
// grant later is given back.
func TestHangingMajority(t *testing.T) {
	t.Parallel()
	s := open(t, server.One(t), 3, age)
	s.commandTimeout = time.Minute
	woken := make(chan struct{})
	s.wrap = func(i int, d drivertest.Driver) drivertest.Driver {
		if i == 1 {
			return d
		}
		return hanging{d, woken}
	}
	const timeout = 300 * time.Millisecond
	begun := time.Now()
	_, err := s.quorum(timeout).Mutex("q").Acquire(t.Context())
	took := time.Since(begun)
	if !errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("Acquire without a majority: %v", err)
	}
	t.Logf("Acquire failed after %s", took.Round(time.Millisecond))
	if took > s.commandTimeout/2 {
		t.Errorf("Acquire without a majority took %s\n%s", took, machine.Report(begun))
	}
	close(woken)
	s.cleaned()
	backend.Release(t, acquire(t, s.lock()))
}

// splitting is a node of one of three processes. In the first round each process is granted its own node before
// any of them asks another node.
type splitting struct {
	drivertest.Driver
	mine    bool
	granted *sync.WaitGroup // own nodes
	first   *sync.Once
	split   func(reply string)
}

func (d splitting) Run(ctx context.Context, call driver.Call) (reply string, err error) {
	if !asks(call.Script) {
		return d.Driver.Run(ctx, call)
	}
	if !d.mine {
		d.granted.Wait()
	}
	reply, err = d.Driver.Run(ctx, call)
	if err != nil || strings.HasPrefix(reply, "late") { // and is asked again
		return reply, err
	}
	d.first.Do(func() {
		d.split(reply)
		if d.mine {
			d.granted.Done()
		}
	})
	return reply, err
}

// Three processes that get one node each, and so no majority, try again at different times, and in the end all
// of them get the lock.
func TestSplitVotes(t *testing.T) {
	t.Parallel()
	s := open(t, server.One(t), 3, age)
	var granted sync.WaitGroup
	granted.Add(3)
	var mu sync.Mutex
	grants, refusals := 0, 0
	var all []*holdfast.Lock
	for process := range 3 {
		s.wrap = func(i int, d drivertest.Driver) drivertest.Driver {
			return splitting{d, i == process, &granted, &sync.Once{}, func(reply string) {
				mu.Lock()
				defer mu.Unlock()
				if strings.HasPrefix(reply, "granted") || strings.HasPrefix(reply, "taken") {
					grants++
				} else if strings.HasPrefix(reply, "held") {
					refusals++
				}
			}}
		}
		all = append(all, s.lock())
	}
	var leases []<-chan *holdfast.Lease
	for _, l := range all {
		leases = append(leases, backend.Start(t, l))
	}
	last := uint64(0)
	for range all {
		var lease *holdfast.Lease
		select {
		case lease = <-leases[0]:
		case lease = <-leases[1]:
		case lease = <-leases[2]:
		case <-time.After(time.Minute):
			t.Fatal("nobody has the lock within a minute")
		}
		if lease == nil {
			t.Fatal("no lease")
		}
		if lease.Fence() <= last {
			t.Errorf("fence %d follows %d", lease.Fence(), last)
		}
		last = lease.Fence()
		backend.Release(t, lease)
	}
	mu.Lock()
	defer mu.Unlock()
	// The process that was refused first may have given its node back before the others ask.
	if grants < 3 || refusals < 1 {
		t.Errorf("the votes were not split: %d grants, %d refusals in the first round", grants, refusals)
	}
	s.cleaned()
}

// Fault: A node does not answer a vote. The others grant the lock, and votes for other locks reach the node on other connections. The
// vote is given back.
func TestALoneVoteIsNotAnswered(t *testing.T) {
	t.Parallel()
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
func TestOneRoundWithoutANode(t *testing.T) {
	t.Parallel()
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
			if next != last+1 {
				t.Errorf("fence %d follows %d", next, last)
			}
			last = next
		}
		s.nodes[2].Resume()
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
			t.Parallel()
			each(t, 3, age, func(t *testing.T, s *site) {
				l := s.quorum(10*time.Second).Mutex("q", holdfast.NoRenew())
				for range 2 {
					backend.Release(t, acquireOn(t, l, 3))
				}
				if _, err := s.nodes[2].Do(c.loses...); err != nil {
					t.Fatal(err)
				}
				lease := acquire(t, l)
				if nodes := nodesOf(lease); len(nodes) != 2 || slices.Contains(nodes, s.nodes[2].Addr()) {
					t.Errorf("%q agree", nodes)
				}
				if kept, err := s.nodes[2].Do("EXISTS", "holdfast:{q}"); kept != int64(0) || err != nil {
					t.Errorf("the node keeps it: %v, %v", kept, err)
				}
				if n, err := s.nodes[2].Do("EXISTS", "holdfast:fences"); n != c.counters || err != nil {
					t.Errorf("the node has %v counters, %v", n, err)
				}
				backend.Release(t, lease)
			})
		})
	}
}

// Fault: A vote is delayed until its release was answered. What the node sets then is released within seconds.
func TestAVoteComesAfterItsRelease(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		links := s.links()
		l := s.through(links, 10*time.Second).Mutex("q", holdfast.NoRenew())
		for range 2 {
			backend.Release(t, acquireOn(t, l, 3))
		}
		held := links[1].Hold(proxy.Containing("MULTI"), proxy.Cut)
		lease := acquire(t, l)
		held.Wait(t)
		time.Sleep(100 * time.Millisecond)
		if reply := held.Forward(t); !strings.Contains(reply, "\r\n*6\r\n+OK\r\n") {
			t.Errorf("the node has not set it: %q", reply)
		}
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
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		s.commandTimeout, s.retryTimeout = 500*time.Millisecond, 500*time.Millisecond // after which Close gives up
		l := s.quorum(100*time.Millisecond).Mutex("q", holdfast.NoRenew())
		for range 2 {
			backend.Release(t, acquireOn(t, l, 3))
		}
		before := s.nodes[1].CommandStats()["set"]
		s.nodes[1].Pause()
		backend.Release(t, acquire(t, l))
		for _, c := range s.clients {
			if err := c.Close(t.Context()); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		s.nodes[1].Resume()
		connections := func(node *server.Server) int {
			list, err := node.Do("CLIENT", "LIST")
			if err != nil {
				t.Fatal(err)
			}
			return strings.Count(list.(string), "\n")
		}
		backend.Eventually(t, "the node has read all", func() bool { return connections(s.nodes[1]) == connections(s.nodes[0]) })
		if s.nodes[1].CommandStats()["set"] == before {
			t.Error("the vote was not carried out")
		}
		if set, err := s.nodes[1].Do("EXISTS", "holdfast:{q}"); set != int64(0) || err != nil {
			t.Errorf("the vote is left: %v, %v", set, err)
		}
	})
}

// Fault: The clocks of the nodes are set back, and the ids of their counters reach too high a number within a millisecond. Votes with such
// fences are given back and scripts ask again, without holding up other answers on the connection.
func TestVotesWhoseFencesDoNotFit(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		s.commandTimeout, s.retryTimeout = 20*time.Second, 10*time.Second
		l := s.quorum(10*time.Second).Mutex("q", holdfast.NoRenew())
		for range 2 {
			backend.Release(t, acquireOn(t, l, 3))
		}
		for _, node := range s.nodes {
			if _, err := node.Do("XADD", "holdfast:fences", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), "-999"), "g", ""); err != nil {
				t.Fatal(err)
			}
		}
		lease, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		backend.Release(t, lease)
		s.cleaned()
	})
}

// A node that refuses one of the commands is asked by script for a while, and not by these commands each time.
func TestANodeThatRefusesVotes(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		links := s.links()
		l := s.through(links, 10*time.Second).Mutex("q", holdfast.NoRenew())
		for range 2 {
			backend.Release(t, acquireOn(t, l, 3))
		}
		if _, err := s.nodes[1].Do("ACL", "SETUSER", "default", "-mget"); err != nil {
			t.Fatal(err)
		}
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
		if n := votes.Load(); n == 0 || n > leases/2 {
			t.Errorf("%d leases took %d such votes", leases, n)
		}
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
	l := s.through(links).Mutex("a")
	for range 10 {
		backend.Release(t, acquire(t, l))
	}
	if n := tried.Load(); n > 2*3 {
		t.Errorf("%d transactions were tried", n)
	}
}
