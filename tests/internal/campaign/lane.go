package campaign

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/harness"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Clock is a server's wall clock that can be moved.
type Clock interface {
	Option() server.Option
	Jump(time.Duration)
}

// lane runs histories one at a time, on servers and with processes of its own.
type lane struct {
	cfg     *Config
	binary  server.Binary
	harness *harness.TB
	nodes   []*node
	cast    *cast
	guarded *registers
	played  int
}

// node is one of a lane's servers.
type node struct {
	*server.Server
	clock Clock
}

// renewal is the number of histories after which a lane gets new servers, whose logs of writes are short again.
const renewal = 60

// open makes sure that the servers run.
func (l *lane) open() error {
	if l.harness != nil && l.played < renewal {
		return nil
	}
	l.close()
	h := harness.New()
	l.harness, l.nodes, l.played = h, nil, 0
	h.Guard(func() {
		for range l.cfg.Subject.Nodes() {
			l.nodes = append(l.nodes, l.start(h))
		}
		l.guarded = newRegisters(h)
		l.cast = &cast{binary: l.cfg.Binary, harness: h}
		h.Cleanup(l.cast.close)
	})
	return h.Err()
}

func (l *lane) start(h *harness.TB) *node {
	n := &node{}
	options := []server.Option{
		server.Conf("appendonly", "yes"),
		server.Conf("appendfsync", "no"), // a write that was answered is in the file, though perhaps not on the disk
		server.Conf("auto-aof-rewrite-percentage", "0"),
		server.Conf("busy-reply-threshold", "50"),
		server.Conf("enable-debug-command", "yes"),
	}
	if l.cfg.Clock != nil {
		n.clock = l.cfg.Clock(h)
		options = append(options, n.clock.Option())
	}
	n.Server = server.Start(h, l.binary, options...)
	return n
}

func (l *lane) close() {
	if l.harness != nil {
		l.harness.Close()
		l.harness = nil
	}
}

// Record is what was recorded of a history.
type Record struct {
	Plan     *Plan           `json:"plan"`
	Events   []history.Event `json:"events"`
	*records `json:"-"`

	Strikes    []int64  `json:"strikes"`          // how often each kind struck
	Passed     []string `json:"passed,omitempty"` // waiters that were overtaken in the queue
	Fell       []string `json:"fell,omitempty"`   // grants of shares whose fence did not rise
	Ordered    bool     `json:"ordered"`          // Passed and Fell are complete
	Stuck      []string `json:"stuck,omitempty"`  // processes that did not finish
	Left       []string `json:"left,omitempty"`   // left on the server
	Began      int64    `json:"began"`            // by history.Now
	FaultsOver int64    `json:"faults_over"`
	Over       int64    `json:"over"`
}

// play carries out a plan. An error means that the history is void: the machine or this program failed, not the
// locks.
func (l *lane) play(ctx context.Context, p *Plan) (*Record, error) {
	if err := l.open(); err != nil {
		l.close()
		return nil, err
	}
	l.played++
	h := harness.New() // of this history
	r := &Record{Plan: p}
	h.Guard(func() { l.perform(ctx, h, r) })
	h.Close()
	if err := errors.Join(h.Err(), l.harness.Err()); err != nil || r.Stuck != nil {
		l.close()
		return r, err
	}
	return r, nil
}

func (l *lane) perform(ctx context.Context, h *harness.TB, r *Record) {
	p := r.Plan
	l.guarded.reset()
	scripts := slices.Clone(p.Processes)
	for i := range scripts {
		scripts[i].Resource = l.guarded.socket
	}
	strange := &strangers{}
	var scenes []*Scene // one for each node
	turns := &sync.Mutex{}
	for _, n := range l.nodes {
		l.reset(h, n)
		s := &Scene{ctx: ctx, plan: p, server: n.Server, clock: n.clock, turns: turns, power: turns, harness: h, cast: l.cast, strange: strange}
		if len(l.nodes) > 1 {
			s.power = &sync.Mutex{} // so that all can be down at the same time
		}
		for i := range scripts {
			via := proxy.New(h, n.Addr())
			s.proxies = append(s.proxies, via)
			scripts[i].Addr = via.Addr()
			if len(l.nodes) > 1 {
				scripts[i].Nodes = append(scripts[i].Nodes, via.Addr())
			}
		}
		scenes = append(scenes, s)
	}
	queues := &queueLog{}
	if l.cfg.Subject.HasQueue() {
		queues = followOn(l.nodes[0].Server, p.Names)
	}
	r.Began = history.Now()
	r.records = l.cast.begin(scripts)

	strikes := make([]atomic.Int64, len(p.Kinds))
	var faults sync.WaitGroup
	for _, f := range p.Faults {
		i := slices.IndexFunc(kinds, func(k *Kind) bool { return k.Name == f.Kind })
		for n, s := range scenes {
			if f.Node > 0 && f.Node-1 != n {
				continue
			}
			mine := *s
			mine.random, mine.strikes = rand.New(rand.NewPCG(f.Seed, 2)), &strikes[slices.Index(p.Kinds, f.Kind)]
			faults.Go(func() {
				mine.sleep(f.At)
				h.Guard(func() { kinds[i].Do(&mine) })
			})
		}
	}
	scenes[0].sleep(p.Active)
	faults.Wait()
	r.FaultsOver = history.Now()
	r.Stuck = l.cast.drain(p.patience(), func() []string { return l.state(p) })
	if r.Stuck == nil {
		r.Left = leftovers(func() []string {
			return l.eachNode(func(n *node) []string { return n.keys(h, p, l.cfg.Subject.Stays()) })
		})
		r.Stuck = l.cast.end()
	}
	if r.Stuck == nil {
		r.Left = append(r.Left, leftovers(func() []string { return l.eachNode((*node).channels) })...)
	}
	found := queues.end()
	r.Passed, r.Fell = found.passed, found.fell
	r.Ordered = found.whole && !p.has(func(k *Kind) bool { return k.HidesQueue })
	r.Over = history.Now()
	for i := range strikes {
		r.Strikes = append(r.Strikes, strikes[i].Load())
	}

	events, err := r.read()
	if err != nil {
		h.Fatal(err)
	}
	r.accesses = append(r.accesses, l.guarded.unheard(r.accesses)...)
	r.Events = append(believed(events, r.accesses), strange.events...)
}

// believed extends a deadline to the last time at which the lease reported that it was held, because the holder
// relied on that.
func believed(events []history.Event, accesses []worker.Access) []history.Event {
	latest := map[hold]int64{}
	for _, x := range accesses {
		h := hold{x.Process, x.Goroutine, x.Name, x.Fence}
		latest[h] = max(latest[h], x.Held)
	}
	for i := range events {
		e := &events[i]
		if at := latest[hold{e.Process, e.Goroutine, e.Name, e.Fence}]; e.Granted != 0 && at >= e.Granted {
			e.Deadline = max(e.Deadline, at+1)
		}
	}
	return events
}

// reset makes a server as it was at its start.
func (l *lane) reset(tb testing.TB, n *node) {
	c := expect.Of(n.Dial()).OK(tb)
	defer c.Close()
	for _, command := range []string{
		"CLIENT UNPAUSE",
		"REPLICAOF NO ONE",
		"CONFIG SET maxmemory 0 maxmemory-policy noeviction min-replicas-to-write 0",
		"ACL SETUSER default on nopass +@all allkeys allchannels",
		"FLUSHALL",
	} {
		var args []any
		for word := range strings.FieldsSeq(command) {
			args = append(args, word)
		}
		if _, err := c.Do(args...); err != nil {
			tb.Fatalf("%s: %v", command, err)
		}
	}
}

// leftovers calls look until it finds nothing, for at most 20 s, and returns its last result.
func leftovers(look func() []string) (left []string) {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left = look()
		if left == nil || time.Now().After(end) {
			return left
		}
	}
}

// eachNode returns what look finds on all nodes.
func (l *lane) eachNode(look func(*node) []string) (all []string) {
	for _, n := range l.nodes {
		all = append(all, look(n)...)
	}
	return all
}

// channels returns the subscriptions of clients that no longer exist.
func (n *node) channels() []string {
	reply, err := n.Do("PUBSUB", "CHANNELS")
	if list, _ := reply.([]any); err != nil || len(list) > 0 {
		return []string{fmt.Sprintf("channels %v %v", reply, err)}
	}
	return nil
}

// keys returns the keys that should not exist once all leases have ended. The clients still live, since they
// take back unanswered requests in the background. If stays is true, the keys of locks may exist, but without
// holds.
func (n *node) keys(h *harness.TB, p *Plan, stays bool) (left []string) {
	var jumps time.Duration
	if p.has(func(k *Kind) bool { return k.Breaks == ClockRun }) {
		jumps = 2 * longestJump
	}
	orphans := p.has(func(k *Kind) bool { return k.Orphans })
	keys, err := n.Do("KEYS", "*")
	list, ok := keys.([]any)
	if err != nil || !ok {
		return append(left, fmt.Sprintf("keys %v %v", keys, err))
	}
	for _, k := range list {
		isRecord := func(n Name) bool { return strings.HasPrefix(fmt.Sprint(k), n.record()) }
		if k == "holdfast:fences" || k == "holdfast:incarnation" || k == "holdfast:caughtup" || slices.ContainsFunc(p.Names, isRecord) {
			continue
		}
		isIndex := slices.ContainsFunc(p.Names, func(n Name) bool { return n.Queue+":e" == k })
		if !isIndex && !slices.ContainsFunc(p.Names, func(n Name) bool { return n.Queue == k || n.Key == k }) {
			// A client of an earlier server on this port may have found this one.
			h.Fatalf("somebody else uses this server: key %v", k)
		}
		ttl, _ := n.Do("PTTL", k)
		rest := time.Duration(0)
		if ms, ok := ttl.(int64); ok && ms >= 0 {
			rest = time.Duration(ms) * time.Millisecond
		}
		isQueue := slices.ContainsFunc(p.Names, func(n Name) bool { return n.Queue == k })
		waiters, err := n.Do("ZCOUNT", k, 0, "+inf")
		switch {
		case ttl == int64(-2): // gone meanwhile
		case isIndex && rest > 0 && rest <= 2*p.LongestTTL+jumps: // of holds that were ended by another
		case isQueue && err == nil && rest > 0 && (waiters == int64(0) || orphans) && rest <= time.Minute+jumps:
		case !isQueue && rest > 0 && (orphans || p.has(isStranger)) && rest <= 2*p.LongestTTL+jumps:
		case !isQueue && rest > 0 && stays && rest <= 24*time.Hour+jumps && (orphans || !n.isHeld(k)):
		default:
			value := n.value(k)
			members, _ := n.Do("ZRANGE", k, 0, -1, "WITHSCORES")
			left = append(left, fmt.Sprintf("key %v, for %s: %v %q", k, rest, value, members))
		}
	}
	return left
}

// state describes the locks on the server, to explain why a process waits.
func (l *lane) state(p *Plan) []string {
	return l.eachNode(func(n *node) (text []string) {
		for _, of := range p.Names {
			value := n.value(of.Key)
			ttl, _ := n.Do("PTTL", of.Key)
			members, _ := n.Do("ZRANGE", of.Queue, 0, -1, "WITHSCORES")
			text = append(text, fmt.Sprintf("lock %q: %v, for %v ms; queue %q", of.Name, value, ttl, members))
		}
		return text
	})
}

// value returns the value of a lock's key.
func (n *node) value(key any) any {
	value, err := n.Do("GET", key)
	if err != nil {
		value, _ = n.Do("HGETALL", key)
	}
	return value
}

// isHeld reports whether a lock that several may hold has holds that have not expired.
func (n *node) isHeld(key any) bool {
	now, err1 := n.Do("TIME")
	fields, err2 := n.Do("HVALS", key)
	clock, ok1 := now.([]any)
	values, ok2 := fields.([]any)
	if err1 != nil || err2 != nil || !ok1 || !ok2 || len(clock) != 2 {
		return true
	}
	micros, _ := strconv.ParseInt(fmt.Sprintf("%s%06s", clock...), 10, 64)
	return slices.ContainsFunc(values, func(v any) bool {
		parts := strings.SplitN(fmt.Sprint(v), ":", 5) // EXPIRY:WEIGHT:FENCE:GRANTED:INFO
		expiry, err := strconv.ParseInt(parts[0], 10, 64)
		return len(parts) == 5 && err == nil && expiry > micros
	})
}

func isStranger(k *Kind) bool { return k.Name == "stranger" }
