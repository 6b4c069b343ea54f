package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// refill asks nodes that do not hold a lease's lock for it, from time to time, until all do or
// it is over. That a majority does is known by its deadlines: nobody else can have it there.
func (q *Quorum) refill(b *multiLease, refilling *atomic.Bool) {
	l := b.quorum
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, l.set.ttl/3) {
		select {
		case <-time.After(jitter(pause, 20)):
		case <-b.ctx.Done():
			return
		}
		missing := q.missing(b)
		if len(missing) == 0 {
			refilling.Store(false)
			if missing = q.missing(b); len(missing) == 0 || !refilling.CompareAndSwap(false, true) {
				return
			}
		}
		for _, i := range missing {
			if b.Err() != nil {
				return
			}
			q.refillNode(b, i)
		}
	}
}

// missing are the nodes that do not hold a lease's lock.
func (q *Quorum) missing(b *multiLease) []int {
	there := map[*Client]bool{}
	for _, p := range b.heldParts() {
		there[p.g.l.c] = true
	}
	var all []int
	for i, c := range q.clients {
		if !there[c] {
			all = append(all, i)
		}
	}
	return all
}

func (q *Quorum) refillNode(b *multiLease, i int) {
	q.begin()
	defer q.end()
	v := q.vote(b.ctx, b.quorum, i, b.round, terms{&holdersTicket, q.timeout(b.quorum)})
	if v.behind != "" {
		_ = q.repair(b.ctx, b.quorum, []vote{v})
	}
	if v.g == nil {
		q.giveBack(v)
		return
	}
	// Its counter can be below the lease's fence; what has to know that fence is a majority,
	// which does.
	p := v.g.begin(b.ctx)
	if b.Err() != nil || !b.add(p) {
		_ = p.Release(context.Background())
	}
}

// mend raises the fence counters of nodes that restarted to what a majority of the others
// has, read after their quarantine; or, if a majority has restarted, to what all nodes have, and show
// as their time, as Init does: of those that have kept their data.
func (q *Quorum) repair(ctx context.Context, l *quorumLock, behind []vote) error {
	timeout := max(q.timeout(l), 100*time.Millisecond)
	replies, errs := askNodes(ctx, l, timeout, "raise", counterOf)
	counter, good := int64(0), 0 // of those that are not behind
	highest := int64(0)          // of all
	var lost []int               // nodes that are behind
	emptied, resting := false, false
	for i, reply := range replies {
		switch {
		case errs[i] != nil:
		case reply.Word == codec.CounterIs:
			good++
			counter = max(counter, reply.Counter)
		case reply.Word == codec.Behind:
			lost = append(lost, i)
			emptied = emptied || reply.Counter == 0 || !reply.Refusal.KeptData()
		default:
			errs[i] = q.refusal("acquire", l, i, reply.Refusal)
			resting = true
		}
		highest = max(highest, reply.Counter, reply.Now)
	}
	switch {
	// So many share a node with every majority, whichever of its nodes are behind now.
	case good >= len(q.clients)-q.need+1:
	// mutants: all-have-answered
	case good+len(lost) == len(q.clients) && !emptied:
		counter = highest
	default:
		kind, err := exec.ErrQuarantine, errBehind
		switch {
		case len(lost) < q.need, resting: // another may show what it is then
		case emptied:
			kind, err = exec.ErrUninitialised, errNew
		default:
			kind, err = exec.ErrUnavailable, errTogether
		}
		for _, i := range lost {
			errs[i] = q.isBehind("acquire", i, l, kind, err)
		}
		return q.tooFew("acquire", l.name, errs)
	}
	raised, errs := askNodes(ctx, l, timeout, "raise", func(i int, p *target) codec.Request[codec.NodeRaiseReply] {
		for _, v := range behind {
			if v.node == i {
				return &codec.NodeRaise{Lock: p.nodeRef(), Counter: counter, Stands: v.behind}
			}
		}
		return nil
	})
	for i, reply := range raised {
		switch {
		case errs[i] != nil:
		case reply.Word == codec.Raised:
			return nil // so that another round makes sense
		default: // it may have restarted since
			errs[i] = q.refusal("acquire", l, i, reply.Refusal)
		}
	}
	return q.tooFew("acquire", l.name, errs)
}

// counterOf asks a node for its fence counter.
func counterOf(_ int, p *target) codec.Request[codec.NodeCounterReply] {
	return &codec.NodeCounter{Lock: p.nodeRef()}
}

// Init admits new nodes: all that are there, which have to be all. Run it once for a new
// quorum, by hand; and after a majority has lost its data, for which the others cannot vouch, once
// no lease of before is believed in any more: with force, which ends the quarantine of nodes
// that were known. A node that is replaced, or comes back empty, while a majority
// goes on needs no Init, but a quarantine.
//
// Where any node is known already, one that is not may have held locks and lost them: without
// force it gets the quarantine that it would have without Init, for which Init does not wait.
// It then returns a *QuorumError that matches ErrQuarantine and names the node: call it again
// when that is over.
func (q *Quorum) Init(ctx context.Context, force bool) error {
	const name = "quorum"
	l := q.newLock(name, nil)
	if l.err != nil {
		return l.err
	}
	// One that is new is admitted at once only if all are: the mark that is missing may be one
	// that was lost, together with locks that the others vouch for.
	fresh := make([]bool, len(q.clients))
	errs := q.onEach(func(i int, c *Client) (err error) {
		fresh[i], err = c.isNew(ctx)
		return err
	})
	if !failed(errs) && (force || !slices.Contains(fresh, false)) {
		errs = q.onEach(func(_ int, c *Client) error { return c.Init(ctx, force) })
		clear(fresh)
	}
	if failed(errs) {
		return q.tooFew("init", name, errs)
	}
	timeout := q.clients[0].cfg.CommandTimeout
	replies, errs := askNodes(ctx, l, timeout, "init", counterOf)
	var counter int64
	behind := map[int]string{}
	for i, reply := range replies {
		switch {
		case errs[i] != nil:
			continue
		case reply.Word == codec.Behind:
			behind[i] = reply.Refusal.Stands
		case reply.Word == codec.Quarantined:
			errs[i] = q.refusal("init", l, i, reply.Refusal)
			var rest *exec.Quarantine
			if fresh[i] && errors.As(errs[i], &rest) {
				errs[i] = q.clients[i].server.Failure("init", name, fmt.Errorf("%w: it is empty, and others are not; wait, or use force once no lease is believed in", rest))
			}
		}
		// A majority may have come back with older counters, which tell nothing.
		counter = max(counter, reply.Counter, reply.Now)
	}
	// The second time with what those know that were raised the first time.
	for range 2 {
		if failed(errs) {
			return q.tooFew("init", name, errs)
		}
		var raised []codec.NodeRaiseReply
		raised, errs = askNodes(ctx, l, timeout, "raise", func(i int, p *target) codec.Request[codec.NodeRaiseReply] {
			stands, wanted := behind[i]
			if !wanted {
				return nil
			}
			return &codec.NodeRaise{Lock: p.nodeRef(), Counter: counter, Stands: stands}
		})
		for i, reply := range raised {
			if errs[i] == nil && reply.Word != codec.Raised {
				errs[i] = q.refusal("init", l, i, reply.Refusal)
			}
			counter = max(counter, reply.Counter)
		}
	}
	if failed(errs) {
		return q.tooFew("init", name, errs)
	}
	return nil
}

// onEach calls f for all nodes at once, and returns what it returns, by node.
func (q *Quorum) onEach(f func(i int, c *Client) error) []error {
	errs := make([]error, len(q.clients))
	var wg sync.WaitGroup
	for i, c := range q.clients {
		wg.Add(1)
		c.tasks.Run(func() {
			defer wg.Done()
			errs[i] = f(i, c)
		})
	}
	wg.Wait()
	return errs
}

// failed reports whether any node that was asked answered with an error.
func failed(errs []error) bool {
	return slices.ContainsFunc(errs, func(err error) bool { return err != nil && err != errUnasked })
}
