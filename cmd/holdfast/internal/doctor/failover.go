package doctor

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/report"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/target"
)

// takeover is the time, with a margin, from when a master is considered down until programs renew their leases on the next one.
// TestALeaseOutlastsFailoversWithOneReplica in tests/topology measures it.
const takeover = 5 * time.Second

// killAfter is the default of --kill-after.
const killAfter = 5 * time.Second

// checkFailover checks that leases outlast a failover.
func checkFailover(d *target.Deployment, ttl time.Duration) []report.Finding {
	switch d.Mode {
	case "sentinel":
		return failoverOfSentinels(d.Sentinels, d.MasterName(), ttl)
	case "cluster":
		hasReplica := func(s *target.Server) bool { return s.Number("connected_slaves") > 0 }
		if masters := d.Masters(); slices.ContainsFunc(masters, hasReplica) {
			return failoverOfCluster(masters, ttl)
		}
	}
	return nil
}

func failoverOfSentinels(sentinels []*target.Sentinel, master string, ttl time.Duration) (found []report.Finding) {
	var down, timeout time.Duration
	var told []string
	for _, s := range sentinels {
		switch {
		case s.Err != nil:
		case s.TimesErr != nil:
			found = append(found, report.Failover.Unchecked("SENTINEL MASTER", s.TimesErr).On(s.Addr))
		default:
			down, timeout = max(down, s.DownAfter), max(timeout, s.FailoverTimeout)
			told = append(told, s.Addr)
		}
	}
	if told == nil {
		return found
	}
	set := fmt.Sprintf("on each sentinel, SENTINEL SET %s ", master)
	found = append(found, judgeFailover("down-after-milliseconds", set+"down-after-milliseconds", down, ttl).On(told...))
	if 2*timeout > longRetry {
		found = append(found, report.Failover.Note(fmt.Sprintf("failover-timeout %d", timeout.Milliseconds()),
			fmt.Sprintf("if a failover fails, the next attempt may begin only %s later: until then no lock is acquired or renewed, whatever its TTL", 2*timeout),
			set+"failover-timeout 20000").On(told...))
	}
	return found
}

// longRetry is the longest time between two attempts at a failover that needs no note.
const longRetry = time.Minute

func failoverOfCluster(masters []*target.Server, ttl time.Duration) []report.Finding {
	var timeout time.Duration
	for _, s := range masters {
		text, err := s.Setting("cluster-node-timeout", "")
		if err != nil {
			return []report.Finding{report.Failover.Unchecked("CONFIG GET", err).On(s.Addr)}
		}
		timeout = max(timeout, target.Milliseconds(text))
	}
	f := judgeFailover("cluster-node-timeout", "on each node, CONFIG SET cluster-node-timeout", timeout, ttl)
	return []report.Finding{f.On(target.Addrs(masters)...)}
}

// judgeFailover compares a TTL with the time until a failed master is considered down. A third of the TTL may have passed since the
// latest renewal when the master fails.
func judgeFailover(setting, set string, down, ttl time.Duration) report.Finding {
	const step = 500 * time.Millisecond // of a setting that is recommended
	needs := func(more time.Duration) time.Duration { return (down + takeover + more) * 3 / 2 }
	saw := fmt.Sprintf("%s %d, TTL %s", setting, down.Milliseconds(), ttl)
	switch {
	case ttl < needs(0):
		remedy := fmt.Sprintf("a TTL of %s would do, or %s for holdfast run with its --kill-after of %s", needs(0), needs(killAfter), killAfter)
		if fits := (ttl*2/3 - takeover).Truncate(step); fits >= time.Second {
			remedy += fmt.Sprintf("; or %s %d", set, fits.Milliseconds())
		}
		return report.Failover.Warning(saw, fmt.Sprintf("a replica may take over as late as %s after the master has failed: leases end before that", down+takeover), remedy)
	case ttl < needs(killAfter):
		return report.Failover.Note(saw, fmt.Sprintf("leases outlast a failover, but holdfast run ends its command %s before its lease expires", killAfter),
			fmt.Sprintf("for holdfast run, --ttl %s, or a shorter --kill-after", needs(killAfter)))
	}
	return report.Failover.OK(saw + ": leases outlast a failover")
}
