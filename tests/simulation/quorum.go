package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/quorum"
)

// agreed is the form of locks that a majority of several servers grants. All locks of a world have it, or none.
const agreed form = "quorum"

// serverClock is the rate of a server's clock, and how far it is ahead of the clients'.
type serverClock struct {
	rate  float64
	shows time.Duration
}

// clocks returns the clocks of the world's servers.
func (p plan) clocks() []serverClock {
	if p.nodes != nil {
		return p.nodes
	}
	return []serverClock{{rate: p.rate}}
}

// need returns how many nodes are a majority.
func (p plan) need() int { return len(p.nodes)/2 + 1 }

// worstTrip returns the longest round trip, except for faults and lost packets.
func (p plan) worstTrip() time.Duration {
	return time.Duration(2 * slowestLink * maxDelay * float64(p.delay))
}

// patience returns how long to wait for a node that certainly answers in that time, even if the process has to
// dial and to send the script itself, and two packets are lost.
func (p plan) patience() time.Duration { return 4*p.worstTrip() + 2*maxSpike + time.Millisecond }

// drawQuorum makes every eighth world one of several servers. Its leases last longer than the node timeouts
// that such a world needs, but not so long that restarted nodes never return. Holds are short, since a waiter
// asks all nodes several times a second.
func (p *plan) drawQuorum(o spec) {
	r := random(p.seed, "quorum")
	if drawn := r.IntN(8) == 0; o.form != agreed && (o.form != "" || !drawn) {
		return
	}
	for range 3 + 2*r.IntN(2) {
		// The time that these clocks show does not matter.
		p.nodes = append(p.nodes, serverClock{1 + 0.018*(r.Float64()-0.5), time.Duration((r.Float64() - 0.5) * float64(2*time.Hour))})
	}
	p.several = nil
	p.length = min(p.length, 40*time.Minute)
	for i := range p.names {
		n := &p.names[i]
		n.form, n.key, n.foreign = agreed, "", false
		n.hold[1] = min(n.hold[1], between(r, time.Second, 10*time.Second))
		n.hold[0] = min(n.hold[0], n.hold[1]/10)
	}
	p.delay = between(r, 50*time.Microsecond, 5*time.Millisecond)
	longest := between(r, 5*time.Second, 40*time.Second)
	for i := range p.processes {
		c := &p.processes[i].config
		c.CommandTimeout = max(c.CommandTimeout, p.patience())
		for _, worker := range p.processes[i].workers {
			for j := range worker.wants {
				worker.wants[j].agree(r, p, longest)
			}
		}
	}
	p.maxTTL = p.longest()
	for i := range p.processes {
		c := &p.processes[i].config
		c.Strict, c.MaxTTL, c.TTL = true, p.maxTTL, min(p.maxTTL, 15*time.Second)
	}
}

// agree turns a goroutine's want into one of a quorum, which is patient or has a node timeout that a slow
// connection may exceed.
func (w *want) agree(r *rand.Rand, p *plan, longest time.Duration) {
	w.poll = 0
	least := p.patience()
	w.patient = p.temper == Calm || chance(r, 50)
	if !w.patient {
		least = p.worstTrip() + time.Millisecond
	}
	w.ttl = min(max(w.ttl, 4*least), longest)
	if w.maxHold > 0 {
		w.maxHold = max(w.maxHold, 4*least)
	}
	w.nodeTimeout = between(r, least, w.ttl/4)
}

// fixed reports whether a lease is not renewed without a bound, and so does not get further nodes.
func (w want) fixed() bool { return !w.renew || w.maxHold > 0 || w.maxRenewals >= 0 }

// aim decides which servers a fault strikes: one, some or all. More of them restart or lose their data than in
// other worlds.
func (p plan) aim(faults []fault) {
	for i := range faults {
		f := &faults[i]
		f.nodes = []int{0}
		if p.nodes == nil {
			continue
		}
		r := random(p.seed, "aim", i)
		if chance(r, 25) {
			f.kind = [...]kind{restart, wipe, emptying, emptying}[r.IntN(4)]
			f.lasts = between(r, 10*time.Millisecond, 40*time.Second)
		}
		f.nodes = r.Perm(len(p.nodes))
		switch {
		case f.kind == crash || f.kind == closing: // it strikes a process, with all its connections
			f.nodes = f.nodes[:1]
		case f.kind == pause || chance(r, 20):
		case chance(r, 20):
			f.nodes = f.nodes[:1+r.IntN(len(f.nodes))]
		default:
			f.nodes = f.nodes[:1]
		}
	}
}

// spring makes a node lose its data, if such a fault is pending, as soon as a lease has only as many nodes as
// it needs and gets no more. If that node counted, the next process that asks would get the lock.
func (w *World) spring(addresses []string, lease *holdfast.Lease) {
	if len(addresses) > w.plan.need() || w.armed.Load() == 0 {
		return
	}
	_, port, _ := strings.Cut(addresses[lease.Fence()%uint64(len(addresses))], ":")
	i, err := strconv.Atoi(port)
	if err != nil || !w.mayRestart(i) {
		return
	}
	w.armed.Add(-1)
	w.ail(trouble{node: i, host: -1, until: time.Now().Add(aftermath)})
	w.nodes[i].server.do("FLUSHALL")
	w.note(-1, -1, "the data of server %d are gone", i)
}

// operator is the host from which nodes are admitted.
const operator = -100

// operatorDo calls f with a quorum of clients of its own.
func (w *World) operatorDo(f func(q *quorum.Quorum) error) error {
	p := &incarnation{host: operator}
	cfg := w.plan.processes[0].config
	cfg.Identity = "operator"
	w.connect(p, cfg)
	err := f(p.quorum(0))
	for _, way := range p.ways {
		_ = way.client.Close(context.Background())
		_ = way.rdb.Close()
	}
	return err
}

// admit admits the nodes, which are new.
func (w *World) admit() error {
	return w.operatorDo(func(q *quorum.Quorum) error { return inspect.NewQuorum(q).Admit(w.patience) })
}

// operate admits a lost majority once every earlier lease is over. Majorities are lost only in wild worlds.
func (w *World) operate() {
	since := time.Time{} // when a majority was found lost
	for {
		over := !w.sleepUntil(time.Since(w.begun) + time.Second)
		lost := w.behind(-1) >= w.plan.need()
		switch {
		case w.patience.Err() != nil, over && !lost:
			return
		case over:
			time.Sleep(time.Second)
		}
		switch {
		case !lost:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > w.plan.maxTTL+w.plan.maxTTL/50:
			err := w.operatorDo(func(q *quorum.Quorum) error { return inspect.NewQuorum(q).ForceAdmit(w.patience) })
			w.note(-1, -1, "the operator admits the nodes: %v", err == nil)
		}
	}
}

// mark returns the incarnation for which a node has a mark, and the end of its quarantine.
func (w *World) mark(n *node) (id string, ready time.Time) {
	text, _ := n.server.value(w.space.Incarnation)
	fields := strings.Split(text, ":")
	if len(fields) != 4 {
		return "", time.Time{}
	}
	µs, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return "", time.Time{}
	}
	return fields[1], time.UnixMicro(µs)
}

// isBehind reports whether a node does not count until it is caught up.
func (w *World) isBehind(n *node) bool {
	id, _ := w.mark(n)
	known, _ := n.server.value(w.space.CaughtUp)
	return !strings.HasPrefix(id, n.server.runID()+"/") || known != id
}

// behind returns how many nodes are behind, apart from one.
func (w *World) behind(but int) int {
	behind := 0
	for i, n := range w.nodes {
		if i != but && w.isBehind(n) {
			behind++
		}
	}
	return behind
}

// mayRestart reports whether a node may restart, or lose its data: a minority may and, in wild worlds, all may.
func (w *World) mayRestart(i int) bool {
	return len(w.nodes) == 1 || w.plan.temper == Wild || w.behind(i) < len(w.nodes)-w.plan.need()
}

// keeps reports whether a node will not grant a lock to another owner for that long, because it has the owner's
// lease or does not count until then.
func (w *World) keeps(n *node, i int, owner string, left time.Duration) bool {
	there := func(d time.Duration) bool { return time.Duration(float64(d)/n.server.rate) >= left }
	value, ttl := n.server.value(w.key(i))
	if strings.Contains(value, strconv.Quote(owner)) && there(ttl) {
		return true
	}
	id, ready := w.mark(n)
	if !strings.HasPrefix(id, n.server.runID()+"/") {
		return there(w.plan.maxTTL) // when that is noticed
	}
	return there(ready.Sub(n.server.now()))
}

// believeMajority compares what the holder believes with the nodes: while Err is nil, the lock is its own on a
// majority, and lasts longer than its deadline.
func (h *hand) believeMajority(i int, lease *holdfast.Lease) {
	left := time.Until(lease.Deadline())
	if left <= 0 {
		return
	}
	kept := 0
	var values []string
	for _, n := range h.w.nodes {
		value, ttl := n.server.value(h.w.key(i))
		values = append(values, fmt.Sprintf("%q for %s", value, ttl))
		if h.w.keeps(n, i, lease.Identity(), left) {
			kept++
		}
	}
	if kept < h.w.plan.need() {
		h.w.finding("%s believes for %s more to hold %s with fence %d; %d nodes keep it for that long: %s",
			lease.Identity(), left, lease.Name(), lease.Fence(), kept, strings.Join(values, ", "))
	}
}

// ballot acquires a lock of the quorum, holds it and releases it. The owner has a name of its own, by which
// nodes show which lease they have. After the faults, if the lock can be acquired, ballot tries until it
// succeeds.
func (h *hand) ballot(i int, ctx context.Context, try bool, way string) {
	n, want := h.w.plan.names[i], h.wants[i]
	for {
		e, begun := h.asks(i), time.Now()
		owner := fmt.Sprintf("%s/%d@%d", h.p.owner, h.number, e.Asked)
		l := h.p.quorum(want.nodeTimeout).Mutex(n.name, want.option(), holdfast.Identity(owner))
		away := h.w.awayAll(h.p)
		lease, err := acquire(l, ctx, try)
		switch {
		case h.p.dead.Load():
			return
		case err == nil:
			h.p.reached(h.p.quorum(want.nodeTimeout).Nodes(lease))
			if want.fixed() {
				h.w.spring(h.p.quorum(want.nodeTimeout).Nodes(lease), lease)
			}
			if h.have(e, i, lease, !try) {
				h.release(i, lease)
			}
			return
		}
		e.GaveUp = h.now()
		h.w.record(e, !try)
		h.note("%s %s: %s after %s", way, n.name, brief(err), time.Since(begun))
		h.judgeMinority(ctx, i, try, err, begun)
		// Rounds begin until RetryTimeout is over, and once more after a pause.
		longest := h.w.plan.processes[h.p.number].config.RetryTimeout + 300*time.Millisecond
		if took := time.Since(begun); try && !time.Now().After(away) && took > longest+2*want.nodeTimeout+time.Millisecond {
			h.w.finding("%s, goroutine %d: a majority of nodes is away, and TryAcquire of %s takes %s to fail, with a node timeout of %s",
				h.p.owner, h.number, n.name, took, want.nodeTimeout)
		}
		var few *quorum.Error
		if way != "" || !errors.As(err, &few) {
			return
		}
		time.Sleep(time.Second)
	}
}

// judgeMinority judges whether an acquire may have failed like this.
func (h *hand) judgeMinority(ctx context.Context, i int, try bool, err error, begun time.Time) {
	var few *quorum.Error
	if !errors.As(err, &few) || endedWith(ctx, err) { // it may say what kept it, too
		h.judgeRefusal(ctx, i, try, err, time.Since(begun))
		return
	}
	away := 0
	for node := range h.w.nodes {
		if h.w.ails(node, h.p.host) || try && contested(few, node) {
			away++
		}
	}
	switch {
	case errors.Is(err, holdfast.ErrClosed) && h.gone():
	case h.w.plan.temper == Wild && (errors.Is(err, holdfast.ErrNotAdmitted) || errors.Is(err, holdfast.ErrQuarantine) || errors.Is(err, holdfast.ErrUnavailable)):
	case h.calm, errors.Is(err, holdfast.ErrNotAdmitted), !errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, holdfast.ErrQuarantine):
		h.w.finding("%s, goroutine %d: Acquire of %s: %v", h.p.owner, h.number, few.Name, err)
	case h.wants[i].patient && away < h.w.plan.need():
		h.w.finding("%s, goroutine %d: a majority of nodes is well, and Acquire of %s fails: %v", h.p.owner, h.number, few.Name, err)
	}
}

// contested reports whether a node said that others want the lock. During faults, locks that it granted to them
// may last for as long as their TTL, since they cannot give them back; TryAcquire waits for RetryTimeout only.
func contested(few *quorum.Error, node int) bool {
	return slices.ContainsFunc(few.Nodes, func(n *quorum.NodeError) bool {
		said := n.Error()
		return strings.HasSuffix(n.Server, ":"+strconv.Itoa(node)) && (strings.Contains(said, "others want the lock") || strings.Contains(said, "too few others"))
	})
}

// reached records that the process has reached nodes.
func (p *incarnation) reached(addresses []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addresses = slices.Compact(slices.Sorted(slices.Values(append(p.addresses, addresses...))))
}

// awayAll returns until when a majority of nodes is certainly away for a process that had reached each of them.
// It returns the zero time if that is unknown, or if a node has restarted.
func (w *World) awayAll(p *incarnation) time.Time {
	p.mu.Lock()
	known := len(p.addresses)
	p.mu.Unlock()
	if known < len(w.nodes) || w.behind(-1) > 0 {
		return time.Time{}
	}
	var until []time.Time
	for _, n := range w.nodes {
		n.network.set(func() {
			h := n.network.hostOf(p.host)
			until = append(until, slices.MaxFunc([]time.Time{h.cutOff, n.network.paused, n.network.downUntil}, time.Time.Compare))
		})
	}
	slices.SortFunc(until, func(a, b time.Time) int { return b.Compare(a) })
	return until[w.plan.need()-1]
}

// trouble is a period in which a node is, or may be, away for a process.
type trouble struct {
	node  int
	host  int // -1: all hosts
	until time.Time
	link  *link // if not nil, the trouble also lasts for as long as this link is open
}

// aftermath is how long after a fault a process may still count the node as away: until requests without an
// answer are given up.
const aftermath = 40 * time.Second

func (w *World) ail(t trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.troubles = slices.DeleteFunc(w.troubles, func(old trouble) bool {
		return old.node == t.node && old.host == t.host && old.link == t.link && !old.until.After(t.until)
	})
	w.troubles = append(w.troubles, t)
}

// watch records which nodes are behind until ctx ends, often enough to see each of them before it is caught up.
func (w *World) watch(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(time.Second) {
		for i, n := range w.nodes {
			if w.isBehind(n) {
				w.ail(trouble{node: i, host: -1, until: time.Now().Add(aftermath)})
			}
		}
	}
}

// ails reports whether a node may be away for a process.
func (w *World) ails(i, host int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.troubles, func(t trouble) bool {
		return t.node == i && (t.host < 0 || t.host == host) && (time.Now().Before(t.until) || t.link != nil && t.link.lately(aftermath))
	})
}
