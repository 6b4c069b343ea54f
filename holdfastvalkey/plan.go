package holdfastvalkey

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast/internal/keys"
)

// numSlots is how many slots a Cluster has.
const numSlots = 1 << 14

// plan says which master of a Cluster has which slots: valkey-go does not show its own. A wrong one does no harm,
// except that scripts wait for those of a node that hangs, and that a node refuses subscriptions.
type plan struct {
	masters []string         // their addresses, as valkey-go has them; the first is ""
	of      [numSlots]uint16 // by slot, in masters
	asked   time.Time
}

// planPeriod is for how long a plan counts, and nodePatience how long one node is waited for that is asked for it.
const (
	planPeriod   = 10 * time.Second
	nodePatience = time.Second
)

// Node names a master by its address.
func (a *adapter) Node(key string) string {
	p := a.plan.Load()
	if (p == nil || time.Since(p.asked) > planPeriod) && a.planning.CompareAndSwap(false, true) {
		if !a.behind(func() {
			defer a.planning.Store(false)
			_ = a.renewPlan(a.ctx)
		}) {
			a.planning.Store(false)
		}
	}
	return p.master(key)
}

func (p *plan) master(key string) string {
	if p == nil {
		return ""
	}
	return p.masters[p.of[keys.Slot(key)]]
}

// renewPlan asks for the plan. If no node tells, the old one counts for another while.
func (a *adapter) renewPlan(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, planPeriod)
	defer cancel()
	asked := time.Now()
	p, err := a.askPlan(ctx)
	if err != nil {
		p = &plan{masters: []string{""}}
		if old := a.plan.Load(); old != nil {
			*p = *old
		}
	}
	p.asked = asked
	a.plan.Store(p)
	return err
}

// askPlan asks one node after another, until one answers. It knows by which address it asks it: a node may give none
// for itself.
func (a *adapter) askPlan(ctx context.Context) (*plan, error) {
	client, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	for addr, node := range client.Nodes() {
		var p *plan
		one, cancel := context.WithTimeout(ctx, nodePatience)
		p, err = planOf(one, node, addr)
		cancel()
		if err == nil {
			return p, nil
		}
	}
	return nil, cmp.Or(err, errNoNodes)
}

func planOf(ctx context.Context, node valkey.Client, asked string) (*plan, error) {
	ranges, err := node.Do(ctx, node.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, convert(err)
	}
	p := &plan{masters: []string{""}}
	for _, r := range ranges {
		fields, err := r.ToArray()
		if err != nil || len(fields) < 3 {
			return nil, errMalformed
		}
		first, err1 := fields[0].ToInt64()
		last, err2 := fields[1].ToInt64()
		master, err3 := fields[2].ToArray()
		if errors.Join(err1, err2, err3) != nil || len(master) < 2 || first < 0 || last >= numSlots {
			return nil, errMalformed
		}
		port, err := master[1].ToInt64()
		if err != nil {
			return nil, errMalformed
		}
		host, _ := master[0].ToString()
		if host == "" || host == "?" {
			host, _, _ = net.SplitHostPort(asked)
		}
		addr := net.JoinHostPort(host, strconv.FormatInt(port, 10))
		n := slices.Index(p.masters, addr)
		if n < 0 {
			n = len(p.masters)
			p.masters = append(p.masters, addr)
		}
		for slot := first; slot <= last; slot++ {
			p.of[slot] = uint16(n)
		}
	}
	return p, nil
}

var (
	errMalformed = errors.New("the reply to CLUSTER SLOTS is malformed")
	errNoNodes   = errors.New("the client knows no node of the Cluster")
)
