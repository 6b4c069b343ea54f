// Package quorum has the locks that a majority of independent servers grants: votes, rounds, and the repair of nodes that
// come back. A node is an engine.Client; its locks are engine.NodeLocks.
package quorum

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Quorum hands out locks that are held while a majority of independent servers, its nodes, agrees: with 5 nodes, while 3
// do. So a lock survives the loss of a minority, and no single server's loss of data leads to two holders. It is Redlock
// (https://redis.io/docs/latest/develop/use/patterns/distributed-locks/), with fences that rise, leases that are renewed,
// and nodes whose votes do not count after a restart until all earlier leases are over.
//
// All programs that share a lock name the same nodes. Each node is a standalone server, reached
// by a Client with Config.Strict, all with one MaxTTL. A node that restarted, or was emptied, is
// in quarantine for MaxTTL, and then has its fence counter raised to that of a majority of
// the others; clients see to that. Where a majority has restarted, all nodes have to answer for
// that, with their data. New nodes are admitted with Init.
type Quorum struct {
	clients []*engine.Client
	need    int

	repairing atomic.Bool // in the background

	mu      sync.Mutex
	turns   map[string]*turn // by key, of the locks that this process wants
	nodes   []node
	settled chan struct{}       // closed when the next probe of a node has ended
	hanging map[wish]int        // votes neither answered nor taken back
	given   map[string]struct{} // tokens of votes that are being given back
}

// maxNodes bounds a quorum.
const maxNodes = 31

// New returns the quorum of these clients' servers: 3 to 31. An even number is possible, but with
// 4 nodes, as with 3, only one may be down: a majority of 4 is 3. The caller closes the clients
// after releasing the leases. Nothing is sent.
func New(clients ...*engine.Client) (*Quorum, error) {
	n := len(clients)
	if n < 3 || n > maxNodes {
		return nil, fmt.Errorf("%w: a quorum of %d nodes is not possible; one of 3 to %d is", engine.ErrInvalid, n, maxNodes)
	}
	addresses := map[string]bool{}
	for _, c := range clients {
		switch {
		case c == nil:
			return nil, fmt.Errorf("%w: a client of the quorum is nil", engine.ErrInvalid)
		case !c.Config().Strict:
			return nil, fmt.Errorf("%w: the client of node %s is not Strict: it would grant at once after a restart that lost locks", engine.ErrInvalid, c.Server().Addr())
		case c.Config().MaxTTL != clients[0].Config().MaxTTL:
			return nil, fmt.Errorf("%w: nodes %s and %s have another Config.MaxTTL each", engine.ErrInvalid, clients[0].Server().Addr(), c.Server().Addr())
		case addresses[c.Server().Addr()]:
			return nil, fmt.Errorf("%w: node %s is named twice", engine.ErrInvalid, c.Server().Addr())
		}
		addresses[c.Server().Addr()] = true
	}
	// mutants: majority
	return &Quorum{clients: slices.Clone(clients), need: n/2 + 1, turns: map[string]*turn{}, nodes: make([]node, n), settled: make(chan struct{}), hanging: map[wish]int{}, given: map[string]struct{}{}}, nil
}

// Mutex returns the lock of that name, which one holder has at a time. It is used like any Lock. Waiters of one process are
// served in their order, and processes that wait in the order in which they began to; they ask again after random times, 2
// to 300 ms. TryAcquire returns ErrHeld when a majority of nodes names the same holder. While others want the lock, too,
// and nobody has a majority, it tries again, for Config.RetryTimeout at most. An acquire that reaches no majority retries
// for the same time, and then fails with an *Error; so it does when ctx ends before that, and the error then also matches
// ctx's.
//
// Nodes tells which servers agree. Nodes that did not at first, or came back, are asked again while
// the lease lasts. The fence rises from lease to lease of the name, and is known to a majority
// before the lease is returned.
//
// Status goes by what a majority of nodes says. When nodes that do not answer could make one, it
// fails with an *Error.
func (q *Quorum) Mutex(name string, opts ...engine.Option) engine.Lock { return q.newLock(name, opts) }

// Nodes returns the addresses of the servers that hold a lease of the quorum at the moment, in alphabetical order; none
// of another lease.
func (q *Quorum) Nodes(l engine.Lease) []string {
	own, is := l.(*lease)
	if !is || own.l.q != q {
		return nil
	}
	var all []string
	for _, c := range own.JointLease.Nodes() {
		all = append(all, c.Server().Addr())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// beginTask makes the Close of all clients wait until endTask is called.
func (q *Quorum) beginTask() {
	for _, c := range q.clients {
		c.Tasks().Begin()
	}
}

func (q *Quorum) endTask() {
	for _, c := range q.clients {
		c.Tasks().End()
	}
}
