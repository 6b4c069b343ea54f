package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// nodeMutex is a mutex on one node of a quorum: a server that lost its data, or may have, grants and extends nothing.
var nodeMutex = single(kind{
	form: codec.HoldsMutex, flags: codec.Node, place: byName(""),
	batch: func(l *target, n int, notAfter int64) acquireBatch {
		b := codec.NewNodeBatchAcquire(n)
		lock := l.nodeRef()
		b.Flags, b.Keys, b.NotAfter = lock.Flags, lock.Keys, notAfter
		return &b
	},
	check: func(s *settings) error {
		if s.reentrant || s.replicas != 0 || s.fsync {
			return errors.New("Reentrant, MinReplicas, Fsync, Key and Redisson are not for locks of a Quorum")
		}
		return nil
	},
})

// Quorum hands out locks that are held while a majority of independent servers, its nodes,
// agrees: with 5 nodes, while 3 do. So a lock outlives the loss of a minority, and no single
// server's loss of data makes two holders. It is Redlock
// (https://redis.io/docs/latest/develop/use/patterns/distributed-locks/), with fences that
// rise, leases that are renewed, and nodes that count for nothing after a restart until all
// leases of before are over.
//
// All programs that share a lock name the same nodes. Each node is a standalone server, reached
// by a Client with Config.Strict, all with one MaxTTL. A node that restarted, or was emptied, is
// in quarantine for MaxTTL, and then has its fence counter raised to that of a majority of
// the others; clients see to that. Where a majority has restarted, all nodes have to answer for
// that, with their data. New nodes are admitted with Init.
type Quorum struct {
	clients []*Client
	need    int

	repairing atomic.Bool // in the background

	mu      sync.Mutex
	turns   map[string]*turn // of the names that this process wants
	nodes   []node
	settled chan struct{}       // closed when the next try to connect to a node has ended
	hanging map[wish]int        // votes that were not answered, and were not taken back yet
	given   map[string]struct{} // tokens of votes that are being given back
}

// wish is a lock that one node is asked for.
type wish struct {
	node int
	key  string
}

// maxHanging bounds how many votes for a lock may be unanswered before its node counts as
// away: one that hangs would cost a waiter more with every round. Above 1, so that a message
// that was lost does not keep a node out.
const maxHanging = 4

// node is what is known of one server.
type node struct {
	connecting chan struct{} // closed when that has ended; nil if it was not begun
	err        error         // of the latest try to connect
	trip       time.Duration // about how long it takes to answer; 0 if that is not known
}

// maxNodes bounds a quorum.
const maxNodes = 31

// NewQuorum returns the quorum of these clients' servers: 3 to 31. An even number is possible, but of
// 4 as of 3 one may be down: a majority of 4 is 3. The clients stay the caller's, to be closed
// after the leases were released. Nothing is sent.
func NewQuorum(clients ...*Client) (*Quorum, error) {
	n := len(clients)
	if n < 3 || n > maxNodes {
		return nil, fmt.Errorf("%w: a quorum of %d nodes is not possible; one of 3 to %d is", ErrInvalid, n, maxNodes)
	}
	addresses := map[string]bool{}
	for _, c := range clients {
		switch {
		case c == nil:
			return nil, fmt.Errorf("%w: a client of the quorum is nil", ErrInvalid)
		case !c.cfg.Strict:
			return nil, fmt.Errorf("%w: the client of node %s is not Strict: it would grant at once after a restart that lost locks", ErrInvalid, c.server.Addr())
		case c.cfg.MaxTTL != clients[0].cfg.MaxTTL:
			return nil, fmt.Errorf("%w: nodes %s and %s have another Config.MaxTTL each", ErrInvalid, clients[0].server.Addr(), c.server.Addr())
		case addresses[c.server.Addr()]:
			return nil, fmt.Errorf("%w: node %s is named twice", ErrInvalid, c.server.Addr())
		}
		addresses[c.server.Addr()] = true
	}
	// mutants: majority
	return &Quorum{clients: slices.Clone(clients), need: n/2 + 1, turns: map[string]*turn{}, nodes: make([]node, n), settled: make(chan struct{}), hanging: map[wish]int{}, given: map[string]struct{}{}}, nil
}

// NodeTimeout bounds how long a node of a Quorum is waited for in one round. From 1 ms to a
// quarter of the TTL. Default: a 200th of the TTL, 5 to 50 ms, and at least six times as long as the
// slowest node takes to answer; twice as long after each round without a majority; up to a
// quarter of the TTL, and Config.CommandTimeout.
func NodeTimeout(d time.Duration) Option {
	return func(s *settings) {
		if d < time.Millisecond {
			d = -1
		}
		s.nodeTimeout = d
	}
}

// patience is how long the others are waited for once a majority has answered that was asked then.
func (s *settings) patience(begun time.Time) time.Duration {
	return max(time.Since(begun), s.wait()/10, time.Millisecond)
}

// Mutex returns the lock of that name, which one holder has at a time. It is used like any
// Lock. Waiters of one process are served in their order, and processes that wait in the order
// in which they began to; they ask again after random times, 2 to 300 ms. TryAcquire returns
// ErrHeld when a majority of nodes names the same holder. While others want the lock, too, and
// nobody has a majority, it tries again, for Config.RetryTimeout at most. As long does an acquire
// that reaches no majority, before it fails with a *QuorumError; also with one when ctx ends
// before, which then matches ctx's error, too.
//
// Lease.Nodes tells which servers agree. Nodes that did not at first, or came back, are asked
// again while the lease lasts. Token rises from lease to lease of the name, and is known to a
// majority before the lease is returned.
//
// Holder, Holders and IsHeld go by what a majority of nodes says. When nodes that do not answer
// could make one, they fail with a *QuorumError.
func (q *Quorum) Mutex(name string, opts ...Option) Lock { return q.newLock(name, opts) }

// quorumLock is a lock that a majority of nodes grants. Its parts are the nodes', in their order.
type quorumLock struct {
	several
	q *Quorum
}

func (q *Quorum) newLock(name string, opts []Option) *quorumLock {
	// One owner on all nodes: clients that were not given one have another each.
	given := slices.Concat([]Option{func(s *settings) { s.owner = q.clients[0].cfg.Owner }}, opts,
		[]Option{func(s *settings) { s.kind, s.apart = &nodeMutex, true }})
	l := &quorumLock{several{name: name}, q}
	for _, c := range q.clients {
		l.parts = append(l.parts, c.newLock(name, given))
	}
	first := l.parts[0]
	l.c, l.set, l.err = first.c, first.set, first.set.err
	return l
}

// Key returns the key that the lock has on each node.
func (l *quorumLock) Key() string { return l.parts[0].keys.Lock }

// Acquire implements Lock.
func (l *quorumLock) Acquire(ctx context.Context) (Lease, error) {
	return l.AcquireBy(ctx, time.Time{})
}

// AcquireBy implements Lock.
func (l *quorumLock) AcquireBy(ctx context.Context, end time.Time) (Lease, error) {
	if end.IsZero() {
		return leased(l.acquire(ctx, end))
	}
	return acquireBy(ctx, l.c, l.name, end, func(asking context.Context) (Lease, error) { return leased(l.acquire(asking, end)) }, func(asking context.Context) (Lease, error) {
		return nil, heldBy(l.name)(first(l.Holders(asking)))
	})
}

func (l *quorumLock) acquire(ctx context.Context, end time.Time) (*multiLease, error) {
	l.c.tasks.Begin() // Close waits for what this brings
	defer l.c.tasks.End()
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	if l.set.pollInterval > 0 {
		return poll(ctx, l.c, l.set, end, l.try)
	}
	return l.q.acquire(ctx, l, end)
}

// TryAcquire implements Lock.
func (l *quorumLock) TryAcquire(ctx context.Context) (Lease, error) {
	l.c.tasks.Begin()
	defer l.c.tasks.End()
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	return leased(l.try(ctx))
}

func (l *quorumLock) try(ctx context.Context) (*multiLease, error) { return l.q.try(ctx, l) }

// Holders says who holds the lock on a majority of nodes; an error if that is open.
func (l *quorumLock) Holders(ctx context.Context) ([]Holder, error) { return l.q.holders(ctx, l) }

// ready refuses what cannot work before any I/O, and learns what the nodes are.
func (l *quorumLock) ready(ctx context.Context) error {
	if l.err != nil {
		return l.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.q.ready(ctx, l)
}

// Nodes returns the addresses of the servers that hold a lease of the quorum at the moment, in alphabetical order; none
// of another lease.
func (q *Quorum) Nodes(l Lease) []string {
	lease, several := l.(*multiLease)
	if !several || lease.quorum == nil || lease.quorum.q != q {
		return nil
	}
	return lease.nodes()
}

// Election returns the election of that name, which a majority of the nodes decides. Its options are those of the
// leader's lease, as of Mutex. Leaders do not announce themselves: Watch looks once a second.
func (q *Quorum) Election(name string, opts ...Option) *Election {
	l := q.newLock(name, opts)
	return &Election{l, quorumGround{l}}
}

// quorumGround is an election on a quorum.
type quorumGround struct{ l *quorumLock }

func (g quorumGround) ready(ctx context.Context) error { return g.l.ready(ctx) }

func (g quorumGround) mayPass(err error) bool { return g.l.q.curable(err) }

func (g quorumGround) isOutage(err error) bool { return g.l.q.curable(err) }

// announce does nothing: those who watch a quorum look once a second.
func (g quorumGround) announce() {}

// differ does not go by fences, of which each node counts its own.
func (g quorumGround) differ(a, b *Holder) bool {
	return a.Owner != b.Owner || a.Host != b.Host || a.PID != b.PID || a.Foreign != b.Foreign
}

func (g quorumGround) follow() (wait func(context.Context, bool, time.Duration) error, stop func(), err error) {
	return func(ctx context.Context, _ bool, _ time.Duration) error {
		select {
		case <-time.After(jitter(time.Second, 10)):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-g.closing():
			return exec.ErrClosed
		}
	}, func() {}, nil
}

func (g quorumGround) closing() <-chan struct{} { return g.l.c.closing }

// QuorumError says that too few nodes agreed, and what the others had to say. It matches
// what any of their errors matches: ErrUnavailable, ErrQuarantine, ErrPermission, ...; but not
// ErrHeld, which is what comes when a majority names a holder.
type QuorumError struct {
	Op    string // "acquire", "init", ...
	Name  string // the lock's
	Nodes []NodeError
	Need  int // so many have to agree
	Of    int // so many

	ended error // that of the caller's context, if it ended before a majority answered
}

// NodeError is what a node of a quorum had to say.
type NodeError struct {
	Server string // address, without credentials
	Err    error
}

func (e *QuorumError) Error() string {
	var all []string
	for _, n := range e.Nodes {
		all = append(all, n.Err.Error())
	}
	text := fmt.Sprintf("holdfast: %s %q: too few nodes answered as they should; %d of %d have to: %s", e.Op, e.Name, e.Need, e.Of, strings.Join(all, "; "))
	if e.ended != nil {
		text += "; " + e.ended.Error()
	}
	return text
}

// Ended returns the error of the caller's context, if it ended before a majority answered.
func (e *QuorumError) Ended() error { return e.ended }

// endedBy is the error of an acquire whose context has ended, after rounds in which that was met; or nothing.
func (e *QuorumError) endedBy(ctx context.Context) error {
	if e == nil {
		return ctx.Err()
	}
	ended := *e
	ended.ended = ctx.Err()
	return &ended
}

// Unwrap returns the nodes' errors and, if it has ended, that of the caller's context.
func (e *QuorumError) Unwrap() []error {
	var all []error
	if e.ended != nil {
		all = append(all, e.ended)
	}
	for _, n := range e.Nodes {
		all = append(all, n.Err)
	}
	return all
}

// turn is whose turn it is in this process to have a lock.
type turn struct {
	free chan struct{} // holds an item when it is nobody's
	refs int
}

// take waits for the process's turn to have the lock.
func (q *Quorum) take(ctx context.Context, key string, end time.Time) error {
	limit, stop := timeUp(end)
	defer stop()
	q.mu.Lock()
	t := q.turns[key]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		q.turns[key] = t
	}
	t.refs++
	q.mu.Unlock()
	select {
	case <-t.free:
		return nil
	case <-limit:
		q.leave(key)
		return errTimeUp
	case <-ctx.Done():
		q.leave(key)
		if isOver(end) {
			return errTimeUp
		}
		return ctx.Err()
	}
}

// pass gives the turn to the next.
func (q *Quorum) pass(key string) {
	q.mu.Lock()
	t := q.turns[key]
	q.mu.Unlock()
	t.free <- struct{}{}
	q.leave(key)
}

func (q *Quorum) leave(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.turns[key]
	t.refs--
	if t.refs == 0 {
		delete(q.turns, key)
	}
}

// ready waits until enough nodes are known to be there, or known not to be.
func (q *Quorum) ready(ctx context.Context, l *quorumLock) error {
	closed := 0
	for _, c := range q.clients {
		if c.isClosing() {
			closed++
		}
	}
	if closed > len(q.clients)-q.need {
		return exec.ErrClosed
	}
	for i := range q.clients {
		q.connect(i, l.name)
	}
	for {
		known, settled := 0, 0
		q.mu.Lock()
		next := q.settled
		for i, c := range q.clients {
			n := &q.nodes[i]
			switch {
			case c.server.Info() != nil:
				known++
				settled++
			case isDone(n.connecting):
				settled++
			}
		}
		q.mu.Unlock()
		if known >= q.need || settled == len(q.clients) {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func isDone(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// connect finds out what a node is, in the background, unless that is under way. It returns what
// is closed when that has ended; nil if it is known.
func (q *Quorum) connect(i int, name string) <-chan struct{} {
	c := q.clients[i]
	if c.server.Info() != nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := &q.nodes[i]
	if n.connecting != nil && !isDone(n.connecting) {
		return n.connecting
	}
	over := make(chan struct{})
	n.connecting = over
	c.tasks.Run(func() {
		server, err := exec.Try(context.Background(), c.server, c.cfg.CommandTimeout, c.server.Probe)
		if err == nil {
			q.observe(i, max(clock.Since(server.Sent)/probeTrips, 1))
			err = c.server.Use(server, name)
		} else {
			err = c.server.Failure(exec.OpReach, name, err)
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		n.err = err
		close(over)
		close(q.settled)
		q.settled = make(chan struct{})
	})
	return over
}

// probeTrips is how many round trips a probe takes on a new connection: TCP, a client's greeting, and two commands.
const probeTrips = 4

// errUnconnected is of a node that was not reached yet.
var errUnconnected = errors.New("it was not reached yet")

// reach waits until it is known what a node is. A majority may be known without it, and not grant.
func (q *Quorum) reach(ctx context.Context, i int, name string) error {
	over := q.connect(i, name)
	if over == nil {
		return nil
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
	if q.clients[i].server.Info() != nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.nodes[i].err; err != nil {
		return err
	}
	return errUnconnected
}

// askNode sends a request about a lock to its node i, once.
func askNode[R any](ctx context.Context, q *Quorum, i int, timeout time.Duration, rq request, m codec.Request[R]) (answer[R], error) {
	c := q.clients[i]
	if c.isClosing() {
		return answer[R]{}, exec.Unsent(exec.ErrClosed)
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := q.reach(waiting, i, rq.lock.name); err != nil {
		return answer[R]{}, exec.Unsent(err)
	}
	// The request goes on when nobody waits for its answer any more, so that its connection
	// stays: a new one takes longer than an answer, and would be given up as well.
	return exec.Try(waiting, c.server, max(timeout, c.cfg.CommandTimeout), func(ctx context.Context) (answer[R], error) {
		return askOnce(ctx, c, rq, m)
	})
}

// askNodes asks all nodes at once for which compose returns a request, and returns their replies by node.
func askNodes[R any](ctx context.Context, l *quorumLock, timeout time.Duration, op string, compose func(i int, p *target) codec.Request[R]) ([]R, []error) {
	q := l.q
	replies, errs := slices.Repeat([]R{*new(R)}, len(q.clients)), slices.Repeat([]error{errUnasked}, len(q.clients))
	var wg sync.WaitGroup
	for i, p := range l.parts {
		m := compose(i, p)
		if m == nil {
			continue
		}
		wg.Go(func() {
			var a answer[R]
			a, errs[i] = askNode(ctx, q, i, timeout, request{op: op, lock: p}, m)
			replies[i] = a.reply
		})
	}
	wg.Wait()
	return replies, errs
}

// errUnasked is of a node that was not asked.
var errUnasked = errors.New("not asked")

// shortOf is the error of too few answers.
func (q *Quorum) tooFew(op, name string, errs []error) error {
	e := &QuorumError{Op: op, Name: name, Need: q.need, Of: len(q.clients)}
	for i, err := range errs {
		if err == nil || err == errUnasked {
			continue
		}
		var known *exec.Failure
		if !errors.As(err, &known) && !errors.Is(err, exec.ErrClosed) {
			err = q.clients[i].server.Failure(op, name, err)
		}
		e.Nodes = append(e.Nodes, NodeError{q.clients[i].server.Addr(), err})
	}
	return e
}
