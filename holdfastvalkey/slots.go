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

// numSlots is the number of slots of a Cluster.
const numSlots = 1 << 14

// slotMap is the map of a Cluster's slots to its masters. valkey-go has one, but does not expose it. If the map is
// wrong, calls may wait for those of a node that hangs, and a node may refuse subscriptions.
type slotMap struct {
	masters []string         // addresses as valkey-go has them; the first is ""
	slots   [numSlots]uint16 // the index in masters of each slot's master
	asked   time.Time        // when the Cluster was asked for it
}

const (
	slotMapPeriod = 10 * time.Second // how long a slot map is used before it is refreshed
	nodeTimeout   = time.Second      // how long askSlots waits for one node
)

// Node returns the address of a key's master.
func (a *adapter) Node(key string) string {
	m := a.slots.Load()
	if (m == nil || time.Since(m.asked) > slotMapPeriod) && a.refreshing.CompareAndSwap(false, true) {
		if !a.spawn(func() {
			defer a.refreshing.Store(false)
			_ = a.refreshSlots(a.ctx)
		}) {
			a.refreshing.Store(false)
		}
	}
	return m.master(key)
}

func (m *slotMap) master(key string) string {
	if m == nil {
		return ""
	}
	return m.masters[m.slots[keys.Slot(key)]]
}

// refreshSlots asks the Cluster for its slot map. If no node answers, it keeps the old one for another period.
func (a *adapter) refreshSlots(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, slotMapPeriod)
	defer cancel()
	asked := time.Now()
	m, err := a.askSlots(ctx)
	if err != nil {
		m = &slotMap{masters: []string{""}}
		if old := a.slots.Load(); old != nil {
			*m = *old
		}
	}
	m.asked = asked
	a.slots.Store(m)
	return err
}

// askSlots asks one node after another until one answers.
func (a *adapter) askSlots(ctx context.Context) (*slotMap, error) {
	client, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	for addr, node := range client.Nodes() {
		var m *slotMap
		nodeCtx, cancel := context.WithTimeout(ctx, nodeTimeout)
		m, err = clusterSlots(nodeCtx, node, addr)
		cancel()
		if err == nil {
			return m, nil
		}
	}
	return nil, cmp.Or(err, errNoNodes)
}

// clusterSlots asks the node at addr, which may omit its own host from its reply.
func clusterSlots(ctx context.Context, node valkey.Client, addr string) (*slotMap, error) {
	ranges, err := node.Do(ctx, node.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, convert(err)
	}
	m := &slotMap{masters: []string{""}}
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
			host, _, _ = net.SplitHostPort(addr)
		}
		masterAddr := net.JoinHostPort(host, strconv.FormatInt(port, 10))
		n := slices.Index(m.masters, masterAddr)
		if n < 0 {
			n = len(m.masters)
			m.masters = append(m.masters, masterAddr)
		}
		for slot := first; slot <= last; slot++ {
			m.slots[slot] = uint16(n)
		}
	}
	return m, nil
}

var (
	errMalformed = errors.New("malformed reply to CLUSTER SLOTS")
	errNoNodes   = errors.New("valkey-go knows no nodes of the Cluster")
)
