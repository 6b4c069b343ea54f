package voting

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// Init is inspect.Inspector.Admit or, with force, ForceAdmit.
func (q *Quorum) Init(ctx context.Context, force bool) error {
	const name = "quorum"
	l := q.newLock(name, nil)
	if l.err != nil {
		return l.err
	}
	// A node that looks new is admitted at once only if all nodes do: otherwise it may have lost its mark, together with locks that the
	// other nodes vouch for.
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
		return q.tooFew("init", name, errs)
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
				errs[i] = q.clients[i].Server.Failure("init", name, fmt.Errorf("%w: it is empty, and others are not; wait, or use force once no lease is believed in", rest))
			}
		}
		// A majority may have come back with older counters, so the clocks count, too.
		counter = max(counter, reply.Count, reply.Now)
	}
	// The second pass includes the counters of nodes that the first one raised.
	for range 2 {
		if failed(errs) {
			return q.tooFew("init", name, errs)
		}
		counter, errs = l.raise(ctx, "init", timeout, counter, behind)
	}
	if failed(errs) {
		return q.tooFew("init", name, errs)
	}
	return nil
}
