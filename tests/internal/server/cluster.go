package server

import (
	"fmt"
	"strconv"
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
		err := node.awaitFor(agreeTimeout, "cluster", func() error {
			err := clusterComplete(node, all, masters)
			// On a machine that stood still, a greeting was given up, and is not repeated.
			if err != nil && time.Since(introduced) > 10*time.Second {
				introduced = introduce(tb, nodes)
			}
			return err
		})
		if err != nil {
			tb.Fatal(err)
		}
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

// must runs a command that sets up a server.
func must(tb testing.TB, s *Server, command ...any) {
	tb.Helper()
	if _, err := s.Do(command...); err != nil {
		tb.Fatalf("%s: %v %v: %v", s.bin.Name, command[0], command[1], err)
	}
}
