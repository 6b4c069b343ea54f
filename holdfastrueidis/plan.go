package holdfastrueidis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
)

// plan says which node of a Cluster has which slots: rueidis does not show its own. A wrong one does no
// harm, but that scripts wait for those of a node that hangs.
type plan struct {
	spans []span
	asked time.Time
}

// span is slots that follow each other, and the id of the master that has them.
type span struct {
	first, last uint16
	node        string
}

// planPeriod is for how long a plan counts.
const planPeriod = 10 * time.Second

func (d *driver) Node(key string) string {
	p := d.plan.Load()
	if (p == nil || time.Since(p.asked) > planPeriod) && d.planning.CompareAndSwap(false, true) && !d.behind(d.makePlan) {
		d.planning.Store(false)
	}
	if p == nil {
		return ""
	}
	return p.node(keys.Slot(key))
}

func (p *plan) node(slot uint16) string {
	i, found := slices.BinarySearchFunc(p.spans, slot, func(s span, slot uint16) int {
		if s.first <= slot && slot <= s.last {
			return 0
		}
		return cmp.Compare(s.first, slot)
	})
	if !found {
		return ""
	}
	return p.spans[i].node
}

// makePlan asks for the plan. If nobody tells, the old one counts for another while.
func (d *driver) makePlan() {
	defer d.planning.Store(false)
	ctx, cancel := context.WithTimeout(d.ctx, planPeriod)
	defer cancel()
	asked := time.Now()
	spans, err := d.spans(ctx)
	if err != nil {
		if old := d.plan.Load(); old != nil {
			spans = old.spans
		}
	}
	d.plan.Store(&plan{spans, asked})
}

func (d *driver) spans(ctx context.Context) ([]span, error) {
	client, err := d.hands.client(ctx)
	if err != nil {
		return nil, err
	}
	ranges, err := client.Do(ctx, client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	spans := make([]span, len(ranges))
	for i, r := range ranges {
		fields, err := r.ToArray()
		if err != nil || len(fields) < 3 {
			return nil, errMalformed
		}
		first, err1 := fields[0].ToInt64()
		last, err2 := fields[1].ToInt64()
		master, err3 := fields[2].ToArray()
		if errors.Join(err1, err2, err3) != nil || len(master) < 3 {
			return nil, errMalformed
		}
		id, err := master[2].ToString()
		if err != nil {
			return nil, errMalformed
		}
		spans[i] = span{uint16(first), uint16(last), id}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	return spans, nil
}

var errMalformed = errors.New("the reply to CLUSTER SLOTS is malformed")
