package holdfast_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/quorum"
)

// ensemble is a set of independent servers.
type ensemble struct {
	t     *testing.T
	nodes []*redistest.Server
}

func newEnsemble(t *testing.T) *ensemble {
	t.Helper()
	e := &ensemble{t: t}
	for range 3 {
		e.nodes = append(e.nodes, redistest.Start(t))
	}
	return e
}

// clients returns a new client for each server, as another process would have them.
func (e *ensemble) clients(change ...func(*holdfast.Config)) (all []*holdfast.Client) {
	e.t.Helper()
	for _, node := range e.nodes {
		cfg := &holdfast.Config{Strict: true, MaxTTL: time.Minute, TTL: 50 * time.Second, CommandTimeout: 10 * time.Second, RetryTimeout: 30 * time.Second}
		for _, f := range change {
			f(cfg)
		}
		c, err := holdfast.New(node.Driver(), cfg)
		if err != nil {
			e.t.Fatal(err)
		}
		e.t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if e.t.Failed() {
				cancel() // leases that the test did not release are not waited for
			}
			if err := c.Close(ctx); err != nil && ctx.Err() == nil {
				e.t.Errorf("Close: %v", err)
			}
		})
		all = append(all, c)
	}
	return all
}

// quorum returns a quorum with new clients. Its timeouts are so long that a slow machine does not make a node count as down.
func (e *ensemble) quorum() *quorum.Quorum {
	e.t.Helper()
	q, err := quorum.New(e.clients(), &quorum.Config{NodeTimeout: 10 * time.Second})
	if err != nil {
		e.t.Fatal(err)
	}
	return q
}

// admitted returns servers that have been admitted.
func admitted(t *testing.T) *ensemble {
	t.Helper()
	e := newEnsemble(t)
	must(t, inspect.NewQuorum(e.quorum()).Admit(t.Context()))
	return e
}

func TestAQuorumsMutexHasOneHolder(t *testing.T) {
	t.Parallel()
	e := admitted(t)
	q, there := e.quorum(), e.quorum().Mutex("m")
	l := q.Mutex("m", holdfast.Identity("me"))
	lease := acquire(t, l)
	if n := len(q.Nodes(lease)); n < 2 {
		t.Errorf("%d of 3 nodes hold the lease", n)
	}
	_, err := there.TryAcquire(t.Context())
	heldBy(t, "TryAcquire", err, "m", "me", nil)
	got := status(t, there)
	if h, is := got.Holder(); !is || h.Identity != "me" || got.Name != "m" || got.Kind != holdfast.KindMutex {
		t.Errorf("Status: %+v", got)
	}
	want(t, "Extend", lease.Extend(t.Context(), time.Minute), nil)
	next := start(t, there.Acquire)
	wantWaiting(t, "a waiter", next)
	release(t, lease)
	after := succeeded(t, next)
	rises(t, lease.Fence(), after.Fence())
	if nodes := q.Nodes(after); nodes != nil {
		t.Errorf("the nodes of another quorum's lease are %q", nodes)
	}
	release(t, after)
}

// Goroutines of one process contend for a quorum's mutex one at a time. The next one's turn comes when the lease is released, and when it is
// lost, but not once more when a lost lease is released.
func TestGoroutinesTakeTurnsAtAQuorumsMutex(t *testing.T) {
	t.Parallel()
	q, err := quorum.New(admitted(t).clients(), nil)
	must(t, err)
	l := q.Mutex("m", holdfast.TTL(time.Second), holdfast.NoRenew())
	lost := acquire(t, l)
	var waiting []<-chan outcome[*holdfast.Lease]
	for range 3 {
		waiting = append(waiting, start(t, l.Acquire))
	}
	for range waiting {
		var lease *holdfast.Lease
		select { // they may have begun in any order
		case got := <-waiting[0]:
			lease = got.value
		case got := <-waiting[1]:
			lease = got.value
		case got := <-waiting[2]:
			lease = got.value
		case <-time.After(patience):
		}
		if lease == nil {
			t.Fatal("nobody has got the lock")
		}
		want(t, "the earlier lease", lost.Err(), holdfast.ErrLost)
		want(t, "Release of the earlier lease", lost.Release(t.Context()), holdfast.ErrLost)
		lost = lease
	}
	_ = lost.Release(t.Context())
	release(t, acquire(t, q.Mutex("m")))
}

func TestAQuorumElectsALeader(t *testing.T) {
	t.Parallel()
	e := admitted(t)
	theElection := election.New(e.quorum().Mutex("e", holdfast.Identity("first")))
	equal(t, "the kind of an election without candidates", status(t, theElection).Kind, holdfast.KindElection)
	_, err := theElection.Leader(t.Context())
	want(t, "Leader while nobody leads", err, holdfast.ErrNotHeld)
	first := campaign(t.Context(), theElection)
	one := receive(t, first.terms)
	if h, err := election.New(e.quorum().Mutex("e")).Leader(t.Context()); err != nil || h.Identity != "first" {
		t.Errorf("Leader: %+v, %v", h, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for status, err := range election.New(e.quorum().Mutex("e")).Watch(ctx) {
		if h, _ := status.Holder(); err != nil || h.Identity != "first" {
			t.Errorf("Watch yields %+v, %v", status, err)
		}
		cancel()
	}
	equal(t, "the kind of an election", status(t, e.quorum().Mutex("e")).Kind, holdfast.KindElection)
	second := campaign(t.Context(), election.New(e.quorum().Mutex("e")))
	first.answer <- nil
	rises(t, one.lease.Fence(), receive(t, second.terms).lease.Fence())
	second.answer <- nil
	for _, c := range []*candidate{first, second} {
		want(t, "Run", receive(t, c.over), nil)
	}
}

// Where the clients of a quorum differ, the first one's Config counts.
func TestAQuorumHasTheConfigOfItsFirstClient(t *testing.T) {
	t.Parallel()
	e := admitted(t)
	lease := acquire(t, e.quorum().Mutex("m"))
	queued := make(chan struct{}, 1)
	seldom := e.clients(func(cfg *holdfast.Config) {
		cfg.PollInterval, cfg.TTL = time.Hour, 40*time.Second
		cfg.Observers = []*holdfast.Observer{{AcquireQueued: func(context.Context, holdfast.AcquireEvent) { queued <- struct{}{} }}}
	})
	q, err := quorum.New([]*holdfast.Client{seldom[0], e.clients()[1], e.clients()[2]}, &quorum.Config{NodeTimeout: 10 * time.Second})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	next := start(t, func(context.Context) (*holdfast.Lease, error) { return q.Mutex("m").Acquire(ctx) })
	receive(t, queued)
	release(t, lease)
	select { // one that asked every 300 ms or sooner would have the lock by then
	case got := <-next:
		t.Fatalf("Acquire with a PollInterval of an hour: %v, %v", got.value, got.err)
	case <-time.After(2 * time.Second):
	}
	cancel()
	want(t, "Acquire whose context ended", receive(t, next).err, context.Canceled)
	lease = acquire(t, q.Mutex("m"))
	inBounds(t, "how long a lease lasts, by the first client's TTL", time.Until(lease.Deadline()), 0, 40*time.Second)
	release(t, lease)
}

func TestNewQuorumRefuses(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t)
	clients := e.clients()
	other := func(i int, change func(*holdfast.Config)) []*holdfast.Client {
		all := append([]*holdfast.Client(nil), clients...)
		all[i] = e.clients(change)[i]
		return all
	}
	for what, all := range map[string][]*holdfast.Client{
		"no clients":     nil,
		"two clients":    clients[:2],
		"a nil client":   {clients[0], nil, clients[2]},
		"a server twice": {clients[0], clients[1], clients[1]},
		"not Strict":     other(0, func(cfg *holdfast.Config) { cfg.Strict = false }),
		"another MaxTTL": other(1, func(cfg *holdfast.Config) { cfg.MaxTTL = 2 * time.Minute }),
		"Replicas":       other(2, func(cfg *holdfast.Config) { cfg.Durability.Replicas = 1 }),
		"Fsync":          other(2, func(cfg *holdfast.Config) { cfg.Durability.Fsync = true }),
	} {
		_, err := quorum.New(all, nil)
		want(t, what, err, holdfast.ErrInvalid)
	}
	_, err := quorum.New(clients, &quorum.Config{NodeTimeout: time.Microsecond})
	want(t, "a short NodeTimeout", err, holdfast.ErrInvalid)
	q, err := quorum.New(clients, nil)
	must(t, err)
	for what, l := range map[string]*holdfast.Lock{"no name": q.Mutex(""), "a TTL of 0": q.Mutex("m", holdfast.TTL(0)), "a TTL beyond MaxTTL": q.Mutex("m", holdfast.TTL(time.Hour))} {
		want(t, what, tryAcquire(t, l), holdfast.ErrInvalid)
	}
}
