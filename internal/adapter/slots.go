package adapter

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// slotMap has the master of each slot of a Cluster. If it is wrong, calls may wait for a node that hangs, or subscriptions be refused.
type slotMap struct {
	masters []string           // addresses; the first is ""
	slots   [keys.Slots]uint16 // the index in masters of each slot's master
	asked   time.Time          // when the Cluster was asked for it
}

const (
	slotMapPeriod = 10 * time.Second       // how long a slot map is used before it is refreshed
	refreshPeriod = 100 * time.Millisecond // the shortest time from one refresh to the next that a failure causes
	nodeTimeout   = time.Second            // how long refreshSlots waits for one node
	slowNode      = 100 * time.Millisecond // how long askAny waits for one node before it asks another
)

// Node returns the address of a key's master.
func (d *Driver) Node(key string) string {
	if !d.isCluster.Load() {
		return ""
	}
	m := d.slots.Load()
	if m == nil || time.Since(m.asked) > slotMapPeriod {
		d.refresh()
	}
	if m == nil {
		return ""
	}
	return m.masters[m.slots[keys.Slot(key)]]
}

// nodes returns the addresses of the Cluster's nodes, as far as they are known, or that of the server.
func (d *Driver) nodes() []string {
	all := d.lib.Addrs
	if m := d.slots.Load(); m != nil && len(m.masters) > 1 {
		all = m.masters[1:]
	}
	return all
}

// refresh refreshes the slot map in the background.
func (d *Driver) refresh() {
	if m := d.slots.Load(); m != nil && time.Since(m.asked) < refreshPeriod || !d.refreshing.CompareAndSwap(false, true) {
		return
	}
	if !d.spawn(func() {
		defer d.refreshing.Store(false)
		_ = d.refreshSlots(d.ctx)
	}) {
		d.refreshing.Store(false)
	}
}

// askAny asks nodes in random order until one answers. It asks the next when a node has failed, or not answered within slowNode.
func askAny[T any](d *Driver, addrs []string, ask func(addr string) (T, error)) (none T, err error) {
	type result struct {
		answer T
		err    error
	}
	results, order, answered := make(chan result, len(addrs)), rand.Perm(len(addrs)), 0
	for err = errNoNodes; answered < len(addrs); {
		if len(order) > 0 {
			addr := addrs[order[0]]
			order = order[1:]
			if !d.spawn(func() {
				answer, err := ask(addr)
				results <- result{answer, err}
			}) {
				return none, notSent(net.ErrClosed)
			}
		}
		select {
		case r := <-results:
			if r.err == nil {
				return r.answer, nil
			}
			answered, err = answered+1, r.err
		case <-time.After(slowNode):
		}
	}
	return none, err
}

// refreshSlots asks the Cluster for its slot map. If no node answers, it keeps the old map for another period.
func (d *Driver) refreshSlots(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, slotMapPeriod)
	defer cancel()
	if d.lib.Reload != nil {
		d.lib.Reload(ctx)
	}
	asked, found, err := time.Now(), []Slots(nil), error(nil)
	if d.lib.Slots != nil {
		found, err = d.lib.Slots(ctx)
	} else {
		all := slices.Concat(d.nodes(), d.lib.Addrs) // those that the program named may be known by other names
		slices.Sort(all)
		found, err = askAny(d, slices.Compact(all), func(addr string) ([]Slots, error) {
			ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
			defer cancel()
			reply := d.servers.sender(addr, use{urgent: true})(ctx, resp.New("cluster", "slots"))[0]
			found, err := parseSlots(reply.Value, addr)
			return found, cmp.Or(reply.Err, err)
		})
	}
	m := &slotMap{masters: []string{""}}
	if old := d.slots.Load(); old != nil && err != nil {
		*m = *old
	}
	m.asked = asked
	for _, s := range found {
		n := slices.Index(m.masters, s.Master)
		if n < 0 {
			n = len(m.masters)
			m.masters = append(m.masters, s.Master)
		}
		for slot := max(s.First, 0); slot <= min(s.Last, keys.Slots-1); slot++ {
			m.slots[slot] = uint16(n)
		}
	}
	d.slots.Store(m)
	return err
}

// parseSlots reads a reply to CLUSTER SLOTS of the node at addr, which may omit its own host.
func parseSlots(reply any, addr string) (found []Slots, err error) {
	ranges, is := reply.([]any)
	if !is {
		return nil, errMalformed
	}
	for _, r := range ranges {
		fields, _ := r.([]any)
		if len(fields) < 3 {
			return nil, errMalformed
		}
		first, is1 := fields[0].(int64)
		last, is2 := fields[1].(int64)
		master, _ := fields[2].([]any)
		if !is1 || !is2 || len(master) < 2 || first < 0 || last >= keys.Slots {
			return nil, errMalformed
		}
		host, _ := master[0].(string)
		port, is := master[1].(int64)
		if !is {
			return nil, errMalformed
		}
		if host == "" || host == "?" {
			host, _, _ = net.SplitHostPort(addr)
		}
		found = append(found, Slots{int(first), int(last), net.JoinHostPort(host, strconv.FormatInt(port, 10))})
	}
	return found, nil
}

var (
	errMalformed = errors.New("malformed reply to CLUSTER SLOTS")
	errNoNodes   = errors.New("no node of the Cluster is known")
)
