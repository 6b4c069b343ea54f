// Package quorum provides mutexes that a majority of independent servers grants.
//
//	q, err := quorum.New(nodes, nil) // clients of 3 or 5 servers, each with Config.Strict
//	err = inspect.NewQuorum(q).Admit(ctx) // once, by hand, before the first acquire on new servers
//	err = q.Mutex("settlement").Do(ctx, settle)
package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/option"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/voting"
)

// Quorum provides locks that a majority of independent servers agrees on (Redlock): with 5 nodes, at least 3. A lock thus outlives the loss
// of a minority, and the loss of one server's data does not make two holders. Its fences rise without clocks, its leases are renewed, and a
// node counts for nothing after a restart until all earlier leases are over. See
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ for Redlock.
//
// All programs that share a lock must use the same nodes. Each node is a standalone server, reached by a holdfast.Client with
// Config.Strict; all clients have the same MaxTTL. A node that has restarted, or was emptied, is in quarantine for MaxTTL. Then clients
// raise its fence counter to that of a majority of the others. If a majority has restarted, nothing is granted until every node answers and
// has kept its data. New nodes are admitted with inspect.Inspector.Admit.
type Quorum struct {
	handle
	common []kind.Option
}

type handle = printable.Handle[*voting.Quorum]

func (q *Quorum) e() *voting.Quorum { return printable.Of(q.handle) }

// Option is an option of a quorum's Mutex: one of package holdfast that fits, such as TTL or Wait.
type Option interface{ option.Quorum }

// Config is what the locks of one quorum share. A nil *Config means the defaults.
type Config struct {
	// NodeTimeout bounds how long one round waits for a node: from 1 ms to a quarter of the TTL. A longer one is holdfast.ErrInvalid when a
	// lock is used. The default is a 200th of the TTL, from 5 to 50 ms, or six times as long as the slowest node takes to answer, if that
	// is longer. It doubles after each round without a majority, up to a quarter of the TTL and holdfast.Config.CommandTimeout.
	NodeTimeout time.Duration
}

// New returns the quorum of these clients' servers: 3 to 31, best an odd number, all Strict. With 4 nodes, as with 3, only one may be down:
// a majority of 4 is 3. The caller closes the clients after releasing the leases. A nil cfg means the defaults. New sends nothing.
//
// New returns holdfast.ErrInvalid if two clients have the same address (a server that has two counts once) or different values of MaxTTL,
// or if one has Durability, for which a quorum has its nodes. Where other settings of the clients differ, the quorum takes Observers,
// Identity, PollInterval, RetryTimeout and TTL from the first client.
func New(clients []*holdfast.Client, cfg *Config) (*Quorum, error) {
	nodes := make([]*engine.Client, len(clients))
	var common []kind.Option
	for i, c := range clients {
		if c == nil {
			return nil, fmt.Errorf("%w: a client of the quorum is nil", holdfast.ErrInvalid)
		}
		parts := access.Client(c)
		if len(parts.Durable) > 0 {
			return nil, fmt.Errorf("%w: %s has Config.Durability, which is not for the nodes of a quorum", holdfast.ErrInvalid, c)
		}
		if nodes[i] = parts.Engine; i == 0 {
			common = slices.Clone(parts.Poll)
		}
	}
	e, err := voting.New(nodes...)
	if err != nil {
		return nil, access.Error(err)
	}
	if cfg != nil && cfg.NodeTimeout != 0 {
		if cfg.NodeTimeout < time.Millisecond {
			return nil, fmt.Errorf("%w: a Config.NodeTimeout of %s is not possible; at least 1ms is needed", holdfast.ErrInvalid, cfg.NodeTimeout)
		}
		common = append(common, kind.NodeTimeout(cfg.NodeTimeout))
	}
	return &Quorum{printable.NewHandle(e), common}, nil
}

// Mutex returns the lock of that name, which one holder has at a time. Processes are served in the order in which they began to wait, by
// the median of the nodes' clocks: once a waiter has asked twice, later ones do not pass it unless it is silent for 2 s. Waiters are not
// notified; they ask again after random times, 2 to 300 ms. Waiters of one process are served in order.
//
// TryAcquire returns holdfast.ErrHeld when a majority of nodes names the same holder. While others want the lock, too, and nobody has a
// majority, it tries again for up to Config.RetryTimeout. An acquire that reaches no majority retries for the same time, and then fails
// with an *Error. If ctx ends earlier, the acquire fails then, and the *Error also matches ctx's error.
//
// Nodes that did not agree at first, or came back, are asked again while the lease lasts. The fence rises with each lease of the name, and
// a majority knows it before the lease is returned. Status reports what a majority of nodes says. It fails with an *Error if the nodes that
// do not answer could make a majority.
func (q *Quorum) Mutex(name string, opts ...Option) *holdfast.Lock {
	o := option.Resolve(option.Set{Given: q.common}, opts)
	return access.NewLock(q.e().Mutex(name, o.Given...), o.Wait).(*holdfast.Lock)
}

// Nodes returns the servers that hold a lease of the quorum, by their latest answers, in alphabetical order. It returns nil for another
// lease.
func (q *Quorum) Nodes(l *holdfast.Lease) []string { return q.e().Nodes(access.Lease(l)) }

// Error says that too few nodes agreed. It matches what any of its nodes' errors matches, such as holdfast.ErrUnavailable, ErrQuarantine or
// ErrDenied. It does not match ErrHeld, which is returned if a majority names a holder.
type Error struct {
	Op    string // "acquire", "init", "inspect", "list", "list breaks", "break" or "revoke"
	Name  string // of the lock or, for an operation about many locks, their pattern
	Need  int    // how many nodes must agree
	Of    int    // how many nodes there are
	Nodes []*NodeError

	of *voting.Error // the error that this one translates: it knows whether an election may go on, and whether the caller's context ended
}

func (e *Error) Error() string {
	return voting.TextOf(cmp.Or(e.of, &voting.Error{Op: e.Op, Name: e.Name, Need: e.Need, Of: e.Of}), e.Nodes)
}

// Unwrap returns the nodes' errors and, if the caller's context has ended, its error.
func (e *Error) Unwrap() []error {
	var all []error
	for _, n := range e.Nodes {
		all = append(all, n)
	}
	if e.of != nil {
		all = append(all, e.of)
	}
	return all
}

// NodeError is the error of one node of a quorum.
type NodeError struct {
	Server string // its address, without credentials
	Err    error
}

func (e *NodeError) Error() string {
	if e.Err == nil {
		return "node " + e.Server
	}
	var told *holdfast.ServerError
	if errors.As(e.Err, &told) {
		return e.Err.Error() // the text names the server
	}
	return fmt.Sprintf("node %s: %v", e.Server, e.Err)
}

// Unwrap returns the node's error.
func (e *NodeError) Unwrap() error { return e.Err }

func init() {
	access.Quorum = func(q any) *voting.Quorum { return q.(*Quorum).e() }
	access.QuorumError = func(of *voting.Error) error {
		e := &Error{Op: of.Op, Name: of.Name, Need: of.Need, Of: of.Of, of: of}
		for _, n := range of.Nodes {
			e.Nodes = append(e.Nodes, &NodeError{n.Server, access.Error(n.Err)})
		}
		return e
	}
}
