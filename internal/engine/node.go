package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/pipe"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// This file has what package voting uses of the engine besides Lock, Lease and Target, which is the lock on one node: attempts to acquire
// that lock, and the lease that is made of several of them.

// NodeLock returns the lock of that name on the client's server, a node of a quorum. Its owner is owner, unless an option names another.
func (c *Client) NodeLock(name, owner string, opts []kind.Option) *Target {
	return c.Mutex(name, append(append([]kind.Option{kind.Owner(owner)}, opts...), kind.AsVote())...)
}

// Observed calls f, and tells observers of that as an acquire of the quorum's lock. f must pass its context to Waits.
func (l *Target) Observed(ctx context.Context, try bool, f func(context.Context) (Lease, error)) (Lease, error) {
	o, ctx := l.c.observe(ctx, l, try)
	return o.end(f(ctx))
}

// Waits tells observers, once, that the acquire with that context has to wait. refused is nil or a try's error, which may name the holder.
func (l *Target) Waits(ctx context.Context, ahead int, refused error) {
	l.c.observing(ctx).wait(ahead, holderIn(refused))
}

// NodeRef returns the node's lock as requests name it. It does not need to reach the node first, since a node is never a Cluster.
func (l *Target) NodeRef() codec.Lock {
	space := l.c.Space
	return codec.Lock{
		Keys:  codec.Keys{Lock: l.Keys.Lock, Queue: l.Keys.Queue, Fence: space.Fence, CaughtUp: space.CaughtUp, Mark: space.Incarnation},
		Flags: l.c.NodeFlags,
	}
}

// LateError returns the error of a grant that had expired before it could count.
func (l *Target) LateError() error {
	return &exec.Failure{Op: "acquire", Name: l.Name(), Server: l.c.Server.Addr(), Kind: exec.ErrUnavailable, Err: errLate}
}

// Poll acquires the quorum's lock by calling try at the interval of the option Poll, until end unless that is zero.
func (l *Target) Poll(ctx context.Context, end time.Time, try func(context.Context) (Lease, error)) (Lease, error) {
	return poll(ctx, l.c, l.Set, end, try)
}

// AcquireVotes implements Lock.AcquireBy for the quorum's lock. When acquire returns ErrTimeUp, at end, holder returns who has the lock.
func (l *Target) AcquireVotes(ctx context.Context, end time.Time, acquire func(asking context.Context) (Lease, error), holder func(asking context.Context) (lock.Holder, error)) (Lease, error) {
	return acquireBy(ctx, l.c, l.Name(), end, acquire, nil, holder)
}

// AskNode sends a request about the lock once, and waits for the answer until ctx ends. The request itself goes on for timeout, or for
// Config.CommandTimeout if that is longer, so that its connection stays open: making a new one takes longer than an answer, and would be
// given up as well.
func AskNode[R any](ctx context.Context, l *Target, timeout time.Duration, op string, m codec.Request[R]) (reply R, sent clock.Instant, err error) {
	c := l.c
	a, err := exec.Try(ctx, c.Server, max(timeout, c.Config.CommandTimeout), func(ctx context.Context) (lock.Answer[R], error) {
		return lock.AskOnce(ctx, lock.Request{Op: op, Lock: &l.Lock}, m)
	})
	return a.Reply, a.Sent, err
}

// roundLength is how many characters of a token name its round. All tokens of a round begin alike, including those by which its lease is
// later acquired on further nodes. Two nodes name the same holder if they name the same round. Nothing else in their answers can be
// compared, since the answers are not of the same moment.
const roundLength = 18

// NewRound names a round of attempts, one for each node.
func NewRound() string { return lock.RandomText()[:roundLength] }

// RoundOf returns the round of a token.
func RoundOf(token string) string { return token[:min(len(token), roundLength)] }

// NodeAttempt is one token's attempt to get a node's lock. It ends with JoinNodes, JointLease.Add or Abandon.
type NodeAttempt struct {
	*attempt       // that of h, once the lock is granted
	h        *hold // nil until the lock is granted

	// Of a request by the node's own commands.
	call *pipe.Call
	pipe *pipe.Pipe
	err  error // why the call failed
}

// Attempt returns an attempt of a round at the node. Each attempt has its own token, so that a server with two addresses does not grant the
// lock twice.
func (l *Target) Attempt(round string) *NodeAttempt {
	head := wire.HeadBegin + wire.Head(round) + wire.Head(lock.RandomText()[roundLength:]) + wire.HeadEnd
	return &NodeAttempt{attempt: &attempt{l: l, head: head, particulars: &nothingParticular}}
}

// Request returns the request for the lock. No copy of it is carried out after notAfter, server time in µs.
func (v *NodeAttempt) Request(notAfter int64) codec.NodeAcquire {
	return codec.NodeAcquire{Lock: v.l.NodeRef(), Token: v.Token(), TTL: v.l.Set.Term(), NotAfter: notAfter, Info: v.l.Set.Info}
}

// AskFree asks the node once for the lock by the node's own commands (docs/PROTOCOL.md, "Nodes of a quorum"), and returns at once. heard is
// called when the request is answered or has failed, unless Leave came first; it must not block. AskFree sends nothing and returns false if
// the lock cannot be acquired that way now: for example, if somebody is known to hold it or to wait for it.
func (v *NodeAttempt) AskFree(heard func()) bool {
	l, c := v.l, v.l.c
	v.pipe = c.Server.Pipe(l.Keys.Lock)
	// An election's watchers must see its fence at once.
	if v.pipe == nil || l.Set.SeenAs == kind.SeenAsElection || c.contended.has(l.Keys.Lock) || c.transactions.areAvoided() || c.scriptedUntil.Load() > int64(clock.Mono()) {
		return false
	}
	v.call = v.newCall(pipe.Vote)
	v.call.CaughtUp, v.call.Mark, v.call.Quarantine = c.Space.CaughtUp, c.Space.Incarnation, c.Config.MinQuarantine()
	return c.Server.StartOn(v.pipe, v.call, func(err error) {
		v.err = err
		heard()
	})
}

// Leave stops waiting for a late answer to AskFree, and returns an error. It returns false if the answer has come.
func (v *NodeAttempt) Leave() (left bool, err error) {
	left, sent := v.call.Leave()
	if !left {
		return false, nil
	}
	if v.err = context.DeadlineExceeded; !sent {
		v.err = exec.Unsent(v.err)
	}
	return true, v.unanswered()
}

// unanswered returns the call's error. It first notes the SET if the node may have carried that out, or still may.
func (v *NodeAttempt) unanswered() error {
	// mutants: vote-unanswered
	if exec.MayBeDone(v.err) {
		own := v.own()
		own.ghost, own.set = v.call.Expiry, v.call
	}
	return v.err
}

// IsGrant reports whether the call's answer is a grant that needs no further request, so that TakeFree does not block.
func (v *NodeAttempt) IsGrant() bool {
	// mutants: vote-clear
	return v.err == nil && v.call.Done && v.call.Counts && v.call.Queues == 0 && v.l.isGrant(context.Background(), v.pipe, v.call)
}

// TakeFree reads the call's answer. If the result is neither a grant nor an error, a script has to ask, with another attempt.
func (v *NodeAttempt) TakeFree(ctx context.Context) error {
	call, l, c := v.call, v.l, v.l.c
	// mutants: vote-transaction
	c.noteTransaction(call, v.err)
	switch {
	case v.err == nil && !call.Done:
		c.contended.add(l.Keys.Lock)
	case v.err == nil && call.Counts && l.isGrant(ctx, v.pipe, call):
		return v.has(v.takesSet(call))
	case v.err != nil && exec.MayBeDone(v.err):
		return v.unanswered()
	case call.IsSettled(): // but it is no grant, or only part of it was carried out
		// mutants: vote-scripted
		if !call.Counts {
			c.scriptedUntil.Store(int64(clock.Mono() + scriptedFor))
		}
		if !call.Done {
			return nil
		}
		// mutants: vote-released
		v.owed = true
		if _, _, err := AskNode(ctx, l, 0, exec.OpRelease, &codec.Release{Lock: l.Ref(), Token: v.Token()}); err != nil {
			return err
		}
		v.owed = false
	}
	return nil
}

// Trip returns how long the node took to answer the call.
func (v *NodeAttempt) Trip() time.Duration { return v.call.Heard.Mono - v.call.Sent.Mono }

// scriptedFor is how long scripts ask for votes after a vote that did not count. The node may have replicas, be behind, or refuse one of
// the commands.
const scriptedFor = 10 * time.Second

// Take records a node's reply that grants the lock, to a request that was sent at sent. It returns an error if the grant cannot count.
func (v *NodeAttempt) Take(sent clock.Instant, r codec.Reply) error {
	v.owed = true
	if err := v.has(v.takes(sent, clock.Now(), r.Now, r.TTL, r.Fence, 1)); err != nil {
		return err
	}
	v.l.c.contended.remove(v.l.Keys.Lock)
	return nil
}

func (v *NodeAttempt) has(h *hold, err error) error {
	if err == nil {
		v.h, v.attempt = h, &h.attempt
		h.queue = &waitQueue{l: h.l} // nobody waits in it: waiters for a quorum's lock take turns in package voting
	}
	return err
}

// IsGranted reports whether the node has granted the lock.
func (v *NodeAttempt) IsGranted() bool { return v.h != nil }

// Fence returns the fence of a granted lock.
func (v *NodeAttempt) Fence() uint64 { return v.h.first.fence }

// Expired reports whether the grant has expired.
func (v *NodeAttempt) Expired(now clock.Instant) bool { return v.h.expired(now) }

// NoteUnanswered notes an unanswered request, which the node may carry out until notAfter, server time in µs.
func (v *NodeAttempt) NoteUnanswered(notAfter int64) { v.sent(true, notAfter) }

// IsOwed reports whether the node has, or may have, something under the token.
func (v *NodeAttempt) IsOwed() bool { return v.owed }

// WhenSettled registers f to be called when the attempt has been given back. Functions that are registered later are called first. Nothing
// is given back unless IsOwed.
func (v *NodeAttempt) WhenSettled(f func()) {
	earlier := v.settled
	v.own().settled = func() {
		f()
		if earlier != nil {
			earlier()
		}
	}
}
