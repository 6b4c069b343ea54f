package topology

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// play has a lock of every kind, held by one client and wanted by another, and an election with a leader, a
// candidate that waits, and a watcher.
type play struct {
	t             *testing.T
	queues        map[string]*queue
	first, second *backend.Candidate
	term          *holdfast.Lease
	sees          func() string
	election      *holdfast.Election

	// A lock was detached, which one client is to adopt, and another waits for.
	detached *holdfast.Lease
	ticket   holdfast.Ticket
	adopter  *holdfast.Client
	waits    <-chan *holdfast.Lease
}

func newPlay(t *testing.T, open opener) *play {
	t.Helper()
	p := &play{t: t, queues: map[string]*queue{}}
	for what, pair := range backend.Pairs(holdfast.TTL(term)) {
		p.queues[what] = newQueueOf(t, open, pair)
	}
	p.carries(open)
	stand := func(owner string) *backend.Candidate {
		e := open.client(t, &holdfast.Config{Owner: owner}).Election("{a}/e", holdfast.TTL(term))
		return backend.Campaign(t.Context(), e)
	}
	p.first = stand("first")
	p.term, _ = p.first.Elected(t)
	p.election = open.client(t, nil).Election("{a}/e")
	p.sees = backend.Watch(t, p.election)
	if got := p.sees(); got != "first" {
		t.Errorf("%q is seen to lead", got)
	}
	p.second = stand("second")
	observer := open.client(t, nil)
	backend.Waiters(t, observer.Mutex("{a}/e"), 1)
	s, err := p.election.Status(t.Context())
	if h, _ := s.Holder(); err != nil || h.Owner != "first" || len(s.Waiters) != 1 || s.Waiters[0].Owner != "second" {
		t.Errorf("the election's status is %+v, %v", s, err)
	}
	s, err = observer.RWMutex("{a}/rw").Status(t.Context())
	if err != nil || !s.Held() || len(s.Waiters) != 1 || s.Waiters[0].Mode == "" || s.Waiters[0].PID != os.Getpid() {
		t.Errorf("the status of a read-write lock is %+v, %v", s, err)
	}
	return p
}

// carries detaches a lock.
func (p *play) carries(open opener) {
	p.t.Helper()
	lock := func(c *holdfast.Client) *holdfast.Lock { return c.Mutex("{a}/carried", holdfast.TTL(term)) }
	holder, waiter := open.client(p.t, nil), open.client(p.t, nil)
	// An adoption that was given up would use the ticket up.
	p.adopter = open.client(p.t, &holdfast.Config{RetryTimeout: time.Minute})
	p.detached = backend.Acquire(p.t, lock(holder))
	p.waits = backend.Start(p.t, lock(waiter))
	backend.Waiters(p.t, lock(p.adopter), 1)
	var err error
	if p.ticket, err = p.detached.Detach(p.t.Context(), term); err != nil {
		p.t.Fatal(err)
	}
}

// adopts requires that the lock that was detached can be adopted, and passes to the waiter.
func (p *play) adopts(after string) {
	p.t.Helper()
	var heir *holdfast.Lease
	backend.Eventually(p.t, "the lock is adopted after "+after, func() (done bool) {
		var err error
		heir, err = p.adopter.Adopt(p.t.Context(), p.ticket)
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

// passes requires that all locks pass to their waiters, that the next candidate leads, and that the watcher
// hears of it.
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
		if got != "" {
			p.t.Errorf("after %s: %q is seen to lead", after, got)
		}
	}
	p.second.Answer <- nil
	for _, c := range []*backend.Candidate{p.first, p.second} {
		if err := c.Ran(p.t); err != nil && kindOf(err) != holdfast.ErrUnavailable {
			p.t.Errorf("after %s: Run: %v", after, err)
		}
	}
}

// Fault: A Cluster fails over, moves a slot, or loses a master, with every kind of lock in it. Leases and tickets go
// on, waiters are handed what they wait for, the next leads, and watchers hear of it.
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

		p = newPlay(t, open)
		fails(c, slot, (*server.Server).Kill)
		p.passes("the master's death")
	})
}

// Fault: The master behind Sentinel dies, with every kind of lock on it. Leases and tickets go on, waiters are handed
// what they wait for, and the next leads.
func TestEveryKindBehindSentinels(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		g := server.StartSentinels(t, bin, 2, 3)
		p := newPlay(t, sentinelsOf(g))
		g.Servers[0].AwaitInStep()
		g.Servers[0].Kill()
		g.NextMaster(g.Servers[0])
		p.passes("the master's death")
	})
}

// Fault: The master behind Sentinel dies after a job was completed. It is still completed.
func TestOnceRemembersOverAFailover(t *testing.T) {
	each(t, func(t *testing.T, bin server.Binary) {
		g := server.StartSentinels(t, bin, 2, 3)
		job := sentinelsOf(g).client(t, nil).Once("j", holdfast.Slot("monday", time.Hour))
		done, err := job.Do(t.Context(), func(_ context.Context, _ *holdfast.Lease) (string, error) { return "42", nil })
		if err != nil {
			t.Fatal(err)
		}
		g.Servers[0].AwaitInStep()
		g.Servers[0].Kill()
		g.NextMaster(g.Servers[0])
		backend.Eventually(t, "the next master answers", func() bool {
			again, err := job.Do(t.Context(), func(context.Context, *holdfast.Lease) (string, error) {
				t.Error("it runs again")
				return "", nil
			})
			if err == nil && (again.Here || again.Fence != done.Fence || again.Result != "42") {
				t.Errorf("it was %+v, and is %+v", done, again)
			}
			return err == nil
		})
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
				if n > most {
					t.Errorf("%s, keys moved %v: a release costs %d refused commands", what, moved, n)
				}
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
