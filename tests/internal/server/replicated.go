package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

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
