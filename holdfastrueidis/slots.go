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

// slotMap is the map of a Cluster's slots to its masters. rueidis has one, but does not expose it. If the map is wrong,
// calls may wait for those of a node that hangs, and a node may refuse subscriptions.
type slotMap struct {
	ranges []slotRange // in order
	asked  time.Time   // when the Cluster was asked for it
}

// slotRange is a range of slots and the master that has them.
type slotRange struct {
	first, last uint16
	node        string // the master's id
	addr        string
}

// slotMapPeriod is how long a slot map is used before it is refreshed.
const slotMapPeriod = 10 * time.Second

func (d *adapter) Node(key string) string {
	m := d.slots.Load()
	if (m == nil || time.Since(m.asked) > slotMapPeriod) && d.refreshing.CompareAndSwap(false, true) {
		if !d.spawn(func() {
			defer d.refreshing.Store(false)
			_ = d.refreshSlots(d.ctx)
		}) {
			d.refreshing.Store(false)
		}
	}
	if m == nil {
		return ""
	}
	return m.find(keys.Slot(key)).node
}

// find returns the range that contains a slot, or the zero slotRange.
func (m *slotMap) find(slot uint16) slotRange {
	i, ok := slices.BinarySearchFunc(m.ranges, slot, func(r slotRange, slot uint16) int {
		if r.first <= slot && slot <= r.last {
			return 0
		}
		return cmp.Compare(r.first, slot)
	})
	if !ok {
		return slotRange{}
	}
	return m.ranges[i]
}

// addrOf returns the address of a master, or "".
func (m *slotMap) addrOf(node string) string {
	for _, r := range m.ranges {
		if r.node == node {
			return r.addr
		}
	}
	return ""
}

// refreshSlots asks the Cluster for its slot map. If no node answers, it keeps the old one for another period.
func (d *adapter) refreshSlots(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, slotMapPeriod)
	defer cancel()
	asked := time.Now()
	ranges, err := d.askSlots(ctx)
	if err != nil {
		if old := d.slots.Load(); old != nil {
			ranges = old.ranges
		}
	}
	d.slots.Store(&slotMap{ranges, asked})
	return err
}

// askSlots asks one node after another until one answers.
func (d *adapter) askSlots(ctx context.Context) ([]slotRange, error) {
	client, err := d.scripts.client(ctx)
	if err != nil {
		return nil, err
	}
	for addr, node := range client.Nodes() {
		var ranges []slotRange
		nodeCtx, cancel := context.WithTimeout(ctx, nodeTimeout)
		ranges, err = clusterSlots(nodeCtx, node, addr)
		cancel()
		if err == nil {
			return ranges, nil
		}
	}
	return nil, cmp.Or(err, errNoNodes)
}

// nodeTimeout is how long askSlots waits for one node.
const nodeTimeout = time.Second

// clusterSlots asks the node at addr, which may omit its own host from its reply.
func clusterSlots(ctx context.Context, node rueidis.Client, addr string) ([]slotRange, error) {
	reply, err := node.Do(ctx, node.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	ranges := make([]slotRange, len(reply))
	for i, r := range reply {
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
			host, _, _ = net.SplitHostPort(addr)
		}
		ranges[i] = slotRange{uint16(first), uint16(last), id, net.JoinHostPort(host, strconv.FormatInt(port, 10))}
	}
	slices.SortFunc(ranges, func(a, b slotRange) int { return cmp.Compare(a.first, b.first) })
	return ranges, nil
}

var (
	errMalformed = errors.New("malformed reply to CLUSTER SLOTS")
	errNoNodes   = errors.New("rueidis knows no nodes of the Cluster")
)
