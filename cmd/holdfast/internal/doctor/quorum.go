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
)

// ExamineQuorum examines the nodes of a quorum, each by itself and beside the others. Its
// error says that none can be reached, or that ctx has ended.
func ExamineQuorum(ctx context.Context, nodes []Config) (*Report, error) {
	all, errs := make([]*examination, len(nodes)), make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, cfg := range nodes {
		wg.Go(func() { all[i], errs[i] = inspect(ctx, cfg) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	q := &quorum{nodes: nodes, need: len(nodes)/2 + 1}
	report := &Report{Mode: "quorum"}
	for i, x := range all {
		report.Servers = append(report.Servers, nodes[i].Addr)
		if x != nil {
			q.found = append(q.found, x.found...)
			q.there = append(q.there, x.nodes...)
		}
	}
	report.Server = strings.Join(report.Servers, ",")
	if len(q.there) == 0 {
		return nil, errors.Join(errs...)
	}
	for i, err := range errs {
		if err != nil {
			q.absent(nodes[i].Addr, err)
		}
	}
	q.size()
	q.apart()
	q.near()
	q.admitted(ctx)
	report.conclude(q.found)
	return report, nil
}

// maxNodes is how many nodes a quorum has at most.
const maxNodes = 31

// quorum is what is found of one.
type quorum struct {
	nodes []Config
	need  int     // so many have to agree
	there []*node // those that can be reached
	found []Finding
}

func (q *quorum) add(f Finding, addrs ...string) {
	f.ID, f.Servers = "quorum", addrs
	q.found = append(q.found, f)
}

// absent tells of a node that cannot be reached.
func (q *quorum) absent(addr string, err error) {
	f := Finding{
		Severity: Warning, Saw: strings.TrimPrefix(err.Error(), "holdfast: "),
		Consequence: fmt.Sprintf("locks can be had while %d of %d nodes agree, which bears fewer failures now", q.need, len(q.nodes)),
		Remedy:      "see whether it runs, and whether programs that take locks can reach it",
	}
	if len(q.there) < q.need {
		f.Severity, f.Consequence = Problem, fmt.Sprintf("no lock can be had: %d of %d nodes have to agree", q.need, len(q.nodes))
	}
	q.add(f, addr)
}

// size examines the number of nodes, and whether one machine has several.
func (q *quorum) size() {
	n := len(q.nodes)
	switch {
	case n < 3:
		q.add(Finding{
			Severity: Problem, Saw: fmt.Sprintf("%d nodes: a quorum has 3 to %d", n, maxNodes),
			Consequence: "Holdfast refuses it: no node could fail",
			Remedy:      "name 3 servers, or one",
		}, q.addrs()...)
	case n > maxNodes:
		q.add(Finding{
			Severity: Problem, Saw: fmt.Sprintf("%d nodes: a quorum has 3 to %d", n, maxNodes),
			Consequence: "Holdfast refuses it",
			Remedy:      fmt.Sprintf("name %d servers at most; 5 or 7 bear enough failures", maxNodes),
		}, q.addrs()...)
	case n%2 == 0:
		q.add(Finding{
			Severity: Note, Saw: fmt.Sprintf("%d nodes, of which %d have to agree", n, q.need),
			Consequence: fmt.Sprintf("%d may fail, as of %d", n-q.need, n-1),
			Remedy:      fmt.Sprintf("if that is too few, name %d: then %d may", n+1, n+1-q.need),
		}, q.addrs()...)
	}
	on := map[string][]string{}
	for _, addr := range q.addrs() {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			on[host] = append(on[host], addr)
		}
	}
	for host, addrs := range on {
		if len(addrs) > 1 && len(addrs) > n-q.need {
			q.add(Finding{
				Severity: Note, Saw: fmt.Sprintf("%d of %d nodes are on %s", len(addrs), n, host),
				Consequence: "when this machine fails, no majority is left",
				Remedy:      "have each node on a machine of its own",
			}, addrs...)
		}
	}
}

func (q *quorum) addrs() (all []string) {
	for _, cfg := range q.nodes {
		all = append(all, cfg.Addr)
	}
	return all
}

// apart examines whether each node is a server of its own.
func (q *quorum) apart() {
	for i, n := range q.there {
		for _, m := range q.there[:i] {
			f := Finding{Severity: Problem}
			switch id := n.info["run_id"]; {
			case id == "":
				continue
			case id == m.info["run_id"]:
				f.Saw = fmt.Sprintf("%s and %s are the same server", m.addr, n.addr)
				f.Consequence = "it has two votes: when it fails, or loses its data, two nodes do"
				f.Remedy = "name each server once"
			case n.info["master_replid"] != "" && n.info["master_replid"] == m.info["master_replid"]:
				f.Saw = fmt.Sprintf("%s and %s are master and replica, or replicas of one master", m.addr, n.addr)
				f.Consequence = "they do not vote by themselves, and a replica grants nothing"
				f.Remedy = "name masters only, none of which has another for its replica"
			default:
				continue
			}
			q.add(f, m.addr, n.addr)
		}
	}
}

// nodeTimeout is how long the library waits for a node at most, if NodeTimeout says nothing: it goes by the round
// trips that it measures, up to this.
func nodeTimeout(ttl time.Duration) time.Duration { return min(ttl/4, 2*time.Second) }

// near examines whether nodes answer within the time for which they are waited for.
func (q *quorum) near() {
	if len(q.nodes) == 0 {
		return
	}
	wait := nodeTimeout(q.nodes[0].TTL)
	var late, tight []string
	var slowest time.Duration
	for _, n := range q.there {
		if len(n.pings) == 0 {
			continue
		}
		trip := median(n.pings)
		slowest = max(slowest, trip)
		switch {
		case trip > wait:
			late = append(late, n.addr)
		case trip > wait/3: // three times a round trip is what the library waits for
			tight = append(tight, n.addr)
		}
	}
	f := Finding{
		Severity: Warning, Saw: fmt.Sprintf("a round trip takes up to %s, and a node is waited for %s at most with a TTL of %s", short(slowest), wait, q.nodes[0].TTL),
		Remedy: "a longer TTL, or nodes nearer by",
	}
	if len(late) > 0 {
		f.Consequence = fmt.Sprintf("the others have to agree without it: locks can be had while %d of them do", q.need)
		if len(q.nodes)-len(late) < q.need {
			f.Severity, f.Consequence = Problem, fmt.Sprintf("most locks cannot be had: %d of %d nodes have to agree in time", q.need, len(q.nodes))
		}
		q.add(f, late...)
	}
	if len(tight) > 0 {
		f.Severity, f.Consequence = Note, "a vote that takes longer than most comes too late"
		q.add(f, tight...)
	}
}

// mark is that of incarnation.lua: an incarnation, and until when, by the server's clock, it
// grants nothing.
var mark = regexp.MustCompile(`^hf1:([^:]*):(\d+):\d+$`)

// admitted examines whether nodes grant locks, by the marks that they have: nothing is asked
// of them that would begin a quarantine.
func (q *quorum) admitted(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var good, idle []string
	var found []Finding
	for _, n := range q.there {
		state, err := n.standing(ctx)
		switch {
		case err != nil:
			f := unchecked("quorum", "GET", err)
			f.Servers = []string{n.addr}
			q.found = append(q.found, f)
		case state.Saw == "":
			good = append(good, n.addr)
		default:
			idle = append(idle, n.addr)
			state.ID, state.Servers = "quorum", []string{n.addr}
			found = append(found, state)
		}
	}
	if len(good) > 0 {
		q.add(Finding{Severity: OK, Saw: "admitted, and not in quarantine"}, good...)
	}
	for _, f := range found {
		if len(q.nodes)-len(idle) < q.need {
			f.Severity = Problem
		}
		q.found = append(q.found, f)
	}
}

// standing says why a node grants nothing; Saw is "" if it does.
func (n *node) standing(ctx context.Context) (Finding, error) {
	f := Finding{Severity: Warning, Consequence: "it grants nothing: the others have to agree without it"}
	if n.infoErr != nil {
		return f, n.infoErr
	}
	self := n.info["run_id"] + "/" + n.info["master_replid"]
	written, err := n.rdb.Get(ctx, n.x.space.Incarnation()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return f, err
	}
	caught, err := n.rdb.Get(ctx, n.x.space.CaughtUp()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return f, err
	}
	now, err := n.rdb.Time(ctx).Result()
	if err != nil {
		return f, err
	}
	parts := mark.FindStringSubmatch(written)
	switch {
	case parts == nil:
		f.Saw = "not admitted yet"
		f.Remedy = "if the quorum is new, holdfast init with all its nodes; one that is replaced, or came back empty, is let in by the others after its quarantine"
	case parts[1] != self:
		f.Saw = "restarted, or given its first replica, and nobody has asked it for a lock since"
		f.Remedy = "it counts again after a quarantine, which begins when somebody asks it for a lock"
	default:
		ready, _ := strconv.ParseInt(parts[2], 10, 64)
		if left := time.UnixMicro(ready).Sub(now); left > 0 {
			f.Saw = fmt.Sprintf("in quarantine for another %s: it may have lost locks that are still held", left.Round(time.Second))
			f.Remedy = "wait"
		} else if caught != self {
			f.Saw = "not told yet which fences the others have granted"
			f.Remedy = "whoever asks for a lock next tells it, if a majority of the others can be reached; if a majority has restarted: once all nodes answer; if nodes are new, or have lost their data: holdfast init with all nodes"
		}
	}
	return f, nil
}
