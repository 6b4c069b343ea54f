package holdfastrueidis

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/keys"
)

// plan says which node of a Cluster has which slots: rueidis does not show its own. A wrong one does no
// harm, but that scripts wait for those of a node that hangs, and that a node refuses subscriptions.
type plan struct {
	spans []span
	asked time.Time
}

// span is slots that follow each other, and the master that has them.
type span struct {
	first, last uint16
	node        string // its id
	addr        string
}

// planPeriod is for how long a plan counts.
const planPeriod = 10 * time.Second

func (d *adapter) Node(key string) string {
	p := d.plan.Load()
	if (p == nil || time.Since(p.asked) > planPeriod) && d.planning.CompareAndSwap(false, true) && !d.behind(d.makePlan) {
		d.planning.Store(false)
	}
	if p == nil {
		return ""
	}
	return p.span(keys.Slot(key)).node
}

// span is the one that has a slot, or an empty one.
func (p *plan) span(slot uint16) span {
	i, found := slices.BinarySearchFunc(p.spans, slot, func(s span, slot uint16) int {
		if s.first <= slot && slot <= s.last {
			return 0
		}
		return cmp.Compare(s.first, slot)
	})
	if !found {
		return span{}
	}
	return p.spans[i]
}

// makePlan asks for the plan. If nobody tells, the old one counts for another while.
func (d *adapter) makePlan() {
	defer d.planning.Store(false)
	_ = d.renewPlan(d.ctx)
}

func (d *adapter) renewPlan(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, planPeriod)
	defer cancel()
	asked := time.Now()
	spans, err := d.spans(ctx)
	if err != nil {
		if old := d.plan.Load(); old != nil {
			spans = old.spans
		}
	}
	d.plan.Store(&plan{spans, asked})
	return err
}

// spans asks one node after another, until one answers. It knows by which address it asked it: a node may
// give none for itself.
func (d *adapter) spans(ctx context.Context) ([]span, error) {
	client, err := d.hands.client(ctx)
	if err != nil {
		return nil, err
	}
	for addr, node := range client.Nodes() {
		var spans []span
		one, cancel := context.WithTimeout(ctx, nodePatience)
		spans, err = spansOf(one, node, addr)
		cancel()
		if err == nil {
			return spans, nil
		}
	}
	return nil, cmp.Or(err, errNoNodes)
}

// nodePatience is how long one node is waited for that is asked for the plan.
const nodePatience = time.Second

func spansOf(ctx context.Context, client rueidis.Client, asked string) ([]span, error) {
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
		port, err1 := master[1].ToInt64()
		id, err2 := master[2].ToString()
		if errors.Join(err1, err2) != nil {
			return nil, errMalformed
		}
		host, _ := master[0].ToString()
		if host == "" || host == "?" {
			host, _, _ = net.SplitHostPort(asked)
		}
		spans[i] = span{uint16(first), uint16(last), id, net.JoinHostPort(host, strconv.FormatInt(port, 10))}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	return spans, nil
}

var (
	errMalformed = errors.New("the reply to CLUSTER SLOTS is malformed")
	errNoNodes   = errors.New("the client knows no node of the Cluster")
)
