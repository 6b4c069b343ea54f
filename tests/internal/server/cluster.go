package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

const slots = 16384

// StartCluster starts masters servers with cluster-enabled that share all
// slots evenly, in order, and waits until each of them knows that. Only after five minutes of silence do they
// consider each other down: on a machine that stands still for two seconds, all of them would refuse everything.
func StartCluster(tb testing.TB, bin Binary, masters int, opts ...Option) []*Server {
	tb.Helper()
	nodes := startNodes(tb, bin, masters, masters, opts)
	for _, node := range nodes {
		must(tb, node, "CONFIG", "SET", "cluster-node-timeout", 300000)
	}
	return nodes
}

// startNodes starts a cluster of all nodes, the first of which are masters. The others have no role yet.
func startNodes(tb testing.TB, bin Binary, all, masters int, opts []Option) []*Server {
	tb.Helper()
	opts = append([]Option{
		Conf("cluster-enabled", "yes"),
		Conf("cluster-announce-ip", "127.0.0.1"), // otherwise a node learns its own address from others, and late
		Conf("cluster-node-timeout", "2000"),
	}, opts...)
	nodes := make([]*Server, all)
	for i := range nodes {
		nodes[i] = Start(tb, bin, opts...)
		must(tb, nodes[i], "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < masters {
			must(tb, nodes[i], slotsOf(i, masters)...)
		}
	}
	introduced := introduce(tb, nodes)
	for _, node := range nodes {
		node.agree("cluster", func() error {
			err := clusterComplete(node, all, masters)
			// On a machine that stood still, a greeting was given up, and is not repeated.
			if err != nil && time.Since(introduced) > 10*time.Second {
				introduced = introduce(tb, nodes)
			}
			return err
		})
	}
	return nodes
}

// introduce makes all nodes meet the first.
func introduce(tb testing.TB, nodes []*Server) time.Time {
	tb.Helper()
	for _, node := range nodes[1:] {
		must(tb, node, "CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
	}
	return time.Now()
}

// slotsOf returns the command that gives the i-th of n servers its slots. It names each slot: ADDSLOTSRANGE
// came with Redis 7.
func slotsOf(i, n int) []any {
	command := []any{"CLUSTER", "ADDSLOTS"}
	for slot := i * slots / n; slot < (i+1)*slots/n; slot++ {
		command = append(command, slot)
	}
	return command
}

func clusterComplete(node *Server, all, masters int) error {
	reply, err := node.Do("CLUSTER", "INFO")
	if err != nil {
		return err
	}
	info := fields(fmt.Sprint(reply))
	for key, want := range map[string]string{
		"cluster_state":       "ok",
		"cluster_size":        strconv.Itoa(masters),
		"cluster_known_nodes": strconv.Itoa(all),
		"cluster_slots_ok":    strconv.Itoa(slots),
	} {
		if info[key] != want {
			return fmt.Errorf("%s is %q, not %s", key, info[key], want)
		}
	}
	return nil
}

func must(tb testing.TB, s *Server, command ...any) any {
	tb.Helper()
	reply, err := s.Do(command...)
	if err != nil {
		tb.Fatalf("%s: %v %v: %v", s.bin.Name, command[0], command[1], err)
	}
	return reply
}

// Move is the move of a slot from one master of a cluster to another, in the steps of redis-cli --cluster
// reshard.
type Move struct {
	From, To *Server

	c    *Cluster
	slot int
}

// StartMove begins to move a slot. From now on keys that do not exist are looked for at the new owner.
func (c *Cluster) StartMove(slot int, to *Server) *Move {
	c.tb.Helper()
	m := &Move{From: c.Owner(slot), To: to, c: c, slot: slot}
	must(c.tb, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.id(m.From))
	must(c.tb, m.From, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.id(to))
	return m
}

// Keys moves up to n keys, one by one, and returns them.
func (m *Move) Keys(n int) []string {
	m.c.tb.Helper()
	var moved []string
	for _, key := range must(m.c.tb, m.From, "CLUSTER", "GETKEYSINSLOT", m.slot, n).([]any) {
		moved = append(moved, key.(string))
		m.Key(key.(string))
	}
	return moved
}

// Key moves one key, if it exists.
func (m *Move) Key(key string) {
	m.c.tb.Helper()
	must(m.c.tb, m.From, "MIGRATE", "127.0.0.1", m.To.port, key, 0, 5000)
}

// Finish moves the remaining keys, and tells all masters of the new owner.
func (m *Move) Finish() {
	m.c.tb.Helper()
	for len(m.Keys(10)) > 0 {
	}
	id := m.c.id(m.To)
	must(m.c.tb, m.To, "CLUSTER", "SETSLOT", m.slot, "NODE", id)
	must(m.c.tb, m.From, "CLUSTER", "SETSLOT", m.slot, "NODE", id)
	m.c.Owner(m.slot)
}

// MovesAtomically reports whether the server can move slots by itself.
func (b Binary) MovesAtomically() bool { return b.Valkey && b.Major >= 9 }

// MoveAtomically makes a slot's owner move it with CLUSTER MIGRATESLOTS, which copies it as to a replica and
// then hands it over at one moment, and waits until that is done.
func (c *Cluster) MoveAtomically(slot int, to *Server) {
	c.tb.Helper()
	from := c.Owner(slot)
	must(c.tb, from, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", c.id(to))
	from.agree("the end of the migration", func() error {
		reply, err := from.Do("CLUSTER", "GETSLOTMIGRATIONS")
		if err != nil {
			return err
		}
		all, _ := reply.([]any)
		if len(all) == 0 {
			return fmt.Errorf("no migration")
		}
		switch state := fmt.Sprint(all[0]); {
		case strings.Contains(state, "success"):
			return nil
		case strings.Contains(state, "state failed"), strings.Contains(state, "state cancel"):
			return permanent{fmt.Errorf("the migration ended: %s", state)}
		default:
			return fmt.Errorf("it stands at %s", state)
		}
	})
	c.Owner(slot)
}
