// Package voting provides the locks that a majority of independent servers grants: votes, rounds, and the repair of nodes that come back. A
// node is an engine.Client; its locks are engine.Targets.
package voting

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// Quorum is the API's quorum.Quorum: what is known of its nodes, and which of this process's goroutines want its locks.
type Quorum struct {
	clients []*engine.Client
	need    int

	repairing atomic.Bool // a repair runs in the background
	// partial says that not all nodes voted for the latest lease. Votes are then asked for by script. Fences of the nodes' own commands
	// come from their clocks, so unless all nodes vote, it takes a second round to agree on one; scripts count fences one by one.
	partial atomic.Bool

	mu      sync.Mutex
	turns   map[string][]chan struct{} // by key, for the locks that this process wants: of those who wait for their turn
	nodes   []node
	settled chan struct{} // closed when the next probe of a node ends
	hanging map[wish]int  // counts votes that were neither answered nor taken back

	returning sync.Map // has the tokens of votes that are being given back
}

// maxNodes bounds the nodes of a quorum.
const maxNodes = 31

// New returns the quorum of these clients' servers: 3 to 31. Their number may be even, but with 4 nodes, as with 3, only one may be down: a
// majority of 4 is 3. The caller closes the clients after releasing the leases. New sends nothing.
func New(clients ...*engine.Client) (*Quorum, error) {
	n := len(clients)
	if n < 3 || n > maxNodes {
		return nil, fmt.Errorf("%w: a quorum of %d nodes is not possible; one of 3 to %d is", lock.ErrInvalid, n, maxNodes)
	}
	addresses := map[string]bool{}
	for _, c := range clients {
		switch {
		case !c.Config.Strict:
			return nil, fmt.Errorf("%w: the client of node %s is not Strict: it would grant at once after a restart that lost locks", lock.ErrInvalid, c.Server.Addr())
		case c.Config.MaxTTL != clients[0].Config.MaxTTL:
			return nil, fmt.Errorf("%w: nodes %s and %s have another Config.MaxTTL each", lock.ErrInvalid, clients[0].Server.Addr(), c.Server.Addr())
		case addresses[c.Server.Addr()]:
			return nil, fmt.Errorf("%w: node %s is named twice", lock.ErrInvalid, c.Server.Addr())
		}
		addresses[c.Server.Addr()] = true
	}
	// mutants: majority
	q := &Quorum{clients: slices.Clone(clients), need: n/2 + 1}
	q.turns, q.nodes, q.settled, q.hanging = map[string][]chan struct{}{}, make([]node, n), make(chan struct{}), map[wish]int{}
	return q, nil
}

func (q *Quorum) Mutex(name string, opts ...kind.Option) engine.Lock { return q.newLock(name, opts) }

// Nodes returns the addresses of the servers that currently hold a lease of the quorum, in alphabetical order. It returns none for another
// lease.
func (q *Quorum) Nodes(l engine.Lease) []string {
	own, is := l.(*lease)
	if !is || own.l.q != q {
		return nil
	}
	var all []string
	for _, c := range own.JointLease.Nodes() {
		all = append(all, c.Server.Addr())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// beginTask makes Close of all clients wait until endTask is called.
func (q *Quorum) beginTask() {
	for _, c := range q.clients {
		c.Tasks.Begin()
	}
}

func (q *Quorum) endTask() {
	for _, c := range q.clients {
		c.Tasks.End()
	}
}

// String names the quorum's servers, without credentials.
func (q *Quorum) String() string {
	var servers []string
	for _, c := range q.clients {
		servers = append(servers, c.Server.Addr())
	}
	return "quorum.Quorum(" + strings.Join(servers, ", ") + ")"
}
