package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// topology examines what holds the nodes together. It reports whether this is all of
// what locks are on, and not a part.
func (x *examination) topology(ctx context.Context) (whole bool) {
	switch {
	case x.Sentinel != nil:
		x.sentinels(ctx)
	case x.cluster() != nil:
		x.slots(ctx)
	default:
		return !x.part(ctx)
	}
	return true
}

// part reports whether the one server is a node among others of a Cluster.
func (x *examination) part(ctx context.Context) bool {
	for _, n := range x.nodes {
		field, err := n.clusterInfo(ctx)
		if size, _ := strconv.Atoi(field["cluster_size"]); err != nil || size < 2 {
			continue
		}
		n.add(Finding{
			ID: "topology", Severity: Problem, Saw: "the server is part of a Cluster, the URL that of one server",
			Consequence: "only the locks whose slots it has can be had",
			Remedy:      "begin the URL with redis+cluster:// or rediss+cluster://",
		})
		return true
	}
	return false
}

func (n *node) clusterInfo(ctx context.Context) (map[string]string, error) {
	text, err := n.rdb.ClusterInfo(ctx).Result()
	field := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		field[key] = value
	}
	return field, err
}

// slots examines whether the Cluster serves all of them.
func (x *examination) slots(ctx context.Context) {
	if len(x.nodes) == 0 {
		return // each says itself that it cannot be reached
	}
	field, err := x.nodes[0].clusterInfo(ctx)
	if err != nil {
		x.add(unchecked("topology", "CLUSTER INFO", err).on(x.nodes[0]))
		return
	}
	masters := 0
	for _, n := range x.nodes {
		if !n.replica {
			masters++
		}
	}
	f := Finding{ID: "topology", Severity: OK, Saw: fmt.Sprintf("%s, %s, all slots served",
		count(int64(masters), "master"), count(int64(len(x.nodes)-masters), "replica"))}
	if field["cluster_state"] != "ok" || field["cluster_slots_ok"] != "16384" {
		f.Severity = Problem
		f.Saw = fmt.Sprintf("cluster_state %s, %s of 16384 slots served", field["cluster_state"], field["cluster_slots_ok"])
		f.Consequence = "locks in the other slots, or all of them, can neither be had nor renewed"
		f.Remedy = "CLUSTER NODES shows which nodes have failed; bring them back, or give their slots to others"
	}
	x.add(f.on(x.nodes...))
}

// sentinels examines whether they can agree on a failover.
func (x *examination) sentinels(ctx context.Context) {
	var answering []string
	verdict := ""
	for _, addr := range x.Sentinel.SentinelAddrs {
		s, err := x.sentinel(ctx, addr)
		if err != nil {
			continue
		}
		answering = append(answering, addr)
		if err := s.CkQuorum(ctx, x.Sentinel.MasterName).Err(); err != nil && !strings.HasPrefix(err.Error(), "NOPERM") {
			verdict = said(err)
		}
		_ = s.Close()
	}
	f := Finding{ID: "topology", Severity: OK, Servers: answering,
		Saw: fmt.Sprintf("%d of %s in the URL answer", len(answering), count(int64(len(x.Sentinel.SentinelAddrs)), "sentinel"))}
	const consequence = "when the master fails, nobody is promoted: locks can neither be had nor renewed"
	switch {
	case verdict != "":
		f.Severity, f.Saw, f.Consequence = Warning, f.Saw+"; "+verdict, consequence
		f.Remedy = "bring the other sentinels back"
	case len(answering) < len(x.Sentinel.SentinelAddrs):
		f.Severity, f.Consequence = Warning, "with fewer sentinels, a failover may not come about, or not be found"
		f.Remedy = "bring the other sentinels back, or correct the URL"
	case len(answering) == 1:
		f.Severity, f.Consequence = Note, "while that one is down, programs do not find the master"
		f.Remedy = "name the others in the URL too, with &addr=HOST:PORT"
	}
	x.add(f)
}

// identity examines whether connections lead to one server: through a balancer they
// may not.
func (x *examination) identity(ctx context.Context) {
	if x.mode() != "server" || len(x.nodes) == 0 {
		return
	}
	n := x.nodes[0]
	if n.infoErr != nil {
		n.add(unchecked("identity", "INFO", n.infoErr))
		return
	}
	const connections = 4
	ids := map[string]bool{n.info["run_id"]: true}
	for range connections {
		rdb := redis.NewClient(alike(n.rdb.Options()))
		text, err := rdb.Info(ctx, "server").Result()
		_ = rdb.Close()
		if err != nil {
			n.add(unchecked("identity", "INFO", err))
			return
		}
		_, rest, _ := strings.Cut(text, "run_id:")
		id, _, _ := strings.Cut(rest, "\r\n")
		ids[id] = true
	}
	f := Finding{ID: "identity", Severity: OK, Saw: fmt.Sprintf("%d connections lead to one server", connections+1)}
	if len(ids) > 1 {
		f.Severity, f.Saw = Problem, fmt.Sprintf("%d connections lead to %d servers", connections+1, len(ids))
		f.Consequence = "each of them grants the same lock"
		f.Remedy = "connect to one server, or through Sentinel or Cluster, without a balancer between"
	}
	n.add(f)
}
