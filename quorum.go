package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/quorum"
)

// Quorum hands out locks that a majority of independent servers agrees on (Redlock): with 5 nodes, while 3 do. So a lock
// outlives the loss of a minority, and no single server's loss of data makes two holders. Its fences rise without clocks,
// its leases are renewed, and a node counts for nothing after a restart until all earlier leases are over. See
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ for Redlock.
//
// All programs that share a lock name the same nodes. Each node is a standalone server, reached by a Client with
// Config.Strict, all with one MaxTTL. A node that restarted, or was emptied, is in quarantine for MaxTTL, and then has its
// fence counter raised to that of a majority of the others; clients see to that. If a majority has restarted,
// nothing is granted until every node answers and has kept its data. New nodes are admitted with Admit.
type Quorum struct {
	e       *quorum.Quorum
	common  []engine.Option
	servers []string
}

// QuorumConfig is what the locks of one quorum share. A nil *QuorumConfig means the defaults.
type QuorumConfig struct {
	// NodeTimeout bounds how long a node is waited for in one round: from 1 ms to a quarter of the TTL. Default: a 200th of
	// the TTL, but from 5 to 50 ms; or six times as long as the slowest node takes to answer, if that is longer. It doubles
	// with each round without a majority. It is never above a quarter of the TTL or Config.CommandTimeout.
	NodeTimeout time.Duration
}

// NewQuorum returns the quorum of these clients' servers: 3 to 31, best an odd number, all Strict. With 4 nodes, as with 3,
// only one may be down: a majority of 4 is 3. The caller closes the clients after releasing the leases. Nothing is sent.
// Clients that do not fit together are ErrInvalid: two for the same server, different values of MaxTTL, or MinReplicas or
// Fsync, in whose place a quorum has its nodes. Where their Configs may differ, the quorum has Observers, Owner, PollInterval,
// RetryTimeout and TTL from the first client. A nil cfg means the defaults.
func NewQuorum(clients []*Client, cfg *QuorumConfig) (*Quorum, error) {
	nodes := make([]*engine.Client, len(clients))
	for i, c := range clients {
		if c == nil {
			return nil, fmt.Errorf("%w: a client of the quorum is nil", ErrInvalid)
		}
		if c.single {
			return nil, fmt.Errorf("%w: %s has Config.MinReplicas or Config.Fsync, which are not for the nodes of a quorum", ErrInvalid, c)
		}
		nodes[i] = c.e
	}
	e, err := quorum.New(nodes...)
	if err != nil {
		return nil, leave(err)
	}
	q := &Quorum{e: e, common: slices.Clone(clients[0].poll)}
	for _, n := range nodes {
		q.servers = append(q.servers, n.Server().Addr())
	}
	if cfg != nil && cfg.NodeTimeout != 0 {
		if cfg.NodeTimeout < time.Millisecond {
			return nil, fmt.Errorf("%w: a QuorumConfig.NodeTimeout of %s is not possible; at least 1ms is needed", ErrInvalid, cfg.NodeTimeout)
		}
		q.common = append(q.common, engine.NodeTimeout(cfg.NodeTimeout))
	}
	return q, nil
}

// Mutex returns the lock of that name, which one holder has at a time. Processes are served in the order in which they began to
// wait, by the median of the nodes' clocks: from the second time that a waiter asks, later ones do not pass it, unless it is silent
// for 2 s. Waiters are not notified; they ask again after random times, 2 to 300 ms. Waiters of one process are served in order.
//
// TryAcquire returns ErrHeld when a majority of nodes names the same holder. While others want the lock, too, and nobody has
// a majority, it tries again, for Config.RetryTimeout at most. An acquire that reaches no majority retries for the same time,
// and then fails with a *QuorumError; so it does when ctx ends before that, and the error then also matches ctx's.
//
// Nodes that did not agree at first, or came back, are asked again while the lease lasts. The fence rises from lease to lease
// of the name, and is known to a majority before the lease is returned. Status goes by what a majority of nodes says; when
// nodes that do not answer could make one, it fails with a *QuorumError.
func (q *Quorum) Mutex(name string, opts ...QuorumOption) *Lock {
	o := resolve(options{given: q.common}, opts)
	return &Lock{q.e.Mutex(name, o.given...), o.wait}
}

// Election returns the election of that name, which a majority of the nodes decides. Its options are those of the leader's
// lease. Leaders do not announce themselves: Watch looks once a second. MinReplicas and Fsync are ErrInvalid.
func (q *Quorum) Election(name string, opts ...ElectionOption) *Election {
	return &Election{q.e.Election(name, resolve(options{given: q.common}, opts).given...)}
}

// Admit admits new nodes: all of them have to be there. Run it by hand, once for a new quorum, and again after a majority has
// restarted and lost its data, for which the others cannot vouch. A node that is replaced, or comes back empty, while a
// majority goes on, needs a quarantine, but no Admit.
//
// If another node was admitted earlier, a node that looks new may have lost its locks. Admit leaves it in quarantine, does
// not wait for the end of that, and returns a *QuorumError that matches ErrQuarantine and names the node: call it again then.
func (q *Quorum) Admit(ctx context.Context) error { return leave(q.e.Init(ctx, false)) }

// ForceAdmit is Admit, and ends the quarantine of nodes that were known: use it only if no holder can still rely on an
// earlier lease.
func (q *Quorum) ForceAdmit(ctx context.Context) error { return leave(q.e.Init(ctx, true)) }

// Nodes returns the servers that hold a lease of the quorum at the moment, in alphabetical order; nil for another lease.
func (q *Quorum) Nodes(l *Lease) []string { return q.e.Nodes(l.e) }

// String names the quorum's servers, without credentials.
func (q *Quorum) String() string { return "holdfast.Quorum(" + strings.Join(q.servers, ", ") + ")" }

// QuorumError says that too few nodes agreed. It matches what any of its nodes' errors matches: ErrUnavailable,
// ErrQuarantine, ErrDenied and so on; but not ErrHeld, which is returned when a majority names a holder.
type QuorumError struct {
	Op    string // "acquire", "init", "inspect", "list", "list breaks", "break" or "revoke"
	Name  string // the lock's; of what is about many locks, their pattern
	Need  int    // nodes that must agree
	Of    int    // nodes
	Nodes []*NodeError

	task  string // as in exec.Failure
	ended error  // that of the caller's context, if it ended before a majority answered
}

func (e *QuorumError) Error() string {
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
func (e *QuorumError) Unwrap() []error {
	var all []error
	if e.ended != nil {
		all = append(all, e.ended)
	}
	for _, n := range e.Nodes {
		all = append(all, n)
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
	var told *ServerError
	if errors.As(e.Err, &told) {
		return e.Err.Error() // which names the server
	}
	return fmt.Sprintf("node %s: %v", e.Server, e.Err)
}

// Unwrap returns the node's error.
func (e *NodeError) Unwrap() error { return e.Err }
