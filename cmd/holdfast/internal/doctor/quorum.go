package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor/report"
)

// ExamineQuorum examines the nodes of a quorum, each by itself and all together. Its error says that none can be
// reached, or is the cause if ctx has ended.
func ExamineQuorum(ctx context.Context, nodes []Config) (*report.Report, error) {
	all, errs := make([]*diagnosis, len(nodes)), make([]error, len(nodes))
	var examining sync.WaitGroup
	for i, cfg := range nodes {
		examining.Go(func() { all[i], errs[i] = diagnose(ctx, cfg) })
	}
	examining.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	q := newQuorum(nodes)
	var found []report.Finding
	for _, d := range all {
		if d != nil {
			found = append(found, d.findings...)
			q.reachable = append(q.reachable, d.subjects...)
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
	found = append(found, q.checkMachines()...)
	found = append(found, q.checkSeparate()...)
	found = append(found, q.checkNear()...)
	found = append(found, q.checkAdmitted(ctx)...)
	return report.New(strings.Join(q.addrs, ","), "quorum", q.addrs, found), nil
}

// maxNodes is the most nodes that a quorum has.
const maxNodes = 31

// quorum is the nodes of a quorum.
type quorum struct {
	addrs     []string
	ttl       time.Duration
	need      int        // how many must agree
	reachable []*subject // the nodes that can be reached
}

func newQuorum(nodes []Config) *quorum {
	q := &quorum{need: len(nodes)/2 + 1}
	for _, cfg := range nodes {
		q.addrs, q.ttl = append(q.addrs, cfg.Addr), cfg.TTL
	}
	return q
}

// absent is the finding about a node that cannot be reached.
func (q *quorum) absent(addr string, err error) report.Finding {
	saw := strings.TrimPrefix(err.Error(), "holdfast: ")
	if len(q.reachable) < q.need {
		return report.Quorum.Problem(saw, fmt.Sprintf("no lock can be acquired: %d of %d nodes must agree", q.need, len(q.addrs)), checkReachable).On(addr)
	}
	return report.Quorum.Warning(saw, fmt.Sprintf("locks can be acquired while %d of %d nodes agree, but fewer of them may fail now", q.need, len(q.addrs)), checkReachable).On(addr)
}

// checkSize checks the number of nodes.
func (q *quorum) checkSize() []report.Finding {
	n := len(q.addrs)
	saw := fmt.Sprintf("%d nodes: a quorum has 3 to %d", n, maxNodes)
	var f report.Finding
	switch {
	case n < 3:
		f = report.Quorum.Problem(saw, "Holdfast refuses it, because no node could fail", "name 3 servers, or one")
	case n > maxNodes:
		f = report.Quorum.Problem(saw, "Holdfast refuses it", fmt.Sprintf("name at most %d servers; 5 or 7 tolerate enough failures", maxNodes))
	case n%2 == 0:
		f = report.Quorum.Note(fmt.Sprintf("%d nodes, %d of which must agree", n, q.need), fmt.Sprintf("%d may fail, as with %d nodes", n-q.need, n-1),
			fmt.Sprintf("if that is too few, name %d: then %d may fail", n+1, n+1-q.need))
	default:
		return nil
	}
	return []report.Finding{f.On(q.addrs...)}
}

// checkMachines checks that no machine has a majority.
func (q *quorum) checkMachines() (found []report.Finding) {
	n := len(q.addrs)
	on := map[string][]string{}
	for _, addr := range q.addrs {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			on[host] = append(on[host], addr)
		}
	}
	for host, addrs := range on {
		if len(addrs) > 1 && len(addrs) > n-q.need {
			found = append(found, report.Quorum.Note(fmt.Sprintf("%d of %d nodes are on %s", len(addrs), n, host),
				"if this machine fails, no majority is left", "run each node on a machine of its own").On(addrs...))
		}
	}
	return found
}

// checkSeparate checks that each node is a server of its own.
func (q *quorum) checkSeparate() (found []report.Finding) {
	for i, n := range q.reachable {
		for _, m := range q.reachable[:i] {
			switch {
			case n.ID() == "":
			case n.ID() == m.ID():
				found = append(found, report.Quorum.Problem(fmt.Sprintf("%s and %s are the same server", m.Addr, n.Addr),
					"it has two votes: if it fails or loses its data, two nodes do", "name each server once").On(m.Addr, n.Addr))
			case n.ReplicationID() != "" && n.ReplicationID() == m.ReplicationID():
				found = append(found, report.Quorum.Problem(fmt.Sprintf("%s and %s are master and replica, or replicas of one master", m.Addr, n.Addr),
					"they do not vote independently, and a replica grants nothing", "name only masters, none of which has another as its replica").On(m.Addr, n.Addr))
			}
		}
	}
	return found
}

// nodeTimeout is the longest that the library waits for a node without the option NodeTimeout. Within that, it adapts
// to the round trips that it measures.
func nodeTimeout(ttl time.Duration) time.Duration { return min(ttl/4, 2*time.Second) }

// checkNear checks that nodes answer in the time for which the library waits.
func (q *quorum) checkNear() (found []report.Finding) {
	wait := nodeTimeout(q.ttl)
	var late, tight []string
	var slowest time.Duration
	for _, n := range q.reachable {
		if len(n.pings) == 0 {
			continue
		}
		trip := median(n.pings)
		slowest = max(slowest, trip)
		switch {
		case trip > wait:
			late = append(late, n.Addr)
		case trip > wait/3: // the library waits for three times a round trip
			tight = append(tight, n.Addr)
		}
	}
	saw := fmt.Sprintf("a round trip takes up to %s, and with a TTL of %s the library waits for a node for at most %s", short(slowest), q.ttl, wait)
	const remedy = "a longer TTL, or nearer nodes"
	switch {
	case len(late) > 0 && len(q.addrs)-len(late) < q.need:
		found = append(found, report.Quorum.Problem(saw, fmt.Sprintf("most locks cannot be acquired: %d of %d nodes must agree in time", q.need, len(q.addrs)), remedy).On(late...))
	case len(late) > 0:
		found = append(found, report.Quorum.Warning(saw, fmt.Sprintf("the others must agree without it: locks can be acquired while %d of them do", q.need), remedy).On(late...))
	}
	if len(tight) > 0 {
		found = append(found, report.Quorum.Note(saw, "a vote that takes longer than usual arrives too late", remedy).On(tight...))
	}
	return found
}

// incarnationMark matches what incarnation.lua writes: an incarnation, and until when, by the server's clock, the
// server grants nothing.
var incarnationMark = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^hf2:([^:]*):(\d+):\d+$`) })

// checkAdmitted checks that nodes grant locks, by reading their marks. It sends nothing that begins a quarantine.
func (q *quorum) checkAdmitted(ctx context.Context) (found []report.Finding) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var admitted []string
	var idle []report.Finding
	for _, n := range q.reachable {
		why, remedy, err := n.whyIdle(ctx)
		switch {
		case err != nil:
			found = append(found, report.Quorum.Unchecked("GET", err).On(n.Addr))
		case why == "":
			admitted = append(admitted, n.Addr)
		default:
			idle = append(idle, report.Quorum.Warning(why, "it grants nothing: the others must agree without it", remedy).On(n.Addr))
		}
	}
	if len(admitted) > 0 {
		found = append(found, report.Quorum.OK("admitted, and not in quarantine").On(admitted...))
	}
	for _, f := range idle {
		if len(q.addrs)-len(idle) < q.need {
			f.Severity = report.Problem
		}
		found = append(found, f)
	}
	return found
}

// whyIdle says why a node grants nothing, and what to do; why is "" if it does grant locks.
func (s *subject) whyIdle(ctx context.Context) (why, remedy string, err error) {
	if err := s.InfoErr(); err != nil {
		return "", "", err
	}
	self := s.ID() + "/" + s.ReplicationID()
	mark, err := s.Client.Get(ctx, s.probe.space.Incarnation()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", "", err
	}
	caughtUp, err := s.Client.Get(ctx, s.probe.space.CaughtUp()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", "", err
	}
	now, err := s.Client.Time(ctx).Result()
	if err != nil {
		return "", "", err
	}
	parts := incarnationMark().FindStringSubmatch(mark)
	if parts == nil {
		return "not admitted yet", "if the quorum is new, run holdfast init with all its nodes; a node that was replaced, or came back empty, is admitted by the others after its quarantine", nil
	}
	if parts[1] != self {
		return "restarted, or got its first replica, and has not been asked for a lock since",
			"it counts again after a quarantine, which begins when somebody asks it for a lock", nil
	}
	ready, _ := strconv.ParseInt(parts[2], 10, 64)
	if left := time.UnixMicro(ready).Sub(now); left > 0 {
		return fmt.Sprintf("in quarantine for another %s: it may have lost locks that are still held", left.Round(time.Second)), "wait", nil
	}
	if caughtUp != self {
		return "does not know yet which fences the others have granted",
			"the next program that asks for a lock tells it, if a majority of the others can be reached; if a majority has restarted: once all nodes answer; if nodes are new, or have lost their data: holdfast init with all nodes", nil
	}
	return "", "", nil
}
