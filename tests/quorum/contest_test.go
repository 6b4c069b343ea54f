package quorum

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// splitting is a node of one of several processes. In the first round each process is granted its own node before
// any of them asks another node.
type splitting struct {
	drivertest.Driver
	mine    bool
	granted *sync.WaitGroup // own nodes
	first   *sync.Once
}

func (d splitting) Run(ctx context.Context, call driver.Call) (string, error) {
	if !asks(call.Script) {
		return d.Driver.Run(ctx, call)
	}
	if !d.mine {
		d.granted.Wait()
	}
	reply, err := d.Driver.Run(ctx, call)
	if d.mine && err == nil && !strings.HasPrefix(reply, "late") { // otherwise it is asked again
		d.first.Do(d.granted.Done)
	}
	return reply, err
}

// split makes as many processes as there are nodes, each with its own connections to all of them. In the first
// round each process is granted its own node before any of them asks another node.
func (s *site) split() (all []*holdfast.Lock) {
	var granted sync.WaitGroup
	granted.Add(len(s.nodes))
	for process := range s.nodes {
		s.wrap = func(i int, d drivertest.Driver) drivertest.Driver {
			return splitting{d, i == process, &granted, &sync.Once{}}
		}
		all = append(all, s.quorum(10*time.Second).Mutex("q", holdfast.Identity(fmt.Sprint("process ", process))))
	}
	s.wrap = nil
	return all
}

// Fault: All contenders try at once, each nearest to another node, so that nobody gets a majority at first. In the
// end one has the lock, and the others are told who.
func TestAllTryAtOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n, " nodes"), func(t *testing.T) {
			each(t, n, age, func(t *testing.T, s *site) {
				s.retryTimeout = 10 * time.Minute // so long that no slow machine reaches it
				results := make(chan result, n)
				for _, l := range s.split() {
					go func() {
						lease, err := l.TryAcquire(t.Context())
						results <- result{lease, err}
					}()
				}
				var lease *holdfast.Lease
				var held []*holdfast.HeldError
				for range n {
					r := <-results
					var h *holdfast.HeldError
					switch {
					case r.lease != nil && lease != nil:
						t.Error("two have the lock")
					case r.lease != nil:
						lease = r.lease
					case errors.As(r.err, &h):
						held = append(held, h)
					default:
						t.Errorf("TryAcquire: %v", r.err)
					}
				}
				if lease == nil {
					t.Fatalf("nobody has the lock; %d were told that it is held: %v", len(held), held[0])
				}
				for _, h := range held {
					expect.Equal(t, "the holder that another is told of", h.Holder.Identity, lease.Identity())
				}
				backend.Release(t, lease)
				s.cleaned()
			})
		})
	}
}

// Fault: Nodes name different holders, none of which has a majority, as when voters died. The caller is not told that the lock is held.
func TestHeldIsWhatAMajoritySays(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		// These are the remains of two holders that died before they could give them back.
		var values []any
		for _, owner := range []string{"one", "two"} {
			lease := acquireOn(t, s.lock(holdfast.Identity(owner), holdfast.NoRenew()), 3)
			value := expect.Of(s.nodes[0].Do("GET", "holdfast:{q}")).OK(t)
			values = append(values, value)
			backend.Release(t, lease)
		}
		for i, value := range values {
			s.do(s.nodes[i], "SET", "holdfast:{q}", value, "PX", "3600000")
		}
		_, err := s.lock().TryAcquire(t.Context())
		expect.ErrBut(t, "TryAcquire", err, holdfast.ErrUnavailable, holdfast.ErrHeld)
		for _, want := range []string{"names one (pid", "names two (pid"} {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
		// A waiter gets the lock once one of them has expired.
		waiting := backend.Start(t, s.lock())
		backend.Eventually(t, "it waits", func() bool { return s.tickets() == 3 })
		s.do(s.nodes[0], "DEL", "holdfast:{q}")
		backend.Release(t, backend.Receive(t, waiting))
		s.do(s.nodes[1], "DEL", "holdfast:{q}")
		s.cleaned()
	})
}

// If the context's deadline passes while a majority names a holder, Acquire's error names the holder. Behind another caller of the
// process it names only the lock.
func TestADeadlinePassesWhileTheLockIsHeld(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		lease := acquire(t, s.lock(holdfast.Identity("one")))
		l := s.lock()
		told := func(owner string) func() bool {
			return func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := l.Acquire(ctx)
				var held *holdfast.HeldError
				return errors.Is(err, context.DeadlineExceeded) && errors.As(err, &held) && held.Name == "q" && held.Holder.Identity == owner
			}
		}
		backend.Eventually(t, "the error names the holder", told("one"))
		waiting := backend.Start(t, l)
		backend.Eventually(t, "the error of a caller behind another names the lock", told(""))
		backend.Release(t, lease)
		backend.Release(t, backend.Receive(t, waiting))
	})
}

// tickets returns the number of nodes on which anybody waits for the lock.
func (s *site) tickets() (n int) {
	s.t.Helper()
	for _, node := range s.nodes {
		members := expect.Of(node.Do("ZRANGE", "holdfast:{q}:q", "0", "-1")).OK(s.t)
		all, _ := members.([]any)
		for _, m := range all {
			if text, _ := m.(string); strings.HasPrefix(text, "t:") {
				n++
				break
			}
		}
	}
	return n
}

// Fault: A process asks again as soon as it has released the lock. It does not overtake a waiter.
func TestNobodyPassesAWaiter(t *testing.T) {
	server.Each(t, func(t *testing.T, bin server.Binary) {
		// A ticket lasts for a second after its owner's latest request.
		machine.UndisturbedTest(t, func(tb testing.TB) {
			s := open(t, bin, 3, age)
			ctx, cancel := context.WithCancel(tb.Context())
			var grants atomic.Int64
			var busy sync.WaitGroup
			greedy := s.quorum(10 * time.Second)
			for range 2 { // goroutines, so that one asks as soon as the other has released
				busy.Go(func() {
					l := greedy.Mutex("q")
					for ctx.Err() == nil {
						lease, err := l.Acquire(ctx)
						if err != nil {
							continue
						}
						grants.Add(1)
						time.Sleep(20 * time.Millisecond)
						_ = lease.Release(context.WithoutCancel(ctx))
					}
				})
			}
			defer busy.Wait()
			defer cancel()
			for range 5 {
				var votes atomic.Int64
				s.wrap = func(_ int, d drivertest.Driver) drivertest.Driver { return counted{d, &votes} }
				waiting := backend.Start(tb, s.lock())
				var lease *holdfast.Lease
				known := int64(-1)
				for lease == nil {
					select {
					case lease = <-waiting:
						if lease == nil {
							tb.Fatal("no lease")
						}
					default:
						if known < 0 && votes.Load() > 9 { // three rounds: in the first it learns that it has to wait
							known = grants.Load()
						}
						if known >= 0 && grants.Load() > known+3 {
							tb.Fatalf("another has had the lock %d times since it was known that this one waits", grants.Load()-known)
						}
						time.Sleep(time.Millisecond)
					}
				}
				backend.Release(tb, lease)
			}
		})
	})
}

// Fault: A waiter gives up while its votes are on the way, and its later requests overtake them. No node keeps its ticket.
func TestVotesArriveAfterTheWaiterGaveUp(t *testing.T) {
	each(t, 3, age, func(t *testing.T, s *site) {
		lease := acquire(t, s.lock())
		agree(t, lease, 3)
		var nodes []*overtaken
		s.wrap = func(_ int, d drivertest.Driver) drivertest.Driver {
			nodes = append(nodes, &overtaken{Driver: d, sent: make(chan struct{}), arrives: make(chan struct{}), arrived: make(chan struct{}), early: make(chan struct{})})
			return nodes[len(nodes)-1]
		}
		s.commandTimeout = time.Minute // so long that no slow machine reaches it
		l := s.quorum(time.Minute).Mutex("q")
		cancelled(t, l, func() {
			for _, node := range nodes {
				<-node.sent
			}
		})
		for i, node := range nodes {
			backend.Eventually(t, fmt.Sprintf("node %d is told to forget the ticket after the vote has brought it", i), node.forgets.Load)
		}
		backend.Release(t, lease)
	})
}

// overtaken is a node that is reached by the first vote with a ticket as late as possible: just before the vote is given back.
type overtaken struct {
	drivertest.Driver
	once    sync.Once
	token   string
	sent    chan struct{} // closed when that vote is sent
	arrives chan struct{} // closed when it is let through
	arrived chan struct{} // closed when the node has answered it
	hurry   sync.Once
	early   chan struct{} // closed when the ticket has been withdrawn before the vote arrived
	forgets atomic.Bool   // the ticket has been withdrawn after the vote arrived
}

func (d *overtaken) Run(ctx context.Context, call driver.Call) (string, error) {
	switch {
	case call.Script.SHA1 == script.NodeAcquire().SHA1 && call.Args[5] != "":
		first := false
		d.once.Do(func() { first = true })
		if !first {
			break
		}
		d.token = call.Args[1]
		close(d.sent)
		<-d.arrives
		defer close(d.arrived)
	case call.Script.SHA1 != script.Release().SHA1:
	case strings.HasPrefix(call.Args[2], "t:"):
		reply, err := d.Driver.Run(ctx, call)
		select {
		case <-d.arrived:
			d.forgets.Store(true)
		default:
			d.hurry.Do(func() { close(d.early) })
		}
		return reply, err
	case call.Args[1] == d.token: // after this the node refuses the vote
		select {
		case <-d.early:
		case <-time.After(50 * time.Millisecond): // there may be no such withdrawal
		}
		close(d.arrives)
		<-d.arrived
	}
	return d.Driver.Run(ctx, call)
}
