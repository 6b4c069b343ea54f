package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// vote is what one node answered to who wants a lock.
type vote struct {
	node   int
	a      *attempt
	g      *hold   // nil if it did not grant
	holder *Holder // who has it instead; nil if that is an attempt of this process that is being given back
	theirs string  // the round by which the holder got it
	said   bool    // it granted, or said why the lock is not to be had
	ahead  int     // how many with earlier tickets wait at the node
	behind string  // how it stands, if its fence counter has to be raised before it grants
	err    error   // why it did neither
}

// acquire takes the lock, trying again while others have it.
func (q *Quorum) acquire(ctx context.Context, l *quorumLock, end time.Time) (*multiLease, error) {
	key := l.parts[0].keys.Lock
	if err := q.take(ctx, key, end); err != nil {
		return nil, err
	}
	lease, err := q.contend(ctx, l, true, end, func() { q.pass(key) })
	if lease == nil {
		q.pass(key)
	}
	return lease, err
}

// try takes the lock if nobody has it.
func (q *Quorum) try(ctx context.Context, l *quorumLock) (*multiLease, error) {
	return q.contend(ctx, l, false, time.Time{}, nil)
}

// curable reports whether a majority may be had later: too few nodes refuse for good.
func (q *Quorum) curable(err error) bool {
	var e *QuorumError
	if !errors.As(err, &e) {
		return false
	}
	lost := 0
	for _, n := range e.Nodes {
		var se *exec.Failure
		kind := exec.KindOf(n.Err)
		switch {
		case errors.As(n.Err, &se) && se.Op == exec.OpReach && exec.Hopeless(n.Err), kind != exec.ErrQuarantine && !exec.Temporary(kind) && !errors.As(n.Err, new(contestedError)):
			lost++
		}
	}
	return lost <= len(q.clients)-q.need
}

// quarantined reports whether waiting will bring a majority.
func (q *Quorum) quarantined(err error) bool {
	var e *QuorumError
	if !errors.As(err, &e) || errors.Is(err, exec.ErrUninitialised) {
		return false
	}
	away := 0
	for _, n := range e.Nodes {
		if !errors.Is(n.Err, exec.ErrQuarantine) {
			away++
		}
	}
	return away <= len(q.clients)-q.need && away < len(e.Nodes)
}

// begin has all clients that are closed wait for what is under way, until end.
func (q *Quorum) begin() {
	for _, c := range q.clients {
		c.tasks.Begin()
	}
}

func (q *Quorum) end() {
	for _, c := range q.clients {
		c.tasks.End()
	}
}

// round asks every node once.
func (b *bid) round(ctx context.Context) (*multiLease, []vote, error) {
	q, l := b.q, b.l
	q.begin() // a vote is a lock, which is to be taken back or held
	defer q.end()
	p := b.poll(ctx)
	for !p.enough() && p.wait(ctx) {
	}
	votes, open := p.end()
	if open > 0 {
		q.begin()
		l.c.tasks.Run(func() {
			defer q.end()
			for _, v := range p.await(len(votes)) {
				q.giveBack(v)
			}
		})
	}
	var granted []vote
	for _, v := range votes {
		if v.g != nil {
			granted = append(granted, v)
		}
	}
	lease, err := b.elect(ctx, p.round, votes, granted)
	for _, v := range votes {
		if err != nil || v.g == nil {
			q.giveBack(v)
		}
	}
	return lease, votes, err
}

// giveBack gives up what a node granted, or may have. Until that is done the node may name it as the holder.
func (q *Quorum) giveBack(v vote) {
	if v.a.owed {
		token, settled := v.a.token(), v.a.settled
		q.noteReturning(token, true)
		v.a.settled = func() {
			q.noteReturning(token, false)
			if settled != nil {
				settled()
			}
		}
	}
	v.a.abandon()
}

// roundLength is how much of a token names its round. The tokens of one round begin with it, and so do those with
// which a lease that it brought is taken on further nodes: whether nodes name the same holder shows by that alone, since
// what they say was not said at the same moment.
const roundLength = 18

// newRound names a round.
func newRound() string { return randomText()[:roundLength] }

// newVote is an attempt of a round at a node. It has a token of its own: a server that has two addresses does not
// grant twice.
func (l *target) newVote(round string) *attempt {
	return &attempt{l: l, head: wire.HeadBegin + wire.Head(round+randomText()[roundLength:]) + wire.HeadEnd, queueEntry: &noEntry}
}

// vote asks one node for the lock.
func (q *Quorum) vote(ctx context.Context, l *quorumLock, i int, round string, terms terms) vote {
	v := vote{node: i, a: l.parts[i].newVote(round)}
	if !q.answers(wish{i, l.parts[i].keys.Lock}) {
		v.err = exec.Unsent(errHangs)
		return v
	}
	return q.askAlone(ctx, l, v, terms)
}

// askAlone asks a node for the lock by itself.
func (q *Quorum) askAlone(ctx context.Context, l *quorumLock, v vote, terms terms) vote {
	p := l.parts[v.node]
	c := p.c
	var a answer[codec.NodeAcquireReply]
	// Again, if it was late: what is known of a node's clock is as old as its last answer.
	for n := 0; n < 2 && (n == 0 || a.reply.Word == codec.Late); n++ {
		notAfter := p.nodeNotAfter(terms.timeout)
		if err := ctx.Err(); err != nil {
			v.err = exec.Unsent(err)
			return v
		}
		place, keep := terms.shown()
		var err error
		a, err = askNode(ctx, q, v.node, terms.timeout, request{op: "acquire", lock: p}, &codec.NodeAcquire{
			Lock: p.nodeRef(), Token: v.a.token(), TTL: p.set.term(), NotAfter: notAfter, Info: p.set.info, Ticket: place, Keep: keep,
		})
		if err != nil {
			return q.unanswered(v, err, notAfter)
		}
		q.observe(v.node, clock.Since(a.sent))
	}
	switch reply := &a.reply; reply.Word {
	case codec.Granted:
		v.a.owed = true
		v.g, v.err = v.a.granted(a.sent, clock.Now(), reply.Now, reply.Grant.TTL, reply.Grant.Fence, reply.Grant.Block)
		v.said = v.g != nil
		if p.plain() {
			c.batches.note(p, false)
		}
	case codec.Held:
		v.said, v.ahead = true, reply.Ahead
		if token := reply.Holder.Value.Token; !q.isReturning(token) {
			h := p.holderOf(&reply.Holder)
			v.holder, v.theirs = &h, token[:min(len(token), roundLength)]
		}
	case codec.Wanted:
		v.said, v.ahead = true, reply.Ahead
	case codec.Quarantined, codec.Behind:
		return q.declined(l, v, reply.Refusal)
	case codec.Late, codec.Gone:
		v.err = p.clockJumps("acquire")
	}
	return v
}

// nodeNotAfter is the server's time past which no copy of a vote that is asked for now is carried
// out.
func (l *target) nodeNotAfter(timeout time.Duration) int64 {
	return l.c.server.Time(0) + (timeout + time.Second).Microseconds()
}

// unanswered is the vote of a node that was asked with that not-after, and answered with an error, or
// not at all.
func (q *Quorum) unanswered(v vote, err error, notAfter int64) vote {
	if outcome, _ := exec.Classify(err); outcome == exec.Unknown {
		w := wish{v.node, v.a.l.keys.Lock}
		v.a.sent(true, notAfter)
		q.noteHanging(w, 1)
		v.a.settled = func() { q.noteHanging(w, -1) }
	}
	v.err = err
	return v
}

// declined is the vote of a node that grants nothing now.
func (q *Quorum) declined(l *quorumLock, v vote, why codec.Refusal) vote {
	v.behind = why.Stands
	v.err = q.refusal("acquire", l, v.node, why)
	return v
}

// refusal is the error of a node that grants nothing now.
func (q *Quorum) refusal(op string, l *quorumLock, i int, why codec.Refusal) error {
	if why.Stands != "" {
		return q.isBehind(op, i, l, exec.ErrQuarantine, errBehind)
	}
	return q.clients[i].quarantineError(op, l.name, why.Quarantine)
}

// errHangs is of a node that has not answered for too long to be asked for more.
var errHangs = errors.New("earlier requests for the lock are unanswered still")

// answers reports whether it makes sense to ask a node for a lock.
func (q *Quorum) answers(w wish) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hanging[w] < maxHanging
}

// returning notes that what has this token is being given back, or was.
func (q *Quorum) noteReturning(token string, is bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if is {
		q.given[token] = struct{}{}
	} else {
		delete(q.given, token)
	}
}

// returns reports whether what has this token is being given back.
func (q *Quorum) isReturning(token string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, is := q.given[token]
	return is
}

// hang counts votes that are not answered.
func (q *Quorum) noteHanging(w wish, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hanging[w] += n
	if q.hanging[w] == 0 {
		delete(q.hanging, w)
	}
}

// errBehind is of a node that restarted, or is new.
var errBehind = errors.New("it has restarted, and has not been told yet which fences the others have granted")

// errTogether is of a node that restarted together with a majority, of which not all have answered yet.
var errTogether = errors.New("it has restarted together with a majority, and is told the fences once all nodes answer")

// errNew is of a node that is as new as a majority.
var errNew = errors.New("it is new, or has lost its data, or a majority has restarted of which a node has")

func (q *Quorum) isBehind(op string, i int, l *quorumLock, kind, err error) error {
	return &exec.Failure{Op: op, Name: l.name, Server: q.clients[i].server.Addr(), Kind: kind, Err: err}
}

// elect makes a lease of the votes of a round, if there are enough.
func (b *bid) elect(ctx context.Context, round string, votes, granted []vote) (*multiLease, error) {
	q, l := b.q, b.l
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(granted) < q.need {
		return nil, q.refused(l, votes)
	}
	fence, err := q.agree(ctx, l, b.timeout, granted)
	if err != nil {
		return nil, err
	}
	// A node counts for the fence while nobody else can have been granted it since, nor can it
	// serve again after a loss of its counter: until the grant's deadline.
	now := clock.Now()
	if slices.ContainsFunc(granted, func(v vote) bool { return v.g.expired(now) }) {
		return nil, q.late(l)
	}
	parts := make([]*holdLease, len(granted))
	for i, v := range granted {
		parts[i] = v.g.begin(ctx)
	}
	all := &multiLease{of: &l.several, quorum: l, need: q.need, fence: fence, round: round}
	var refilling atomic.Bool
	if l.set.unbounded() {
		all.onLoss = func() {
			if refilling.CompareAndSwap(false, true) {
				l.c.tasks.Run(func() { q.refill(all, &refilling) })
			}
		}
	}
	lease := all.begin(ctx, parts)
	if !all.notify(b.onEnd) {
		err := all.Err()
		_ = lease.Release(context.Background()) // its nodes have leases, for which Close would wait
		if errors.Is(err, exec.ErrClosed) {
			return nil, exec.ErrClosed
		}
		return nil, q.late(l)
	}
	if len(parts) < len(q.clients) && all.onLoss != nil {
		all.onLoss()
	}
	return lease, nil
}

// late is the error of a round that took longer than its grants last.
func (q *Quorum) late(l *quorumLock) error {
	return &QuorumError{Op: "acquire", Name: l.name, Need: q.need, Of: len(q.clients), Nodes: []NodeError{{
		l.c.server.Addr(), &exec.Failure{Op: "acquire", Name: l.name, Server: l.c.server.Addr(), Kind: exec.ErrUnavailable, Err: errLate},
	}}}
}

// refused says why too few nodes granted: a majority names who has the lock; or too few nodes are there, or
// agree.
func (q *Quorum) refused(l *quorumLock, votes []vote) error {
	// mutants: named-by-a-majority
	if held, most := foremost(votes); most >= q.need {
		return &HeldError{Name: l.name, Holder: *held}
	}
	errs := make([]error, len(q.clients))
	for _, v := range votes {
		errs[v.node] = v.err
		if v.said && v.g == nil {
			errs[v.node] = q.clients[v.node].contested(l.name, v.holder)
		}
	}
	return q.tooFew("acquire", l.name, errs)
}

// foremost is the holder whom most nodes name, and how many do.
func foremost(votes []vote) (holder *Holder, most int) {
	for _, v := range votes {
		if v.holder == nil {
			continue
		}
		same := 0
		for _, other := range votes {
			if other.holder != nil && v.theirs == other.theirs {
				same++
			}
		}
		if same > most {
			holder, most = v.holder, same
		}
	}
	return holder, most
}

// contestedError is what a node says that has given its vote to another, or keeps it for one, while no majority
// names a holder.
type contestedError struct{ text string }

func (e contestedError) Error() string { return e.text }

// Is makes it match ErrUnavailable: it is not said that anybody holds the lock.
func (contestedError) Is(target error) bool { return target == exec.ErrUnavailable }

func (c *Client) contested(name string, holder *Holder) error {
	text := "others want the lock, too, and no majority has it yet"
	switch {
	case holder == nil:
	case holder.Foreign:
		text = "another program has the lock there, and too few others name it"
	default:
		text = fmt.Sprintf("it names %s as the holder, and too few others do", holder.who())
	}
	return &exec.Failure{Op: "acquire", Name: name, Server: c.server.Addr(), Err: contestedError{text}}
}

// agree finds a fence that is above all that a majority has granted before, and that a
// majority knows by then: of those that the nodes have stored, the one that a majority does
// not exceed. Every fence that was granted before is known to a majority; one of its nodes is
// among these, and has stored a higher one since.
func (q *Quorum) agree(ctx context.Context, l *quorumLock, timeout time.Duration, granted []vote) (uint64, error) {
	fences := make([]uint64, len(granted))
	for i, v := range granted {
		fences[i] = v.g.fence
	}
	slices.Sort(fences)
	fence := fences[q.need-1]
	ours := map[int]string{}
	known := 0
	for _, v := range granted {
		if v.g.fence >= fence {
			known++
		} else {
			ours[v.node] = v.a.token()
		}
	}
	// mutants: fence-known
	if known >= q.need {
		return fence, nil
	}
	replies, errs := askNodes(ctx, l, timeout, "acquire", func(i int, p *target) codec.Request[codec.NodeFenceReply] {
		token, wanted := ours[i]
		if !wanted {
			return nil
		}
		return &codec.NodeFence{Lock: p.nodeRef(), Token: token, Fence: fence}
	})
	for i, reply := range replies {
		switch {
		case errs[i] != nil:
		case reply.Word == codec.Fenced:
			known++
		case reply.Word == codec.Gone:
			errs[i] = errGone
		default:
			errs[i] = q.refusal("acquire", l, i, reply.Refusal)
		}
	}
	if known < q.need {
		return 0, q.tooFew("acquire", l.name, errs)
	}
	return fence, ctx.Err()
}

// errGone is of a node that lost a lock before it was told the fence.
var errGone = errors.New("it granted the lock, and has it no more")

// holders says who holds the lock on a majority of nodes; an error if that is open.
func (q *Quorum) holders(ctx context.Context, l *quorumLock) ([]Holder, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	replies, errs := askNodes(ctx, l, max(q.timeout(l), 100*time.Millisecond), "inspect", func(_ int, p *target) codec.Request[codec.HolderReply] {
		return &codec.WhoHolds{Lock: p.nodeRef()}
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	there := 0
	var all []Holder
	for i, reply := range replies {
		if errs[i] != nil {
			continue
		}
		there++
		if reply.Word == codec.Held {
			all = append(all, l.parts[i].holderOf(&reply.Holder))
		}
	}
	if there < q.need {
		return nil, q.tooFew("inspect", l.name, errs)
	}
	most := 0
	for _, h := range all {
		same := 0
		for _, other := range all {
			if h.Owner == other.Owner && h.Host == other.Host && h.PID == other.PID && h.Foreign == other.Foreign {
				same++
			}
		}
		if same >= q.need {
			return []Holder{h}, nil
		}
		most = max(most, same)
	}
	if most > 0 && most+len(q.clients)-there >= q.need { // those that did not answer may have it, too
		return nil, q.tooFew("inspect", l.name, errs)
	}
	return nil, nil
}
