package topology

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/transfer"
)

// play has a lock of every kind, held by one client and wanted by another; an election with a leader, a candidate
// that waits, and a watcher; parties that meet; and a job that is done.
type play struct {
	t             *testing.T
	queues        map[string]*queue
	first, second *backend.Candidate
	term          *holdfast.Lease
	sees          func() string

	// A lock was detached, which one client is to adopt, and another waits for.
	detached *holdfast.Lease
	ticket   transfer.Ticket
	adopter  *holdfast.Client
	waits    <-chan *holdfast.Lease

	// One party of two has arrived at the barrier, and one of two has counted down at the latch, at which somebody waits.
	barrier *barrier.Barrier
	arrived <-chan uint64
	latch   *latch.Latch
	opened  chan error

	job  *once.Job
	done once.Completion
}

func newPlay(t *testing.T, open opener) *play {
	t.Helper()
	p := &play{t: t, queues: map[string]*queue{"a mutex": newQueue(t, open, "{a}/m")}}
	for what, pair := range backend.Pairs(holdfast.TTL(term)) {
		p.queues[what] = newQueueOf(t, open, pair)
	}
	p.carries(open)
	p.meets(open)
	stand := func(owner string) *backend.Candidate {
		e := election.New(open.client(t, &holdfast.Config{Identity: owner}).Mutex("{a}/e", holdfast.TTL(term)))
		return backend.Campaign(t.Context(), e)
	}
	p.first = stand("first")
	p.term, _ = p.first.Elected(t)
	observer := open.client(t, nil)
	p.sees = backend.Watch(t, election.New(observer.Mutex("{a}/e")))
	expect.Equal(t, "is seen to lead", p.sees(), "first")
	p.second = stand("second")
	backend.Waiters(t, observer.Mutex("{a}/e"), 1)
	s, err := observer.RWMutex("{a}/rw").Status(t.Context())
	if err != nil || !s.Held() || len(s.Waiters) != 1 || s.Waiters[0].Mode == "" || s.Waiters[0].PID != os.Getpid() {
		t.Errorf("the status of a read-write lock is %+v, %v", s, err)
	}
	p.job = once.New(open.client(t, nil), "{a}/j", once.Slot(rand.Text(), time.Hour))
	p.done, err = p.job.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) { return "42", nil })
	expect.OK(t, err)
	return p
}

// carries detaches a lock.
func (p *play) carries(open opener) {
	p.t.Helper()
	lock := func(c *holdfast.Client) *holdfast.Lock { return c.Mutex("{a}/carried", holdfast.TTL(term)) }
	// An adoption that was given up would use the ticket up.
	p.adopter = open.client(p.t, &holdfast.Config{RetryTimeout: time.Minute})
	p.detached = backend.Acquire(p.t, lock(open.client(p.t, nil)))
	p.waits = backend.Start(p.t, lock(open.client(p.t, nil)))
	backend.Waiters(p.t, lock(p.adopter), 1)
	var err error
	if p.ticket, err = transfer.Detach(p.t.Context(), p.detached, term); err != nil {
		p.t.Fatal(err)
	}
}

// adopts requires that the lock that was detached can be adopted, and passes to the waiter.
func (p *play) adopts(after string) {
	p.t.Helper()
	var heir *holdfast.Lease
	backend.Eventually(p.t, "the lock is adopted after "+after, func() (done bool) {
		var err error
		heir, err = transfer.Adopt(p.t.Context(), p.adopter, p.ticket)
		if err != nil && kindOf(err) != holdfast.ErrUnavailable {
			p.t.Fatalf("after %s: Adopt: %v", after, err)
		}
		return err == nil
	})
	if heir.Fence() <= p.detached.Fence() {
		p.t.Errorf("after %s: adopted with fence %d after %d", after, heir.Fence(), p.detached.Fence())
	}
	backend.Release(p.t, heir)
	next := soon(p.t, "who waits for the lock that was adopted is not served", p.waits)
	if next == nil {
		p.t.Fatal("no lease")
	}
	backend.Release(p.t, next)
}

// join joins the barrier. The party leaves when it has passed both phases.
func (p *play) join() *barrier.Party {
	p.t.Helper()
	return expect.Of(p.barrier.Join(p.t.Context())).OK(p.t)
}

func (p *play) meets(open opener) {
	p.t.Helper()
	p.barrier = barrier.New(open.client(p.t, nil), "{a}/b", 2, holdfast.TTL(term))
	p.latch = latch.New(open.client(p.t, nil), "{a}/l", 2, holdfast.TTL(term))
	first, waiter := p.join(), latch.New(open.client(p.t, nil), "{a}/l", 2, holdfast.TTL(term))
	p.arrived = arrive(p.t, first)
	p.barrier = barrier.New(open.client(p.t, nil), "{a}/b", 2, holdfast.TTL(term)) // of the other party
	expect.OK(p.t, p.latch.CountDown(p.t.Context()))
	p.opened = make(chan error, 1)
	go func() { p.opened <- waiter.Wait(p.t.Context()) }()
	time.Sleep(100 * time.Millisecond) // so that they most likely wait
}

// arrive passes two phases in a goroutine, and leaves. It tells which phase was the last.
func arrive(t *testing.T, party *barrier.Party) <-chan uint64 {
	last := make(chan uint64, 1)
	go func() {
		var phase uint64
		for range 2 {
			var err error
			if phase, err = party.Await(t.Context()); err != nil {
				t.Errorf("Await: %v", err)
			}
		}
		last <- phase
		_ = party.Leave(t.Context())
	}()
	return last
}

// met requires that the parties pass two phases, and that the latch opens.
func (p *play) met(after string) {
	p.t.Helper()
	second := arrive(p.t, p.join())
	for _, last := range []<-chan uint64{second, p.arrived} {
		expect.Equal(p.t, "after "+after+": the last phase", soon(p.t, "a party is not woken", last), 2)
	}
	party := expect.Of(p.latch.Register(p.t.Context())).OK(p.t)
	expect.Err(p.t, "after "+after+": CountDown", party.CountDown(p.t.Context()), nil)
	expect.Err(p.t, "after "+after+": Wait", soon(p.t, "the waiter at the latch is not woken", p.opened), nil)
	expect.Err(p.t, "Delete", p.latch.Delete(p.t.Context()), nil)
}

// passes requires that all locks pass to their waiters, that the next candidate leads and the watcher hears of it, that parties
// meet, and that the job stays done.
func (p *play) passes(after string) {
	p.t.Helper()
	p.adopts(after)
	for what, q := range p.queues {
		q.passes(after + ", " + what)
	}
	p.first.Answer <- nil
	next, _ := p.second.Elected(p.t)
	if next.Fence() <= p.term.Fence() {
		p.t.Errorf("after %s: the leader with fence %d follows the one with %d", after, next.Fence(), p.term.Fence())
	}
	for { // in between there is no leader for a moment
		got := p.sees()
		if got == "second" {
			break
		}
		expect.Equal(p.t, "after "+after+": the leader that is seen", got, "")
	}
	p.second.Answer <- nil
	for _, c := range []*backend.Candidate{p.first, p.second} {
		if err := c.Ran(p.t); err != nil && kindOf(err) != holdfast.ErrUnavailable {
			p.t.Errorf("after %s: Run: %v", after, err)
		}
	}
	p.met(after)
	again, err := p.job.Do(p.t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
		p.t.Errorf("after %s: the job is done again", after)
		return "", nil
	})
	if err != nil || again.Here || again.Fence != p.done.Fence || again.Result != "42" {
		p.t.Errorf("after %s: the job was %+v, and is %+v, %v", after, p.done, again, err)
	}
}

// Fault: A Cluster fails over, moves a slot, or a master dies or hangs, with every kind of lock in it. Leases and tickets go
// on; the end of a subscription counts as a disconnect, and no waiter stays deaf; the next leads, and watchers hear of it; jobs
// stay done; latches and barriers open.
func TestEveryKindInACluster(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		open := clusterOf(c)
		slot := slotOf("{a}/any")

		p := newPlay(t, open)
		master := c.Owner(slot)
		c.Failover(c.ReplicaOf(master))
		c.Owner(slot, master)
		p.passes("a failover that was asked for")

		p = newPlay(t, open)
		c.StartMove(slot, otherMaster(c, slot)).Finish()
		p.passes("the move of the slot")

		if bin.MovesAtomically() {
			p = newPlay(t, open)
			c.MoveAtomically(slot, otherMaster(c, slot))
			p.passes("the move of the slot by the server")
		}

		p = newPlay(t, open)
		master = fails(c, slot, (*server.Server).Kill)
		p.passes("the master's death")
		master.Restart()
		c.AwaitReplicas()
		c.Patience(30 * time.Second)

		q := newQueue(t, open, "{a}/m") // a waiter for several locks may give up, when it asks for the next one
		master = fails(c, slot, (*server.Server).Pause)
		q.passes("the master's silence")
		master.Resume()
	})
}

// Fault: A slot moves key by key with a shared lock in it that has no queue. It cannot be released meanwhile, and is
// when the slot has moved.
func TestSharesInASlotOnTheMove(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		c := startCluster(t, bin)
		open := clusterOf(c)
		slot := slotOf("{a}/any")
		for what, lock := range map[string]func(c *holdfast.Client) *holdfast.Lock{
			"a reader": func(c *holdfast.Client) *holdfast.Lock { return c.RWMutex("{a}/rw", holdfast.TTL(term)).Reader() },
			"a writer": func(c *holdfast.Client) *holdfast.Lock { return c.RWMutex("{a}/rw", holdfast.TTL(term)).Writer() },
			"a permit": func(c *holdfast.Client) *holdfast.Lock {
				return c.Semaphore("{a}/s", 1, holdfast.TTL(term)).Permits(1)
			},
			"an owner's": func(c *holdfast.Client) *holdfast.Lock {
				return c.OwnerMutex("{a}/own", "me", holdfast.TTL(term))
			},
		} {
			for _, moved := range []bool{false, true} {
				l := lock(open.client(t, &holdfast.Config{RetryTimeout: 500 * time.Millisecond}))
				var lease *holdfast.Lease
				backend.Eventually(t, "a lease", func() bool {
					var err error
					if lease, err = l.Acquire(t.Context()); err != nil && kindOf(err) != holdfast.ErrUnavailable {
						t.Fatal(err)
					}
					return err == nil // half a second can be too little to connect
				})
				m := c.StartMove(slot, otherMaster(c, slot))
				if moved {
					m.Keys(10)
				}
				before, begun := rejected(c), time.Now()
				err := lease.Release(t.Context())
				took, n := time.Since(begun), rejected(c)-before
				most := 60 * int64(1+time.Since(begun)/time.Second)
				if err != nil && kindOf(err) != holdfast.ErrUnavailable {
					t.Errorf("%s, keys moved %v: Release: %v", what, moved, err)
				}
				t.Logf("%s, keys moved %v: Release after %s: %v; %d refused commands", what, moved, took.Round(time.Millisecond), err, n)
				expect.AtMost(t, fmt.Sprintf("%s, keys moved %v: refused commands of a release", what, moved), n, most)
				m.Finish()
				backend.Eventually(t, "it is free", func() bool {
					held, err := backend.IsHeld(t.Context(), l)
					return err == nil && !held
				})
				backend.Release(t, backend.Acquire(t, lock(open.client(t, nil))))
			}
		}
	})
}
