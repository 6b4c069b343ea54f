package quorum

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// gate is a node that, once it is shut, does not answer requests for locks until it is opened.
type gate struct {
	drivertest.Driver
	shut   atomic.Bool
	opened chan struct{}
	asked  atomic.Int64 // how many locks
}

func (d *gate) Run(ctx context.Context, call driver.Call) (string, error) {
	if d.shut.Load() && asks(call.Script) {
		d.asked.Add(1)
		<-d.opened
	}
	return d.Driver.Run(ctx, call)
}

// gated returns a quorum that knows its nodes, the shut gates in front of them, and a function that opens the
// gates.
func (s *site) gated() (*holdfast.Quorum, []*gate, func()) {
	opened := make(chan struct{})
	all := make([]*gate, len(s.nodes))
	s.wrap = func(i int, d drivertest.Driver) drivertest.Driver {
		all[i] = &gate{Driver: d, opened: opened}
		return all[i]
	}
	q := s.quorum(10 * time.Second)
	s.wrap = nil
	lease := acquire(s.t, q.Mutex("first"))
	agree(s.t, lease, len(s.nodes))
	backend.Release(s.t, lease)
	for _, g := range all {
		g.shut.Store(true)
	}
	return q, all, func() { close(opened) }
}

// crowded waits until all nodes are asked, and that many callers wait for them.
func crowded(t *testing.T, all []*gate, callers int) {
	t.Helper()
	for i, g := range all {
		backend.Eventually(t, fmt.Sprint("node ", i, " is asked"), func() bool { return g.asked.Load() > 0 })
	}
	blocked(t, "(*ballot).wait", callers)
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

// crowd acquires n locks at once, and returns their leases.
func crowd(t *testing.T, q *holdfast.Quorum, n int, begun func(), opts ...holdfast.QuorumOption) []*holdfast.Lease {
	t.Helper()
	leases := make([]*holdfast.Lease, n)
	var wg sync.WaitGroup
	for i := range leases {
		l := q.Mutex(fmt.Sprint("q", i), append(opts, holdfast.TTL(age))...)
		wg.Go(func() {
			lease, err := l.Acquire(t.Context())
			if err != nil {
				t.Errorf("Acquire of %s: %v", l.Name(), err)
			}
			leases[i] = lease
		})
	}
	begun()
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return leases
}

// Several locks are acquired from the same nodes at the same time.
func TestManyLocksAtOnce(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		q, gates, open := s.gated()
		const locks = 40
		last := map[string]uint64{}
		for round := range 3 {
			leases := crowd(t, q, locks, func() {
				if round == 0 {
					crowded(t, gates, locks)
					open()
				}
			})
			if round == 0 {
				for i, g := range gates {
					if n := g.asked.Load(); n != locks {
						t.Errorf("node %d was asked for %d locks", i, n)
					}
				}
			}
			for _, lease := range leases {
				agree(t, lease, 3)
				if lease.Fence() <= last[lease.Name()] {
					t.Errorf("%s: fence %d follows %d", lease.Name(), lease.Fence(), last[lease.Name()])
				}
				last[lease.Name()] = lease.Fence()
				wantHeld(t, s.quorum(10*time.Second).Mutex(lease.Name()))
			}
			var wg sync.WaitGroup
			for _, lease := range leases {
				wg.Go(func() { backend.Release(t, lease) })
			}
			wg.Wait()
		}
		s.cleaned()
	})
}

// Fault: Nodes grant many locks, and their answers are lost. The acquires cost their timeout, the locks are taken
// back, and no late copy acquires them again.
func TestAnswersToManyLocksAreLost(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		links := s.links()
		s.commandTimeout = 10 * time.Minute
		backend.Release(t, acquire(t, s.through(links, 10*time.Second).Mutex("first")))
		q := s.waiting(300 * time.Millisecond)
		for _, link := range links[1:] {
			link.SwallowReplies(true)
		}
		var wg sync.WaitGroup
		for i := range 20 {
			l := q.Mutex(fmt.Sprint("q", i))
			wg.Go(func() {
				begun := time.Now()
				if lease, err := l.Acquire(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) {
					t.Errorf("without a majority: %v, %v", lease, err)
				}
				if took := time.Since(begun); took > s.commandTimeout/2 {
					t.Errorf("Acquire without a majority took %s\n%s", took, machine.Report(begun))
				}
			})
		}
		wg.Wait()
		for _, link := range links {
			link.SwallowReplies(false)
			link.Cut()
		}
		s.cleaned()
		for _, lease := range crowd(t, s.quorum(10*time.Second), 20, func() {}) {
			backend.Release(t, lease)
		}
	})
}

// Fault: A node refuses every request. It is not asked again for each of many locks.
func TestRefusedTogether(t *testing.T) {
	t.Parallel()
	s := open(t, server.One(t), 3, age)
	q, gates, open := s.gated()
	if _, err := s.nodes[0].Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	leases := crowd(t, q, 40, func() {
		crowded(t, gates, 40)
		open()
	}, holdfast.NoRenew()) // otherwise the node would be asked again for each lease
	asked := gates[0].asked.Load()
	for _, lease := range leases {
		if n := len(nodesOf(lease)); n != 2 {
			t.Errorf("%d nodes agree while one is in quarantine", n)
		}
	}
	if asked > 40 { // each lock was in one call
		t.Errorf("the node in quarantine was asked %d times", asked)
	}
	for _, lease := range leases {
		backend.Release(t, lease)
	}
	s.cleaned()
}

// Fault: Another process has one of many locks. Only that acquire is told so, and nobody else waits for it.
func TestOneOfManyIsHeld(t *testing.T) {
	t.Parallel()
	each(t, 3, age, func(t *testing.T, s *site) {
		held := acquire(t, s.quorum(10*time.Second).Mutex("q7", holdfast.Owner("me")))
		agree(t, held, 3)
		q := s.quorum(10 * time.Second)
		var wg sync.WaitGroup
		for i := range 20 {
			l := q.Mutex(fmt.Sprint("q", i))
			wg.Go(func() {
				lease, err := l.TryAcquire(t.Context())
				if i != 7 {
					if err != nil {
						t.Errorf("TryAcquire of %s: %v", l.Name(), err)
						return
					}
					backend.Release(t, lease)
					return
				}
				var other *holdfast.HeldError
				if !errors.As(err, &other) || other.Holder.Owner != "me" {
					t.Errorf("TryAcquire of one that is held: %v, %v", lease, err)
				}
			})
		}
		wg.Wait()
		backend.Release(t, held)
		backend.Release(t, acquire(t, q.Mutex("q7")))
		s.cleaned()
	})
}

// tally counts the scripts that are sent to nodes, by name.
type tally struct {
	drivertest.Driver
	mu   *sync.Mutex
	sent map[string]int
	late *time.Duration // duration of the slowest answer
}

func (d tally) Run(ctx context.Context, call driver.Call) (string, error) {
	began := time.Now()
	reply, err := d.Driver.Run(ctx, call)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent[call.Script.Name]++
	*d.late = max(*d.late, time.Since(began))
	return reply, err
}

// An acquire of a lock that was just released in the same process does not compete with it: each node is asked
// once to grant it and once to release it.
func TestReleasedBeforeItIsAcquired(t *testing.T) {
	t.Parallel()
	// A node that is a second slower than a majority is not waited for. So rounds in which a server took half
	// of that prove nothing.
	machine.Undisturbed(t, func() error {
		for range 10 {
			late, err := releasedBefore(t)
			if err == nil || late < 500*time.Millisecond {
				return err
			}
			t.Logf("again, since an answer took %s: %v", late, err)
		}
		return errors.New("an answer took too long in each of ten rounds")
	})
}

// releasedBefore also returns the duration of the slowest answer.
func releasedBefore(t *testing.T) (time.Duration, error) {
	s := open(t, server.One(t), 5, age)
	var mu sync.Mutex
	sent := map[string]int{}
	var late time.Duration
	s.wrap = func(_ int, d drivertest.Driver) drivertest.Driver { return tally{d, &mu, sent, &late} }
	l := s.lock()
	first := acquire(t, l)
	agree(t, first, 5) // all nodes are known
	backend.Release(t, first)
	mu.Lock()
	clear(sent)
	mu.Unlock()
	const goroutines, cycles = 3, 20
	var wg sync.WaitGroup
	wrong := make(chan error, goroutines*cycles)
	for range goroutines {
		wg.Go(func() {
			for range cycles {
				lease, err := l.Acquire(t.Context())
				if err != nil {
					wrong <- fmt.Errorf("Acquire: %w", err)
					return
				}
				if n := len(nodesOf(lease)); n != 5 {
					wrong <- fmt.Errorf("%d nodes agree", n)
				}
				if err := lease.Release(t.Context()); err != nil {
					wrong <- fmt.Errorf("Release: %w", err)
				}
			}
		})
	}
	wg.Wait()
	s.cleaned()
	mu.Lock()
	defer mu.Unlock()
	if len(wrong) > 0 {
		return late, <-wrong
	}
	if n := 5 * goroutines * cycles; sent["node_acquire"] != n || sent["release"] != n || len(sent) != 2 {
		return late, fmt.Errorf("%d cycles sent %v", goroutines*cycles, sent)
	}
	return late, nil
}

// Fault: Callers give up while nodes have not answered. The locks that are granted then are taken back.
func TestManyAreGivenUp(t *testing.T) {
	t.Parallel()
	s := open(t, server.One(t), 3, age)
	q, gates, open := s.gated()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 20 {
		l := q.Mutex(fmt.Sprint("q", i))
		wg.Go(func() {
			if lease, err := l.Acquire(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("given up: %v, %v", lease, err)
			}
		})
	}
	crowded(t, gates, 20)
	cancel()
	wg.Wait() // nobody waits for the nodes
	open()
	s.cleaned()
}
