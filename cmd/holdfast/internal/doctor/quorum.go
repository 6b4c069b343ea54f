package doctor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

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

// absent returns the finding about a node that cannot be reached.
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

// checkSeparate checks that each node is a server of its own.
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
