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
)

// agreed is the form of locks that a majority of several servers hands out. All of a world's are
// of it, or none.
const agreed form = "quorum"

// serverClock is at which rate a server's clock runs, and how much more it shows than the
// clients'.
type serverClock struct {
	rate  float64
	shows time.Duration
}

// clocks are those of the world's servers.
func (p plan) clocks() []serverClock {
	if p.nodes != nil {
		return p.nodes
	}
	return []serverClock{{rate: p.rate}}
}

// need is how many nodes are a majority.
func (p plan) need() int { return len(p.nodes)/2 + 1 }

// worstTrip is the longest time there and back, but for faults and packets that are lost.
func (p plan) worstTrip() time.Duration {
	return time.Duration(2 * slowestLink * maxDelay * float64(p.delay))
}

// patience is how long a node is waited for that certainly answers in that time: also to who has
// to dial, and to send the script itself; and of what is sent, two packets are lost.
func (p plan) patience() time.Duration { return 4*p.worstTrip() + 2*maxSpike + time.Millisecond }

// drawQuorum makes every eighth world one of several servers. Its leases last for longer than
// the node timeouts that such a world needs, and not for so long that nodes which restart are
// never back. Holds are short, since who waits asks all nodes several times a second.
func (p *plan) drawQuorum(o Options) {
	r := random(p.seed, "quorum")
	if drawn := r.IntN(8) == 0; o.Form != agreed && (o.Form != "" || !drawn) {
		return
	}
	for range 3 + 2*r.IntN(2) {
		// What they show does not matter.
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

// agree makes a goroutine's wish one of a quorum: patient, or with a node timeout that a slow
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

// fixed reports whether a lease is not renewed without a bound, and so not taken on further nodes.
func (w want) fixed() bool { return !w.renew || w.maxHold > 0 || w.maxRenewals >= 0 }

// aim decides which servers a fault befalls: one, some or all. Some more restart or lose what
// they have than in other worlds.
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
		case f.kind == crash || f.kind == closing: // of a process, with all its connections
			f.nodes = f.nodes[:1]
		case f.kind == pause || chance(r, 20):
		case chance(r, 20):
			f.nodes = f.nodes[:1+r.IntN(len(f.nodes))]
		default:
			f.nodes = f.nodes[:1]
		}
	}
}

// spring has a node lose its data, if a fault waits for that, as soon as a lease has no more nodes
// than it needs, and gets no more: the next who asks has it, if that node counts.
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

// operatorDo calls f with a quorum client of its own.
func (w *World) operatorDo(f func(q *holdfast.Quorum) error) error {
	p := &incarnation{host: operator}
	cfg := w.plan.processes[0].config
	cfg.Owner = "operator"
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
	return w.operatorDo(func(q *holdfast.Quorum) error { return q.Admit(w.patience) })
}

// operate admits a majority that was lost, once no lease of before is believed in any more. Only
// in wild worlds there is one.
func (w *World) operate() {
	since := time.Time{} // when a majority was found to be lost
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
			err := w.operatorDo(func(q *holdfast.Quorum) error { return q.ForceAdmit(w.patience) })
			w.note(-1, -1, "the operator admits the nodes: %v", err == nil)
		}
	}
}

// mark returns the incarnation for which a node has a mark, and until when it is in quarantine.
func (w *World) mark(n *node) (id string, ready time.Time) {
	text, _ := n.server.value(w.space.Incarnation())
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

// isBehind reports whether a node counts for nothing until it is caught up.
func (w *World) isBehind(n *node) bool {
	id, _ := w.mark(n)
	known, _ := n.server.value(w.space.CaughtUp())
	return !strings.HasPrefix(id, n.server.runID()+"/") || known != id
}

// behind is how many nodes are, but for that one.
func (w *World) behind(but int) int {
	behind := 0
	for i, n := range w.nodes {
		if i != but && w.isBehind(n) {
			behind++
		}
	}
	return behind
}

// mayRestart reports whether a node may restart, or lose its data: a minority may, and in wild
// worlds all.
func (w *World) mayRestart(i int) bool {
	return len(w.nodes) == 1 || w.plan.temper == Wild || w.behind(i) < len(w.nodes)-w.plan.need()
}

// keeps reports whether a node gives a lock to nobody else for so long: it is the owner's there,
// or the node counts for nothing until then.
func (w *World) keeps(n *node, i int, owner string, left time.Duration) bool {
	there := func(d time.Duration) bool { return time.Duration(float64(d)/n.server.rate) >= left }
	value, ttl := n.server.value(w.key(i))
	if strings.Contains(value, strconv.Quote(owner)) && there(ttl) {
		return true
	}
	id, ready := w.mark(n)
	if !strings.HasPrefix(id, n.server.runID()+"/") {
		return there(w.plan.maxTTL) // when it is noticed
	}
	return there(ready.Sub(n.server.now()))
}

// believeMajority compares what the holder believes with what the nodes have: while Err is nil, the
// lock is its own on a majority, and for longer than its deadline.
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
		if h.w.keeps(n, i, lease.Owner(), left) {
			kept++
		}
	}
	if kept < h.w.plan.need() {
		h.w.finding("%s believes for %s more to hold %s with fence %d; %d nodes keep it for that long: %s",
			lease.Owner(), left, lease.Name(), lease.Fence(), kept, strings.Join(values, ", "))
	}
}

// ballot takes a lock of the quorum, holds it and releases it. The owner has a name of its own,
// so that nodes tell which lease they have. When the faults are over, and it can be had, it tries
// until it has it.
func (h *hand) ballot(i int, ctx context.Context, try bool, way string) {
	n, want := h.w.plan.names[i], h.wants[i]
	for {
		e, begun := h.asks(i), time.Now()
		owner := fmt.Sprintf("%s/%d@%d", h.p.owner, h.number, e.Asked)
		l := h.p.quorum(want.nodeTimeout).Mutex(n.name, want.option(), holdfast.Owner(owner))
		acquire := l.Acquire
		if try {
			acquire = l.TryAcquire
		}
		away := h.w.awayAll(h.p)
		lease, err := acquire(ctx)
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
		// Rounds begin until RetryTimeout is over, and after one pause more.
		longest := h.w.plan.processes[h.p.number].config.RetryTimeout + 300*time.Millisecond
		if took := time.Since(begun); try && !time.Now().After(away) && took > longest+2*want.nodeTimeout+time.Millisecond {
			h.w.finding("%s, goroutine %d: a majority of nodes is away, and TryAcquire of %s takes %s to fail, with a node timeout of %s",
				h.p.owner, h.number, n.name, took, want.nodeTimeout)
		}
		var few *holdfast.QuorumError
		if way != "" || !errors.As(err, &few) {
			return
		}
		time.Sleep(time.Second)
	}
}

// judgeMinority finds out whether an acquire may have failed like this.
func (h *hand) judgeMinority(ctx context.Context, i int, try bool, err error, begun time.Time) {
	var few *holdfast.QuorumError
	if !errors.As(err, &few) {
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

// contested reports whether a node said that others want the lock. While there are faults, what it granted
// them may stand for as long as their TTL, since they cannot give it back; TryAcquire waits for RetryTimeout only.
func contested(few *holdfast.QuorumError, node int) bool {
	return slices.ContainsFunc(few.Nodes, func(n *holdfast.NodeError) bool {
		said := n.Error()
		return strings.HasSuffix(n.Server, ":"+strconv.Itoa(node)) && (strings.Contains(said, "others want the lock") || strings.Contains(said, "too few others"))
	})
}

// reached notes that the process has reached nodes.
func (p *incarnation) reached(addresses []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addresses = slices.Compact(slices.Sorted(slices.Values(append(p.addresses, addresses...))))
}

// awayAll is until when a majority of nodes is away for a process for certain, which has reached
// each before; the zero time if that is open, or one has restarted.
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

// trouble is that a node is away, or may be, for a process.
type trouble struct {
	node  int
	host  int // -1: all
	until time.Time
	link  *link // it lasts for as long as that is open, too; or nil
}

// aftermath is for how long after a fault a process may still count the node as away: requests that
// nobody answered are given up then.
const aftermath = 40 * time.Second

func (w *World) ail(t trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.troubles = slices.DeleteFunc(w.troubles, func(old trouble) bool {
		return old.node == t.node && old.host == t.host && old.link == t.link && !old.until.After(t.until)
	})
	w.troubles = append(w.troubles, t)
}

// watch notes which nodes are behind, more often than one can be and be caught up, until ctx ends.
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
