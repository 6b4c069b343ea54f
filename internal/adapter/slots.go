package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// numSlots is the number of slots of a Cluster.
const numSlots = 1 << 14

// slotMap is the map of a Cluster's slots to its masters. The libraries have one, but do not expose it. If the map is
// wrong, calls may wait for those of a node that hangs, and a node may refuse subscriptions.
type slotMap struct {
	masters []string         // addresses as the library has them; the first is ""
	slots   [numSlots]uint16 // the index in masters of each slot's master
	asked   time.Time        // when the Cluster was asked for it
}

const (
	slotMapPeriod = 10 * time.Second // how long a slot map is used before it is refreshed
	nodeTimeout   = time.Second      // how long refreshSlots waits for one node
)

// Node returns the address of a key's master.
func (d *Driver) Node(key string) string {
	client := d.current()
	switch {
	case client == nil || !client.IsCluster:
		return ""
	case client.Node != nil:
		return client.Node(key)
	}
	m := d.slots.Load()
	if (m == nil || time.Since(m.asked) > slotMapPeriod) && d.refreshing.CompareAndSwap(false, true) {
		if !d.spawn(func() {
			defer d.refreshing.Store(false)
			_ = d.refreshSlots(d.ctx)
		}) {
			d.refreshing.Store(false)
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

// refreshSlots asks the Cluster for its slot map, one node after another until one answers. If none does, it keeps the old map for
// another period.
func (d *Driver) refreshSlots(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, slotMapPeriod)
	defer cancel()
	asked := time.Now()
	m := &slotMap{masters: []string{""}}
	if old := d.slots.Load(); old != nil {
		*m = *old
	}
	client, err := d.connect(ctx)
	if err == nil {
		defer client.calls.Done()
		err = errNoNodes
		for addr, node := range client.Nodes() {
			nodeCtx, cancel := context.WithTimeout(ctx, nodeTimeout)
			reply := node.Send(nodeCtx, resp.New("cluster", "slots"))[0]
			cancel()
			var answer *slotMap
			if answer, err = parseSlots(reply.Value, addr); err == nil {
				m = answer
				break
			}
			err = cmp.Or(reply.Err, err)
		}
	}
	m.asked = asked
	d.slots.Store(m)
	return err
}

// parseSlots reads a reply to CLUSTER SLOTS of the node at addr, which may omit its own host.
func parseSlots(reply any, addr string) (*slotMap, error) {
	m := &slotMap{masters: []string{""}}
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
		if !is1 || !is2 || len(master) < 2 || first < 0 || last >= numSlots {
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

// route runs a script with that key. If the library is wrong about the key's node, the node redirects the script, and the library learns
// of the right one.
func (c *Client) route(ctx context.Context, key string) error {
	const source = "return 'master'"
	text, err := c.Send(ctx, resp.Whole(driver.Call{Script: driver.Script{Source: source}, Keys: []string{key}}))[0].Text()
	if err != nil || text != "master" {
		return fmt.Errorf("the script %q returned %q, %w", source, text, err)
	}
	return nil
}

var (
	errMalformed = errors.New("malformed reply to CLUSTER SLOTS")
	errNoNodes   = errors.New("the client knows no nodes of the Cluster")
)
