package voting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// repair raises the fence counters of nodes that have restarted to the highest counter of a majority of the others, read after the
// quarantine. If a majority has restarted, and all nodes answer and have kept their data, it raises them to the highest of all counters and
// clocks, as Init does.
func (q *Quorum) repair(ctx context.Context, l *mutex, behind marks) error {
	timeout := max(q.timeout(l), 100*time.Millisecond)
	replies, errs := askNodes(ctx, l, timeout, "raise", counterOf)
	counter, good := int64(0), 0 // of nodes that are not behind
	highest := int64(0)          // of all nodes
	var lost []int               // nodes that are behind
	emptied, resting := false, false
	for i, reply := range replies {
		switch {
		case errs[i] != nil:
		case reply.Word == codec.CounterIs:
			good++
			counter = max(counter, reply.Count)
		case reply.Word == codec.Behind:
			lost = append(lost, i)
			emptied = emptied || reply.Count == 0 || !reply.Refusal.KeptData()
		default:
			errs[i] = q.refusal("acquire", l, i, reply.Refusal)
			resting = true
		}
		highest = max(highest, reply.Count, reply.Now)
	}
	switch {
	// good nodes include one of every majority, whichever nodes are behind now.
	case good >= len(q.clients)-q.need+1:
	// mutants: all-have-answered
	case good+len(lost) == len(q.clients) && !emptied:
		counter = highest
	default:
		kind, err := exec.ErrQuarantine, errBehind
		switch {
		case len(lost) < q.need, resting: // another node may help later
		case emptied:
			kind, err = exec.ErrUninitialised, errNew
		default:
			kind, err = exec.ErrUnavailable, errTogether
		}
		for _, i := range lost {
			errs[i] = q.failure("acquire", l.name, i, kind, err)
		}
		return q.tooFew("acquire", l.name, errs)
	}
	_, errs = l.raise(ctx, "acquire", timeout, counter, behind)
	if slices.Contains(errs, nil) {
		return nil // another round may succeed now
	}
	return q.tooFew("acquire", l.name, errs)
}

// raise raises the fence counters of the nodes that are behind to counter. It returns the highest counter that they then have, at least
// counter, and the errors by node.
func (l *mutex) raise(ctx context.Context, op string, timeout time.Duration, counter int64, behind marks) (int64, []error) {
	replies, errs := askNodes(ctx, l, timeout, "raise", func(i int, p *engine.Target) codec.Request[codec.Reply] {
		if stands, is := behind[i]; is {
			return codec.NodeRaise(p.NodeRef(), counter, stands)
		}
		return nil
	})
	for i, reply := range replies {
		if errs[i] == nil && reply.Word != codec.Raised { // the node may have restarted again
			errs[i] = l.q.refusal(op, l, i, reply.Refusal)
		}
		counter = max(counter, reply.Count)
	}
	return counter, errs
}

// marks are the caught-up marks of nodes whose fence counters have to be raised.
type marks map[int]string

// counterOf returns the request for a node's fence counter.
func counterOf(_ int, p *engine.Target) codec.Request[codec.Reply] {
	return codec.NodeCounter(p.NodeRef())
}

// Init is inspect.Inspector.Admit or, with force, ForceAdmit.
func (in *Inspector) Init(ctx context.Context, force bool) error {
	q := in.q
	l := q.newLock("quorum", nil)
	if l.err != nil {
		return l.err
	}
	// A node that looks new is admitted at once only if all nodes do: otherwise it may have lost its mark, together with locks that the
	// other nodes vouch for.
	refuse := func(errs []error) error { return InTask("init", q.tooFew("init", "", errs)) }
	fresh := make([]bool, len(q.clients))
	errs := q.onEach(func(i int, c *engine.Client) (err error) {
		fresh[i], err = c.IsNew(ctx)
		return err
	})
	if !failed(errs) && (force || !slices.Contains(fresh, false)) {
		errs = q.onEach(func(_ int, c *engine.Client) error { return c.Init(ctx, force) })
		clear(fresh)
	}
	if failed(errs) {
		return refuse(errs)
	}
	timeout := q.clients[0].Config.CommandTimeout
	replies, errs := askNodes(ctx, l, timeout, "init", counterOf)
	var counter int64
	behind := marks{}
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
				errs[i] = q.clients[i].Server.Failure("init", "", fmt.Errorf("%w: it is empty, and others are not; wait, or use force once no lease is believed in", rest))
			}
		}
		// A majority may have come back with older counters, so the clocks count, too.
		counter = max(counter, reply.Count, reply.Now)
	}
	// The second pass includes the counters of nodes that the first one raised.
	for pass := 0; pass < 2 && !failed(errs); pass++ {
		counter, errs = l.raise(ctx, "init", timeout, counter, behind)
	}
	if failed(errs) {
		return refuse(errs)
	}
	return nil
}
