package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/report"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/target"
)

// checkTopology checks what connects the servers. It reports whether they are all servers that locks are on.
func checkTopology(ctx context.Context, d *target.Deployment) (found []report.Finding, complete bool) {
	switch d.Mode {
	case "sentinel":
		return checkSentinels(d.Sentinels), true
	case "cluster":
		return checkSlots(ctx, d), true
	}
	return checkPart(ctx, d)
}

// checkPart checks that a single server is not one of several in a Cluster.
func checkPart(ctx context.Context, d *target.Deployment) (found []report.Finding, complete bool) {
	for _, s := range d.Servers {
		field, err := s.ClusterInfo(ctx)
		if size, _ := strconv.Atoi(field["cluster_size"]); err == nil && size > 1 {
			return []report.Finding{report.Topology.Problem("the server is part of a Cluster, but the URL is that of a single server",
				"only locks whose slots it has can be acquired", "begin the URL with redis+cluster:// or rediss+cluster://").On(s.Addr)}, false
		}
	}
	return nil, true
}

// checkSlots checks that a Cluster serves all slots.
func checkSlots(ctx context.Context, d *target.Deployment) []report.Finding {
	if len(d.Servers) == 0 {
		return nil // it is reported that they cannot be reached
	}
	field, err := d.Servers[0].ClusterInfo(ctx)
	if err != nil {
		return []report.Finding{report.Topology.Unchecked("CLUSTER INFO", err).On(d.Servers[0].Addr)}
	}
	masters := len(d.Masters())
	f := report.Topology.OK(fmt.Sprintf("%s, %s, all slots served", report.Count(int64(masters), "master"), report.Count(int64(len(d.Servers)-masters), "replica")))
	if field["cluster_state"] != "ok" || field["cluster_slots_ok"] != "16384" {
		f = report.Topology.Problem(fmt.Sprintf("cluster_state %s, %s of 16384 slots served", field["cluster_state"], field["cluster_slots_ok"]),
			"locks in the other slots, or all locks, can be neither acquired nor renewed",
			"CLUSTER NODES shows which nodes have failed; bring them back, or move their slots")
	}
	return []report.Finding{f.On(target.Addrs(d.Servers)...)}
}

// checkSentinels checks that sentinels can agree on a failover, and that programs can learn of it.
func checkSentinels(all []*target.Sentinel) (found []report.Finding) {
	var answering []string // the addresses of the sentinels that answer
	problem, why := "", ""
	for _, s := range all {
		if s.IsMistaken() {
			found = append(found, report.Topology.Warning(s.Addr+": "+s.Err.Error(), "programs with this URL ask fewer sentinels for the master, and may not learn of a failover",
				"correct the URL, or what this sentinel watches").On(s.Addr))
			continue
		}
		if s.Err == nil {
			answering = append(answering, s.Addr)
			problem = cmp.Or(s.Problem, problem)
		} else {
			why += fmt.Sprintf("; %s: %s", s.Addr, report.Because("SENTINEL", s.Err))
		}
	}
	saw := fmt.Sprintf("%d of %s in the URL answer", len(answering), report.Count(int64(len(all)), "sentinel"))
	f := report.Topology.OK(saw)
	switch {
	case problem != "":
		f = report.Topology.Warning(saw+"; "+problem, "if the master fails, no replica is promoted: locks can be neither acquired nor renewed",
			"bring the other sentinels back")
	case why != "":
		f = report.Topology.Warning(saw+why, "with fewer sentinels, a failover may not happen, or programs may not learn of it",
			"bring the other sentinels back, or correct the URL")
	case len(answering) == 1:
		f = report.Topology.Note(saw, "while this one is down, programs cannot find the master", "add the others to the URL, with &addr=HOST:PORT")
	}
	return append(found, f.On(answering...))
}

// checkIdentity checks that all connections lead to the same server. Through a load balancer they may not.
func checkIdentity(ctx context.Context, d *target.Deployment) []report.Finding {
	if d.Mode != "server" || len(d.Servers) == 0 {
		return nil
	}
	s := d.Servers[0]
	if err := s.InfoErr(); err != nil {
		return []report.Finding{report.Identity.Unchecked("INFO", err).On(s.Addr)}
	}
	const more = 4
	ids := map[string]bool{s.ID(): true}
	for range more {
		rdb := redis.NewClient(target.SameOptions(s.Client))
		text, err := rdb.Info(ctx, "server").Result()
		_ = rdb.Close()
		if err != nil {
			return []report.Finding{report.Identity.Unchecked("INFO", err).On(s.Addr)}
		}
		_, rest, _ := strings.Cut(text, "run_id:")
		id, _, _ := strings.Cut(rest, "\r\n")
		ids[id] = true
	}
	f := report.Identity.OK(fmt.Sprintf("%d connections lead to one server", more+1))
	if len(ids) > 1 {
		f = report.Identity.Problem(fmt.Sprintf("%d connections lead to %d servers", more+1, len(ids)), "each of them grants the same lock",
			"connect to one server, or through Sentinel or Cluster, without a load balancer")
	}
	return []report.Finding{f.On(s.Addr)}
}
