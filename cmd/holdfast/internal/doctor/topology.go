package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// examineQuorum examines the nodes of a quorum, each by itself and all together.
func examineQuorum(ctx context.Context, nodes []Config) (*Report, error) {
	all, errs := make([]*examination, len(nodes)), make([]error, len(nodes))
	var examining sync.WaitGroup
	for i, cfg := range nodes {
		examining.Go(func() { all[i], errs[i] = examine(ctx, cfg) })
	}
	examining.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	q := &quorum{need: len(nodes)/2 + 1}
	var found []Finding
	for i, e := range all {
		q.addrs = append(q.addrs, nodes[i].Addr)
		if e != nil {
			found = append(found, e.findings...)
			q.reachable = append(q.reachable, e.servers...)
		}
	}
	if len(q.reachable) == 0 {
		return nil, errors.Join(errs...)
	}
	for i, err := range errs {
		if err != nil {
			found = append(found, q.absent(nodes[i].Addr, err))
		}
	}
	found = append(found, q.checkSize()...)
	found = append(found, q.checkSeparate()...)
	found = append(found, q.checkAdmitted(ctx)...)
	return newReport(strings.Join(q.addrs, ","), "quorum", q.addrs, found), nil
}

// maxNodes is the maximum number of nodes of a quorum.
const maxNodes = 31

// quorum is the state of an examination of a quorum.
type quorum struct {
	addrs     []string
	need      int       // how many nodes must agree
	reachable []*server // the nodes that can be reached
}

func (q *quorum) absent(addr string, err error) Finding {
	saw := strings.TrimPrefix(err.Error(), "holdfast: ")
	if len(q.reachable) < q.need {
		consequence := fmt.Sprintf("no lock can be acquired: %d of %d nodes must agree", q.need, len(q.addrs))
		return problem("quorum", saw, consequence, checkReachable).on(addr)
	}
	consequence := fmt.Sprintf("locks can be acquired while %d of %d nodes agree, but fewer of them may fail now", q.need, len(q.addrs))
	return warning("quorum", saw, consequence, checkReachable).on(addr)
}

func (q *quorum) checkSize() []Finding {
	n := len(q.addrs)
	saw := fmt.Sprintf("%d nodes: a quorum has 3 to %d", n, maxNodes)
	switch {
	case n < 3:
		return []Finding{problem("quorum", saw, "Holdfast refuses it, because no node could fail", "name 3 servers, or one").on(q.addrs...)}
	case n > maxNodes:
		return []Finding{problem("quorum", saw, "Holdfast refuses it",
			fmt.Sprintf("name at most %d servers; 5 or 7 tolerate enough failures", maxNodes)).on(q.addrs...)}
	case n%2 == 0:
		return []Finding{note("quorum", fmt.Sprintf("%d nodes, %d of which must agree", n, q.need),
			fmt.Sprintf("%d may fail, as with %d nodes", n-q.need, n-1), fmt.Sprintf("if that is too few, name %d", n+1)).on(q.addrs...)}
	}
	return nil
}

func (q *quorum) checkSeparate() (found []Finding) {
	for i, n := range q.reachable {
		for _, m := range q.reachable[:i] {
			switch {
			case n.runID() == "":
			case n.runID() == m.runID():
				found = append(found, problem("quorum", fmt.Sprintf("%s and %s are the same server", m.addr, n.addr),
					"it has two votes: if it fails or loses its data, two nodes do", "name each server once").on(m.addr, n.addr))
			case n.replicationID() != "" && n.replicationID() == m.replicationID():
				found = append(found, problem("quorum", fmt.Sprintf("%s and %s are master and replica, or replicas of one master", m.addr, n.addr),
					"they do not vote independently, and a replica grants nothing",
					"name only masters, none of which has another as its replica").on(m.addr, n.addr))
			}
		}
	}
	return found
}

// incarnationMark matches what incarnation.lua writes: the incarnation, and when its quarantine ends by the server's clock.
var incarnationMark = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^hf2:([^:]*):(\d+):\d+$`) })

// checkAdmitted reads the nodes' marks to see whether they grant locks, and in time. It sends nothing that would begin a quarantine.
func (q *quorum) checkAdmitted(ctx context.Context) (found []Finding) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var admitted []string
	var idle []Finding
	for _, n := range q.reachable {
		why, remedy, err := n.whyIdle(ctx)
		switch {
		case err != nil:
			found = append(found, unchecked("quorum", "GET", err).on(n.addr))
		case why == "":
			admitted = append(admitted, n.addr)
		default:
			idle = append(idle, warning("quorum", why, "it does not count: the others must agree without it", remedy).on(n.addr))
		}
	}
	if len(admitted) > 0 {
		found = append(found, fine("quorum", "admitted, and not in quarantine").on(admitted...))
	}
	for _, f := range idle {
		if len(q.addrs)-len(idle) < q.need {
			f.Severity = Problem
		}
		found = append(found, f)
	}
	return found
}

// whyIdle says why a node grants no locks, or grants them too late, and what to do about it. why is "" if it does grant locks.
func (s *server) whyIdle(ctx context.Context) (why, remedy string, err error) {
	if s.infoErr != nil {
		return "", "", s.infoErr
	}
	self := s.runID() + "/" + s.replicationID()
	marks := [2]string{}
	for i, key := range []string{s.e.space.Incarnation, s.e.space.CaughtUp} {
		if marks[i], err = s.client.Get(ctx, key).Result(); err != nil && !errors.Is(err, redis.Nil) {
			return "", "", err
		}
	}
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return "", "", err
	}
	parts := incarnationMark().FindStringSubmatch(marks[0])
	if parts == nil {
		return "not admitted yet", "if the quorum is new, run holdfast init with all its nodes; " +
			"a node that was replaced, or came back empty, is admitted by the others after its quarantine", nil
	}
	if parts[1] != self {
		return "restarted, or got its first replica, and has not been asked for a lock since",
			"it counts again after a quarantine, which begins when somebody asks it for a lock", nil
	}
	ready, _ := strconv.ParseInt(parts[2], 10, 64)
	if left := time.UnixMicro(ready).Sub(now); left > 0 {
		return fmt.Sprintf("in quarantine for another %s: it may have lost locks that are still held", left.Round(time.Second)), "wait", nil
	}
	if marks[1] != self {
		return "does not know yet which fences the others have granted", "the next program that asks for a lock tells it, " +
			"if a majority of the others can be reached; if a majority has restarted: once all nodes answer; " +
			"if nodes are new, or have lost their data: holdfast init with all nodes", nil
	}
	if s.isLate() {
		return fmt.Sprintf("a round trip takes %s, and with a TTL of %s the library waits for a node for at most %s",
			console.Duration(s.roundTrip), s.e.TTL, nodeTimeout(s.e.TTL)), "a longer TTL, or nearer nodes", nil
	}
	return "", "", nil
}

// nodeTimeout is the upper limit for a node's reply without the option NodeTimeout. The library may lower the limit when it has measured
// round trips.
func nodeTimeout(ttl time.Duration) time.Duration { return min(ttl/4, 2*time.Second) }

// isLate reports whether a node's votes arrive too late to count.
func (s *server) isLate() bool { return s.roundTrip > nodeTimeout(s.e.TTL) }
