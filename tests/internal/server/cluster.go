package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
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

// Cluster is a cluster in which every master has a replica.
type Cluster struct {
	Nodes []*Server

	tb testing.TB
}

// StartReplicatedCluster starts a cluster of masters with one replica each, and waits until the replicas are in
// step. A node that is silent for a second is considered down.
func StartReplicatedCluster(tb testing.TB, bin Binary, masters int, opts ...Option) *Cluster {
	tb.Helper()
	opts = append([]Option{
		Conf("cluster-node-timeout", "1000"),
		Conf("cluster-replica-validity-factor", "0"),
	}, opts...)
	c := &Cluster{Nodes: startNodes(tb, bin, 2*masters, masters, opts), tb: tb}
	for i, replica := range c.Nodes[masters:] {
		id := c.id(c.Nodes[i])
		replica.agree("replication", func() error {
			_, err := replica.Do("CLUSTER", "REPLICATE", id)
			return err
		})
	}
	c.AwaitReplicas()
	return c
}

// AwaitReplicas waits until every running node is a master with slots or in step with one, and all of them know
// that.
func (c *Cluster) AwaitReplicas() {
	c.tb.Helper()
	masters := len(c.Nodes) / 2
	for _, s := range c.running() {
		s.agree("a replica in step", func() error {
			nodes, err := c.view(s)
			if err != nil {
				return err
			}
			n := 0
			for _, node := range nodes {
				if node.master {
					n++
				}
				if node.myself && !node.master {
					err = hasRole(s, "slave")
				}
			}
			if n != masters {
				return fmt.Errorf("%s sees %d masters that are well", s.Addr(), n)
			}
			return err
		})
	}
}

// Addrs returns the nodes' addresses.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// Owner waits until all nodes that answer name the same master of a slot, and returns it. Nodes in except,
// which are down or paused, neither count nor are asked.
func (c *Cluster) Owner(slot int, except ...*Server) *Server {
	c.tb.Helper()
	asked := slices.DeleteFunc(c.running(), func(s *Server) bool { return slices.Contains(except, s) })
	var owner *Server
	asked[0].agree("an owner of the slot", func() error {
		owner = nil
		for _, s := range asked {
			nodes, err := c.view(s)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(nodes, func(n clusterNode) bool { return n.master && n.owns(slot) })
			if i < 0 {
				return fmt.Errorf("%s knows no owner of slot %d", s.Addr(), slot)
			}
			named := c.at(nodes[i].addr)
			if slices.Contains(except, named) || owner != nil && owner != named {
				return fmt.Errorf("%s names %s", s.Addr(), nodes[i].addr)
			}
			owner = named
		}
		return hasRole(owner, "master")
	})
	return owner
}

// Masters returns the nodes that have slots, according to the first that runs.
func (c *Cluster) Masters() []*Server {
	c.tb.Helper()
	nodes := expect.Of(c.view(c.running()[0])).OK(c.tb)
	var masters []*Server
	for _, n := range nodes {
		if n.master && len(n.slots) > 0 {
			masters = append(masters, c.at(n.addr))
		}
	}
	return masters
}

// ReplicaOf returns the replica of a running master.
func (c *Cluster) ReplicaOf(master *Server) *Server {
	c.tb.Helper()
	nodes := expect.Of(c.view(master)).OK(c.tb)
	id := c.id(master)
	for _, n := range nodes {
		if n.of == id {
			return c.at(n.addr)
		}
	}
	c.tb.Fatalf("%s has no replica", master.Addr())
	return nil
}

// Failover makes a replica the master in agreement with the present master, so that no write is lost.
func (c *Cluster) Failover(replica *Server) {
	c.tb.Helper()
	must(c.tb, replica, "CLUSTER", "FAILOVER")
}

// Patience sets after how much silence running nodes, but those in except, consider others down. A second does
// not suit a test in which no master is to die at that time: on a busy machine replicas would take over.
func (c *Cluster) Patience(d time.Duration, except ...*Server) {
	c.tb.Helper()
	for _, s := range c.running() {
		if slices.Contains(except, s) {
			continue
		}
		must(c.tb, s, "CONFIG", "SET", "cluster-node-timeout", d.Milliseconds())
	}
}

func (c *Cluster) running() []*Server {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(s *Server) bool { return s.current().HasEnded() })
}

func (c *Cluster) at(addr string) *Server {
	if i := slices.IndexFunc(c.Nodes, func(s *Server) bool { return s.Addr() == addr }); i >= 0 {
		return c.Nodes[i]
	}
	return nil
}

func (c *Cluster) id(s *Server) string {
	c.tb.Helper()
	return fmt.Sprint(must(c.tb, s, "CLUSTER", "MYID"))
}

type clusterNode struct {
	id, addr string
	of       string // id of its master
	master   bool   // that is not considered down
	myself   bool
	slots    [][2]int
}

func (n clusterNode) owns(slot int) bool {
	return slices.ContainsFunc(n.slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] })
}

// view returns what a node knows of all nodes.
func (c *Cluster) view(s *Server) ([]clusterNode, error) {
	reply, err := s.Do("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	var nodes []clusterNode
	for line := range strings.Lines(fmt.Sprint(reply)) {
		// ID HOST:PORT@BUS[,NAME] FLAGS MASTER SENT RECEIVED EPOCH LINK SLOT...
		f := strings.Fields(line)
		if len(f) < 8 {
			return nil, fmt.Errorf("CLUSTER NODES: %q", line)
		}
		addr, _, _ := strings.Cut(f[1], "@")
		flags := strings.Split(f[2], ",")
		n := clusterNode{
			id: f[0], addr: addr, of: f[3],
			master: slices.Contains(flags, "master") && !slices.Contains(flags, "fail"),
			myself: slices.Contains(flags, "myself"),
		}
		for _, text := range f[8:] {
			var r [2]int
			switch n, _ := fmt.Sscanf(text, "%d-%d", &r[0], &r[1]); n {
			case 0: // a slot that is being moved, in brackets
				continue
			case 1:
				r[1] = r[0]
			}
			n.slots = append(n.slots, r)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}
