package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/sentinel"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

// checkTopology checks a Cluster or sentinels. complete is false if there are locks on servers other than those examined.
func (e *examination) checkTopology(ctx context.Context) (found []Finding, complete bool) {
	if e.Mode == connect.Sentinel {
		return checkSentinels(e.sentinels), true
	}
	if len(e.servers) == 0 {
		return nil, true // discover has reported that the servers cannot be reached
	}
	first := e.servers[0]
	text, err := first.client.ClusterInfo(ctx).Result()
	field := fields(text)
	if e.Mode == connect.Single {
		if size, _ := strconv.Atoi(field["cluster_size"]); size > 1 {
			return []Finding{problem("topology", "the server is part of a Cluster, but the URL is that of a single server",
				"only locks whose slots it has can be acquired", "begin the URL with redis+cluster:// or rediss+cluster://").on(first.addr)}, false
		}
		return nil, true
	}
	if err != nil {
		return []Finding{unchecked("topology", "CLUSTER INFO", err).on(first.addr)}, true
	}
	masters := len(e.masters())
	f := fine("topology", fmt.Sprintf("%s, %s, all slots served",
		console.Count(masters, "master"), console.Count(len(e.servers)-masters, "replica")))
	if field["cluster_state"] != "ok" || field["cluster_slots_ok"] != "16384" {
		f = problem("topology", fmt.Sprintf("cluster_state %s, %s of 16384 slots served", field["cluster_state"], field["cluster_slots_ok"]),
			"locks in the other slots, or all locks, can be neither acquired nor renewed",
			"CLUSTER NODES shows which nodes have failed; bring them back, or move their slots")
	}
	return []Finding{f.on(addrs(e.servers)...)}, true
}

// checkSentinels checks that the sentinels can agree on a failover, and that programs can learn of it.
func checkSentinels(all []*sentinelAnswer) (found []Finding) {
	var answering []string // the addresses of the sentinels that answer
	trouble, why := "", ""
	for _, s := range all {
		switch {
		case sentinel.IsMistake(s.err):
			found = append(found, warning("topology", s.addr+": "+s.err.Error(),
				"programs with this URL ask fewer sentinels for the master, and may not learn of a failover",
				"correct the URL, or what this sentinel watches").on(s.addr))
		case s.err == nil:
			answering = append(answering, s.addr)
			trouble = cmp.Or(s.problem, trouble)
		default:
			why += fmt.Sprintf("; %s: %s", s.addr, because("SENTINEL", s.err))
		}
	}
	saw := fmt.Sprintf("%d of %s in the URL answer", len(answering), console.Count(len(all), "sentinel"))
	f := fine("topology", saw)
	switch {
	case trouble != "":
		f = warning("topology", saw+"; "+trouble, "if the master fails, no replica is promoted: locks can be neither acquired nor renewed",
			"bring the other sentinels back")
	case why != "":
		f = warning("topology", saw+why, "with fewer sentinels, a failover may not happen, or programs may not learn of it",
			"bring the other sentinels back, or correct the URL")
	case len(answering) == 1:
		f = note("topology", saw, "while this one is down, programs cannot find the master", "add the others to the URL, with &addr=HOST:PORT")
	}
	return append(found, f.on(answering...))
}

// checkIdentity checks that all connections lead to the same server. Behind a load balancer they may not.
func (e *examination) checkIdentity(ctx context.Context) []Finding {
	if e.Mode != connect.Single || len(e.servers) == 0 {
		return nil
	}
	s := e.servers[0]
	if s.infoErr != nil {
		return []Finding{unchecked("identity", "INFO", s.infoErr).on(s.addr)}
	}
	const more = 4
	ids := map[string]bool{s.runID(): true}
	for range more {
		rdb := redis.NewClient(sameOptions(s.client))
		text, err := rdb.Info(ctx, "server").Result()
		_ = rdb.Close()
		if err != nil {
			return []Finding{unchecked("identity", "INFO", err).on(s.addr)}
		}
		ids[fields(text)["run_id"]] = true
	}
	f := fine("identity", fmt.Sprintf("%d connections lead to one server", more+1))
	if len(ids) > 1 {
		f = problem("identity", fmt.Sprintf("%d connections lead to %d servers", more+1, len(ids)), "each of them grants the same lock",
			"connect to one server, or through Sentinel or Cluster, without a load balancer")
	}
	return []Finding{f.on(s.addr)}
}

const (
	// takeover is the time from when a master is considered down until programs renew their leases on the next master, with a margin.
	// TestALeaseOutlastsFailoversWithOneReplica in tests/topology measures it.
	takeover = 5 * time.Second
	// killAfter is the default of --kill-after.
	killAfter = 5 * time.Second
	// longRetry is the time between two attempts at a failover above which a note says so.
	longRetry = time.Minute
)

func (e *examination) checkFailover() (found []Finding) {
	var down, timeout time.Duration
	var told []string
	if e.Mode == connect.Cluster {
		masters := e.masters()
		if !slices.ContainsFunc(masters, func(s *server) bool { return s.number("connected_slaves") > 0 }) {
			return nil
		}
		for _, s := range masters {
			text, err := s.setting("cluster-node-timeout", "")
			if err != nil {
				return []Finding{unchecked("failover", "CONFIG GET", err).on(s.addr)}
			}
			down = max(down, milliseconds(text))
		}
		f := judgeFailover("cluster-node-timeout", "on each node, CONFIG SET cluster-node-timeout", down, e.TTL)
		return []Finding{f.on(addrs(masters)...)}
	}
	for _, s := range e.sentinels {
		switch {
		case s.err != nil:
		case s.timesErr != nil:
			found = append(found, unchecked("failover", "SENTINEL MASTER", s.timesErr).on(s.addr))
		default:
			down, timeout = max(down, s.downAfter), max(timeout, s.failoverTimeout)
			told = append(told, s.addr)
		}
	}
	if told == nil {
		return found
	}
	set := fmt.Sprintf("on each sentinel, SENTINEL SET %s ", e.Sentinel.MasterName)
	found = append(found, judgeFailover("down-after-milliseconds", set+"down-after-milliseconds", down, e.TTL).on(told...))
	if 2*timeout > longRetry {
		found = append(found, note("failover", fmt.Sprintf("failover-timeout %d", timeout.Milliseconds()),
			fmt.Sprintf("if a failover fails, the next attempt may begin only %s later: "+
				"until then no lock is acquired or renewed, whatever its TTL", 2*timeout),
			set+"failover-timeout 20000").on(told...))
	}
	return found
}

// judgeFailover compares the TTL with the time until a failed master is considered down. When the master fails, a third of the TTL may have
// passed since the latest renewal.
func judgeFailover(setting, set string, down, ttl time.Duration) Finding {
	const step = 500 * time.Millisecond // recommended settings are multiples of it
	needs := func(more time.Duration) time.Duration { return (down + takeover + more) * 3 / 2 }
	saw := fmt.Sprintf("%s %d, TTL %s", setting, down.Milliseconds(), ttl)
	switch {
	case ttl < needs(0):
		remedy := fmt.Sprintf("a TTL of %s would do, or %s for holdfast run with its --kill-after of %s", needs(0), needs(killAfter), killAfter)
		if fits := (ttl*2/3 - takeover).Truncate(step); fits >= time.Second {
			remedy += fmt.Sprintf("; or %s %d", set, fits.Milliseconds())
		}
		return warning("failover", saw,
			fmt.Sprintf("a replica may take over as late as %s after the master has failed: leases end before that", down+takeover), remedy)
	case ttl < needs(killAfter):
		return note("failover", saw,
			fmt.Sprintf("leases outlast a failover, but holdfast run ends its command %s before its lease expires", killAfter),
			fmt.Sprintf("for holdfast run, --ttl %s, or a shorter --kill-after", needs(killAfter)))
	}
	return fine("failover", saw+": leases outlast a failover")
}
