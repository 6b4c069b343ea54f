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
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

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

// names are those of many locks.
func names() (all []string) {
	for i := range 20 {
		all = append(all, fmt.Sprint("q", i))
	}
	return all
}

// Fault: Another process has one of many locks, which are acquired at once. Only that acquire is told so, and nobody else waits for it.
func TestOneOfManyIsHeld(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		held := acquire(t, s.quorum(10*time.Second).Mutex("q7", holdfast.Identity("me")))
		agree(t, held, 3)
		q, other := s.quorum(10*time.Second), s.quorum(10*time.Second)
		var wg sync.WaitGroup
		for _, name := range names() {
			wg.Go(func() {
				lease, err := q.Mutex(name).TryAcquire(t.Context())
				var taken *holdfast.HeldError
				switch {
				case name == "q7":
					if !errors.As(err, &taken) || taken.Holder.Identity != "me" {
						t.Errorf("TryAcquire of one that is held: %v, %v", lease, err)
					}
				case err != nil:
					t.Errorf("TryAcquire of %s: %v", name, err)
				default:
					wantHeld(t, other.Mutex(name))
					backend.Release(t, lease)
					if next := acquire(t, other.Mutex(name)); next.Fence() <= lease.Fence() {
						t.Errorf("%s: fence %d follows %d", name, next.Fence(), lease.Fence())
					} else {
						backend.Release(t, next)
					}
				}
			})
		}
		wg.Wait()
		backend.Release(t, held)
		backend.Release(t, acquire(t, q.Mutex("q7")))
		s.cleaned()
	})
}

// Fault: Nodes grant many locks, and their answers are lost. The acquires cost the node timeout, not CommandTimeout, the locks are taken
// back, and no late copy acquires them again.
func TestAnswersToManyLocksAreLost(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		links := s.links()
		s.commandTimeout = 10 * time.Minute
		backend.Release(t, acquire(t, s.through(links, 10*time.Second).Mutex("first")))
		q := s.waiting(300 * time.Millisecond)
		for _, link := range links[1:] {
			link.SwallowReplies(true)
		}
		var wg sync.WaitGroup
		for _, name := range names() {
			wg.Go(func() {
				begun := time.Now()
				expect.Err(t, "without a majority", expect.ErrOf(q.Mutex(name).Acquire(t.Context())), holdfast.ErrUnavailable)
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
		next := s.quorum(10 * time.Second)
		for _, name := range names() {
			backend.Release(t, acquire(t, next.Mutex(name)))
		}
	})
}

// gate is a node that does not answer requests for locks until it is opened.
type gate struct {
	drivertest.Driver
	opened <-chan struct{}
	asked  *atomic.Int64 // how many locks
}

func (d gate) Run(ctx context.Context, call driver.Call) (string, error) {
	if asks(call.Script) {
		d.asked.Add(1)
		<-d.opened
	}
	return d.Driver.Run(ctx, call)
}

// Fault: Callers give up while nodes have not answered. The locks that are granted then are taken back.
func TestManyAreGivenUp(t *testing.T) {
	t.Parallel()
	s := open(t, server.One(t), 3, age)
	opened := make(chan struct{})
	var asked atomic.Int64
	s.wrap = func(_ int, d drivertest.Driver) drivertest.Driver { return gate{d, opened, &asked} }
	q := s.quorum(10 * time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, name := range names() {
		wg.Go(func() {
			expect.Err(t, "given up", expect.ErrOf(q.Mutex(name).Acquire(ctx)), context.Canceled)
		})
	}
	backend.Eventually(t, "all nodes are asked for all locks", func() bool { return asked.Load() >= int64(3*len(names())) })
	cancel()
	wg.Wait() // nobody waits for the nodes
	close(opened)
	s.cleaned()
}
