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

// This file is what package voting uses of the engine besides the interfaces Lock and Lease: the lock on one node, the attempt to acquire
// it, and the lease that several such attempts make.

// NodeLock is a mutex on one node of a quorum.
type NodeLock struct{ l *Target }

// NodeLock returns the lock of that name on the client's server. Its owner is owner, unless an option names another.
func (c *Client) NodeLock(name, owner string, opts []kind.Option) *NodeLock {
	return &NodeLock{c.Mutex(name, append(append([]kind.Option{kind.Owner(owner)}, opts...), kind.AsVote())...)}
}

// AsElection returns the lock whose holders lead.
func (n *NodeLock) AsElection() *NodeLock {
	return &NodeLock{n.l.With(kind.Apart(kind.SeenAsElection))}
}

// Observed calls f, and tells observers of that as an acquire of the quorum's lock. f must pass its context to Waits.
func (n *NodeLock) Observed(ctx context.Context, try bool, f func(context.Context) (Lease, error)) (Lease, error) {
	o := n.l.c.observe(ctx, n.l, try)
	return o.end(f(o.within(ctx)))
}

// Waits tells observers, once, that the acquire with that context has to wait. refused is nil or the error of a try, which may name the
// holder.
func (n *NodeLock) Waits(ctx context.Context, ahead int, refused error) {
	n.l.c.observing(ctx).wait(ahead, holderIn(refused))
}

// Err returns what is wrong with the lock's name or options.
func (n *NodeLock) Err() error { return n.l.Set.Err }

// Key returns the lock's key.
func (n *NodeLock) Key() string { return n.l.Keys.Lock }

// Ref returns the lock as requests name it. It does not need to reach the node first, since a node is never a Cluster.
func (n *NodeLock) Ref() codec.Lock { return n.l.nodeRef() }

func (l *Target) nodeRef() codec.Lock {
	space := l.c.Space
	return codec.Lock{
		Keys:  codec.Keys{Lock: l.Keys.Lock, Queue: l.Keys.Queue, Fence: space.Fence(), CaughtUp: space.CaughtUp(), Mark: space.Incarnation()},
		Flags: l.c.NodeFlags,
	}
}

// CheckNesting returns ErrDeadlock if an acquire would wait for a lease that ctx carries.
func (n *NodeLock) CheckNesting(ctx context.Context) error {
	return n.l.CheckNesting(ctx)
}

// TTL returns the TTL of the lock's leases.
func (n *NodeLock) TTL() time.Duration { return n.l.Set.TTL }

// IsUnbounded reports whether a lease is renewed for as long as it is held.
func (n *NodeLock) IsUnbounded() bool { return n.l.Set.Unbounded() }

// IsPolled reports whether Poll must acquire the lock.
func (n *NodeLock) IsPolled() bool { return n.l.Set.PollInterval > 0 }

// Timeout returns how long to wait for a node whose round trip is short. given reports whether NodeTimeout set it.
func (n *NodeLock) Timeout() (d time.Duration, given bool) {
	return n.l.Set.NodeWait(), n.l.Set.NodeTimeout > 0
}

// SlowNodeGrace returns how long to wait for the other nodes once a majority, asked at begun, has answered.
func (n *NodeLock) SlowNodeGrace(begun time.Time) time.Duration { return n.l.Set.SlowNodeGrace(begun) }

// HolderOf returns the holder that the node's reply names.
func (n *NodeLock) HolderOf(h *codec.Holder) lock.Holder { return n.l.HolderOf(h) }

// LateError returns the error of a grant that had expired before it could count.
func (n *NodeLock) LateError() error {
	return &exec.Failure{Op: "acquire", Name: n.l.Name(), Server: n.l.c.Server.Addr(), Kind: exec.ErrUnavailable, Err: errLate}
}

// ClockJumpsError returns the error of a request for the lock if every copy of it arrived too late to be carried out.
func (n *NodeLock) ClockJumpsError() error { return n.l.ClockJumps("acquire") }

// Poll acquires the quorum's lock by calling try at the interval of the option Poll, until end unless that is zero.
func (n *NodeLock) Poll(ctx context.Context, end time.Time, try func(context.Context) (Lease, error)) (Lease, error) {
	return poll(ctx, n.l.c, n.l.Set, end, try)
}

// AcquireBy implements Lock.AcquireBy for the quorum's lock. When acquire returns ErrTimeUp, at end, holders returns who has the lock.
func (n *NodeLock) AcquireBy(ctx context.Context, end time.Time, acquire func(asking context.Context) (Lease, error), holders func(asking context.Context) ([]lock.Holder, error)) (Lease, error) {
	if end.IsZero() {
		return acquire(ctx)
	}
	return acquireBy(ctx, n.l.c, n.l.Name(), end, acquire, func(asking context.Context) (Lease, error) {
		return nil, heldBy(n.l.Name())(first(holders(asking)))
	})
}

// AskNode sends a request about the lock once, and waits for the answer until ctx ends. The request itself goes on for timeout, or for
// Config.CommandTimeout if that is longer, so that its connection stays open: making a new one takes longer than an answer, and would be
// given up as well.
func AskNode[R any](ctx context.Context, n *NodeLock, timeout time.Duration, op string, m codec.Request[R]) (reply R, sent clock.Instant, err error) {
	c := n.l.c
	a, err := exec.Try(ctx, c.Server, max(timeout, c.Config.CommandTimeout), func(ctx context.Context) (lock.Answer[R], error) {
		return lock.AskOnce(ctx, lock.Request{Op: op, Lock: &n.l.Lock}, m)
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

// NodeAttempt is one token's attempt to get a NodeLock. It ends with JoinNodes, JointLease.Add or Abandon.
type NodeAttempt struct {
	a   *attempt // &own, or the attempt of h
	own attempt
	h   *hold // nil until the lock is granted
}

// Attempt returns an attempt of a round at the node. Each attempt has its own token, so that a server with two addresses does not grant the
// lock twice.
func (n *NodeLock) Attempt(round string) *NodeAttempt {
	head := wire.HeadBegin + wire.Head(round) + wire.Head(lock.RandomText()[roundLength:]) + wire.HeadEnd
	v := &NodeAttempt{own: attempt{l: n.l, head: head, particulars: &nothingParticular}}
	v.a = &v.own
	return v
}

// Token returns the attempt's token.
func (v *NodeAttempt) Token() string { return v.a.token() }

// Request returns the request for the lock. No copy of it is carried out after notAfter, server time in µs.
func (v *NodeAttempt) Request(notAfter int64) codec.NodeAcquire {
	l := v.a.l
	return codec.NodeAcquire{Lock: l.nodeRef(), Token: v.Token(), TTL: l.Set.Term(), NotAfter: notAfter, Info: l.Set.Info}
}

// FreeVote is a request to a node for a lock by the node's own commands (docs/PROTOCOL.md, "Nodes of a quorum").
type FreeVote struct {
	v    *NodeAttempt
	p    *pipe.Pipe
	call *pipe.Call
	err  error
}

// AskFree asks the node once for the lock by the node's own commands, and returns at once. heard is called when the request is answered or
// has failed, unless Leave came first; it must not block. AskFree sends nothing and returns nil if the lock cannot be acquired that way
// now: for example, if somebody is known to hold it or to wait for it.
func (v *NodeAttempt) AskFree(heard func(*FreeVote)) *FreeVote {
	l, c := v.a.l, v.a.l.c
	p := c.Server.Pipe(l.Keys.Lock)
	// An election's watchers must see its fence at once.
	if p == nil || l.Set.SeenAs == kind.SeenAsElection || c.contended.has(l.Keys.Lock) || c.transactions.areAvoided() || c.scriptedUntil.Load() > int64(clock.Mono()) {
		return nil
	}
	f := &FreeVote{v: v, p: p, call: v.a.newCall(pipe.Vote)}
	f.call.CaughtUp, f.call.Mark, f.call.Quarantine = c.Space.CaughtUp(), c.Space.Incarnation(), c.Config.MinQuarantine()
	if !c.Server.StartOn(p, f.call, l.Slot(), func(err error) {
		f.err = err
		heard(f)
	}) {
		return nil
	}
	return f
}

// Leave stops waiting for a late answer, and returns an error. It returns false if the answer has come.
func (f *FreeVote) Leave() (left bool, err error) {
	left, sent := f.call.Leave()
	if !left {
		return false, nil
	}
	if f.err = context.DeadlineExceeded; !sent {
		f.err = exec.Unsent(f.err)
	}
	return true, f.unanswered()
}

// unanswered returns the error. It first notes the SET if the node may have carried that out, or still may.
func (f *FreeVote) unanswered() error {
	// mutants: vote-unanswered
	if exec.MayBeDone(f.err) {
		own := f.v.a.own()
		own.ghost, own.set = f.call.Expiry, f.call
	}
	return f.err
}

// IsGrant reports whether the answer is a grant that needs no further request, so that Take does not block.
func (f *FreeVote) IsGrant() bool {
	// mutants: vote-clear
	return f.err == nil && f.call.Done && f.call.Counts && f.call.Queues == 0 && f.v.a.l.isAsAsked(f.call)
}

// Take reads the answer. If the result is neither a grant nor an error, a script has to ask, with another attempt.
func (f *FreeVote) Take(ctx context.Context) error {
	v, call := f.v, f.call
	a, l, c := v.a, v.a.l, v.a.l.c
	// mutants: vote-transaction
	c.noteTransaction(call, f.err)
	switch {
	case f.err == nil && !call.Done:
		c.contended.add(l.Keys.Lock)
	case f.err == nil && call.Counts && l.isGrant(ctx, f.p, call):
		h, err := a.takesSet(call)
		if err == nil {
			v.has(h)
		}
		return err
	case f.err != nil && exec.MayBeDone(f.err):
		return f.unanswered()
	case call.IsSettled(): // but it is no grant, or only part of it was carried out
		// mutants: vote-scripted
		if !call.Counts {
			c.scriptedUntil.Store(int64(clock.Mono().Add(scriptedFor)))
		}
		if !call.Done {
			return nil
		}
		// mutants: vote-released
		a.owed = true
		if _, _, err := AskNode(ctx, &NodeLock{l}, 0, exec.OpRelease, &codec.Release{Lock: l.Ref(), Token: a.token()}); err != nil {
			return err
		}
		a.owed = false
	}
	return nil
}

// Trip returns how long the node took to answer.
func (f *FreeVote) Trip() time.Duration { return f.call.Heard.Mono.Sub(f.call.Sent.Mono) }

// scriptedFor is how long scripts ask for votes after a vote that did not count. The node may have replicas, be behind, or refuse one of
// the commands.
const scriptedFor = 10 * time.Second

// NodeGrant is what a node says about a lock that it grants.
type NodeGrant struct {
	Sent, Heard clock.Instant // when the request was sent, and when its reply was read
	Now         int64         // server time in the reply, µs
	TTL         time.Duration // negative: as asked for
	Fence       uint64
	Block       int64 // how many fences were granted
}

// Take records what the node has granted. It returns an error if the grant cannot count.
func (v *NodeAttempt) Take(g NodeGrant) error {
	v.a.owed = true
	h, err := v.a.takes(g.Sent, g.Heard, g.Now, g.TTL, g.Fence, g.Block)
	if err != nil {
		return err
	}
	v.has(h)
	v.a.l.c.contended.remove(v.a.l.Keys.Lock)
	return nil
}

func (v *NodeAttempt) has(h *hold) { v.h, v.a = h, &h.attempt }

// IsGranted reports whether the node has granted the lock.
func (v *NodeAttempt) IsGranted() bool { return v.h != nil }

// Fence returns the fence of a granted lock.
func (v *NodeAttempt) Fence() uint64 { return v.h.fence() }

// Expired reports whether the grant has expired.
func (v *NodeAttempt) Expired(now clock.Instant) bool { return v.h.expired(now) }

// NoteUnanswered notes an unanswered request, which the node may carry out until notAfter, server time in µs.
func (v *NodeAttempt) NoteUnanswered(notAfter int64) { v.a.sent(true, notAfter) }

// IsOwed reports whether the node has, or may have, something under the token.
func (v *NodeAttempt) IsOwed() bool { return v.a.owed }

// WhenSettled registers f to be called when the attempt has been given back. Functions that are registered later are called first. Nothing
// is given back unless IsOwed.
func (v *NodeAttempt) WhenSettled(f func()) {
	earlier := v.a.settled
	v.a.own().settled = func() {
		f()
		if earlier != nil {
			earlier()
		}
	}
}

// Abandon gives back, in the background, what the node has or may get under the token.
func (v *NodeAttempt) Abandon() { v.a.abandon() }
