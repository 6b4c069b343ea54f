// Package quorum provides mutexes that a majority of independent servers grants.
//
//	q, err := quorum.New(nodes, nil) // clients of 3 or 5 servers, each with Config.Strict
//	err = inspect.NewQuorum(q).Admit(ctx) // once, by hand, before the first acquire on new servers
//	err = q.Mutex("settlement").Do(ctx, settle)
package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/option"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/voting"
)

// Quorum hands out locks that a majority of independent servers agrees on (Redlock): with 5 nodes, while 3 do. So a lock
// outlives the loss of a minority, and no single server's loss of data makes two holders. Its fences rise without clocks,
// its leases are renewed, and a node counts for nothing after a restart until all earlier leases are over. See
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ for Redlock.
//
// All programs that share a lock name the same nodes. Each node is a standalone server, reached by a holdfast.Client with
// Config.Strict, all with one MaxTTL. A node that restarted, or was emptied, is in quarantine for MaxTTL, and then has its
// fence counter raised to that of a majority of the others; clients see to that. If a majority has restarted,
// nothing is granted until every node answers and has kept its data. New nodes are admitted with inspect.Inspector.Admit.
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
	// NodeTimeout bounds how long a node is waited for in one round: from 1 ms to a quarter of the TTL. Default: a 200th of
	// the TTL, but from 5 to 50 ms; or six times as long as the slowest node takes to answer, if that is longer. It doubles
	// with each round without a majority. It is never above a quarter of the TTL or holdfast.Config.CommandTimeout; a longer one is holdfast.ErrInvalid
	// when a lock is used.
	NodeTimeout time.Duration
}

// New returns the quorum of these clients' servers: 3 to 31, best an odd number, all Strict. With 4 nodes, as with 3,
// only one may be down: a majority of 4 is 3. The caller closes the clients after releasing the leases. Nothing is sent.
// Clients that do not fit together are holdfast.ErrInvalid: two for the same server, different values of MaxTTL, or Durability, in
// whose place a quorum has its nodes. Where their Configs may differ, the quorum has Observers, Identity, PollInterval,
// RetryTimeout and TTL from the first client. A nil cfg means the defaults.
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

// Mutex returns the lock of that name, which one holder has at a time. Processes are served in the order in which they began to
// wait, by the median of the nodes' clocks: from the second time that a waiter asks, later ones do not pass it, unless it is silent
// for 2 s. Waiters are not notified; they ask again after random times, 2 to 300 ms. Waiters of one process are served in order.
//
// TryAcquire returns holdfast.ErrHeld when a majority of nodes names the same holder. While others want the lock, too, and nobody has
// a majority, it tries again, for Config.RetryTimeout at most. An acquire that reaches no majority retries for the same time,
// and then fails with an *Error; so it does when ctx ends before that, and the error then also matches ctx's.
//
// Nodes that did not agree at first, or came back, are asked again while the lease lasts. The fence rises from lease to lease
// of the name, and is known to a majority before the lease is returned. Status goes by what a majority of nodes says; when
// nodes that do not answer could make one, it fails with an *Error.
func (q *Quorum) Mutex(name string, opts ...Option) *holdfast.Lock {
	o := option.Resolve(option.Set{Given: q.common}, opts)
	return access.NewLock(q.e().Mutex(name, o.Given...), o.Wait).(*holdfast.Lock)
}

// Nodes returns the servers that hold a lease of the quorum, by their latest answers, in alphabetical order; nil for another lease.
func (q *Quorum) Nodes(l *holdfast.Lease) []string { return q.e().Nodes(access.Lease(l)) }

// Error says that too few nodes agreed. It matches what any of its nodes' errors matches: holdfast.ErrUnavailable,
// ErrQuarantine, ErrDenied and so on; but not ErrHeld, which is returned when a majority names a holder.
type Error struct {
	Op    string // "acquire", "init", "inspect", "list", "list breaks", "break" or "revoke"
	Name  string // the lock's; of what is about many locks, their pattern
	Need  int    // nodes that must agree
	Of    int    // nodes
	Nodes []*NodeError

	of    error  // what internal/quorum returned, which knows if an election may go on
	task  string // as in exec.Failure
	ended error  // that of the caller's context, if it ended before a majority answered
}

func (e *Error) Error() string {
	text := fmt.Sprintf("holdfast: %s: too few nodes answered as they should; %d of %d have to", exec.TaskOf(e.task, e.Op, e.Name), e.Need, e.Of)
	before := ": "
	for _, n := range e.Nodes {
		text += before + strings.TrimPrefix(n.Error(), "holdfast: ")
		before = "; "
	}
	if e.ended != nil {
		text += before + e.ended.Error()
	}
	return text
}

// Unwrap returns the nodes' errors and, if it has ended, that of the caller's context.
func (e *Error) Unwrap() []error {
	var all []error
	if e.ended != nil {
		all = append(all, e.ended)
	}
	for _, n := range e.Nodes {
		all = append(all, n)
	}
	if e.of != nil {
		all = append(all, e.of)
	}
	return all
}

// NodeError is what one node of a quorum had to say.
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
		return e.Err.Error() // which names the server
	}
	return fmt.Sprintf("node %s: %v", e.Server, e.Err)
}

// Unwrap returns the node's error.
func (e *NodeError) Unwrap() error { return e.Err }

func init() {
	access.Quorum = func(q any) *voting.Quorum { return q.(*Quorum).e() }
	access.QuorumError = func(of *voting.Error) error {
		e := &Error{Op: of.Op, Name: of.Name, Need: of.Need, Of: of.Of, of: of, task: of.Task, ended: of.Ended()}
		for _, n := range of.Nodes {
			e.Nodes = append(e.Nodes, &NodeError{n.Server, access.Error(n.Err)})
		}
		return e
	}
}
