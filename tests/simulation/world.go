// Package simulation runs whole worlds of clients in virtual time. Each world is drawn from one number. It uses
// the real library, its adapter over go-redis, and its scripts on miniredis, in bubbles of testing/synctest.
// The network between clients and server is simulated: delays, lost and stalled connections, partitions,
// pauses, restarts. README.md says what that represents, what is checked, and what can be replayed.
package simulation

import (
	"context"
	secret "crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// World is one server, its clients and the faults that strike them, in a bubble of its own.
type World struct {
	plan  plan
	wrap  func(drivertest.Driver) drivertest.Driver // breaks the lock, if not nil
	begun time.Time
	*node // the first of nodes; the only one unless the world is a quorum's
	nodes []*node
	space keys.Space

	draining chan struct{} // closed when the faults are over, so that nobody begins anything new
	patience context.Context
	ended    sync.WaitGroup // everything but the main goroutine
	hands    atomic.Int64   // that have not ended
	armed    atomic.Int64   // faults that wait for a lease on few of a quorum's nodes

	mu        sync.Mutex
	present   []*incarnation // by process; nil while it is down
	born      int
	events    []history.Event
	jointly   map[uint64]bool // fences of locks that were acquired as one with others
	queued    map[uint64]bool // events of waiters with a place in the queue
	jobs      []jobRun
	carriages []*carriage
	crowd     crowd
	lines     []line
	findings  []string
	troubles  []trouble // of a quorum's nodes
	result    Result
}

// node is a server, and the network between it and the processes.
type node struct {
	server  *redisServer
	network *network
}

// incarnation is a client from its start to its end: a process, as the server sees it.
type incarnation struct {
	number int // of the process
	host   int // on the network: every incarnation has its own
	owner  string
	ways   []way            // to the nodes
	client *holdfast.Client // of the first

	mu        sync.Mutex
	quorums   map[time.Duration]*quorum.Quorum // of all nodes, by node timeout
	addresses []string                         // of nodes that it has reached
	ctx       context.Context                  // ends when the process does
	end       context.CancelFunc
	dead      atomic.Bool // it crashed: what it does from now on does not count
	idle      sync.WaitGroup
}

// way is how a process reaches a node.
type way struct {
	rdb    *redis.Client
	client *holdfast.Client
}

// spec says which world to run. What it leaves out is drawn from the seed.
type spec struct {
	seed   uint64
	form   form // of all locks. Mutexes are also acquired together then
	temper Temper
	length time.Duration // at most
	broken string        // the name of a broken lock; "" for a sound one
	moved  bool          // what it allocates has other addresses, which changes nothing in a build for replay
}

// run runs a world. wrap, if not nil, puts something between clients and their driver.
func run(t *testing.T, o spec, wrap func(drivertest.Driver) drivertest.Driver) Result {
	t.Helper()
	seed := o.seed
	w := &World{plan: newPlan(o), wrap: wrap, queued: map[uint64]bool{}}
	w.result = Result{Seed: seed, Temper: w.plan.temper, Nodes: len(w.plan.nodes), Faults: map[string]int{}}
	defer func(r io.Reader) { secret.Reader = r }(secret.Reader)
	secret.Reader = &tokens{from: random(seed, "tokens")}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // collect has it run
	synctest.Test(t, func(t *testing.T) {
		seedBubble(seed)
		defer clock.SetBoot(func() time.Duration { return 0 })()
		expect.OK(t, w.run())
	})
	return w.judge()
}

// tokens is what the library draws tokens from.
type tokens struct {
	mu   sync.Mutex
	from *rand.Rand
}

func (t *tokens) Read(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range p {
		p[i] = byte(t.from.Uint32())
	}
	return len(p), nil
}

// collect runs the garbage collector at fixed times, when all goroutines wait. At other times it would change their
// order, and what is left in pools.
func (w *World) collect(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Second):
			synctest.Wait()
			runtime.GC()
		}
	}
}

func (w *World) run() (err error) {
	w.begun, w.draining = time.Now(), make(chan struct{}) // a bubble can use only its own channels
	for i, c := range w.plan.clocks() {
		s, err := newServer(strconv.Itoa(i), c.rate, c.shows, w.plan.deletes)
		if err != nil {
			return err
		}
		defer s.redis.Close()
		w.nodes = append(w.nodes, &node{s, newNetwork(w.plan.seed^uint64(i)<<40, w.plan.delay, s.accept)})
	}
	w.node = w.nodes[0]
	if w.space, err = keys.NewSpace("holdfast:"); err != nil {
		return err
	}
	w.present = make([]*incarnation, len(w.plan.processes))
	over := make(chan struct{})
	go w.collect(over)

	patience, giveUp := context.WithCancelCause(context.Background())
	defer giveUp(nil)
	w.patience = patience
	if len(w.nodes) > 1 {
		if err := w.admit(); err != nil {
			return err
		}
		var watching sync.WaitGroup
		watching.Go(func() { w.watch(patience) })
		defer func() {
			giveUp(nil)
			watching.Wait()
		}()
	}
	for i := range w.plan.processes {
		w.start(i)
	}
	for i, n := range w.plan.names {
		if n.foreign {
			w.ended.Go(func() { w.stranger(i) })
		}
	}
	w.ended.Go(w.befall)
	if len(w.nodes) > 1 && w.plan.temper == Wild {
		w.ended.Go(w.operate)
	}
	time.Sleep(w.plan.length)
	w.result.Simulated = w.plan.length

	// The faults are over. Every waiter must be served, and then served again.
	for _, n := range w.nodes {
		n.network.heal()
	}
	w.note(-1, -1, "the faults are over")
	close(w.draining)
	w.armed.Store(0)
	for i, n := range w.plan.names {
		if n.form.gathers() {
			w.attend(i)
		}
	}
	timer := time.AfterFunc(w.bound(), func() { giveUp(errStuck) })
	w.ended.Wait()
	close(over)
	if !timer.Stop() {
		w.finding("nobody may wait for longer than %s after the faults, and somebody did", w.bound())
	}

	// By now everything that was not released has expired, and so have queues and tombstones.
	time.Sleep(w.bound() + w.plan.keeps())
	w.checkLeftovers()
	w.result.Native = w.server.set
	return nil
}

// errStuck ends what has waited too long.
var errStuck = errors.New("not served although nothing is wrong any more")

// bound returns how long it may take after the faults to serve every waiter: a dead holder's lock expires; the
// queue is looked at every 36 s or sooner; each waiter may have to be found dead or hanging, which takes a
// claim each.
func (w *World) bound() time.Duration {
	waiters := 0
	for _, p := range w.plan.processes {
		waiters += len(p.workers)
	}
	b := w.plan.longest() + 2*time.Minute + time.Duration(waiters)*3*time.Second
	b += 3 * w.plan.maxTTL // a quorum's nodes may be in quarantine, and its majority may be lost
	for _, f := range w.plan.faults {
		if f.kind == clockBack {
			b += f.lasts
		}
	}
	return b
}

// start starts a process and its goroutines.
func (w *World) start(number int) {
	p := w.client(number)
	w.mu.Lock()
	w.present[number] = p
	w.mu.Unlock()
	for i := range w.plan.processes[number].workers {
		p.idle.Add(1)
		w.hands.Add(1)
		w.ended.Go(func() {
			defer p.idle.Done()
			defer w.hands.Add(-1)
			newHand(w, p, i).work()
		})
	}
	w.ended.Go(func() { w.bury(p) })
}

// client makes a client for that process, and connects it to the network.
func (w *World) client(number int) *incarnation {
	w.mu.Lock()
	host := w.born
	w.born++
	w.mu.Unlock()
	ctx, end := context.WithCancel(w.patience)
	p := &incarnation{number: number, host: host, owner: fmt.Sprintf("p%d.%d", number, host), ctx: ctx, end: end}
	cfg := w.plan.processes[number].config
	cfg.Identity = p.owner
	w.connect(p, cfg)
	return p
}

// connect gives a process its clients.
func (w *World) connect(p *incarnation, cfg holdfast.Config) {
	var clients []*holdfast.Client
	for i, n := range w.nodes {
		rdb := redis.NewClient(&redis.Options{
			Addr:   "127.0.0.1:" + strconv.Itoa(i), // go-redis would look names up, outside the bubble
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return n.network.dial(ctx, p.host) },
			// A goroutine that waits for a connection uses a timer of an earlier bubble, which is fatal:
			// go-redis keeps its timers and reuses them.
			PoolSize: 1000,
		})
		d := drivertest.Of(holdfastgoredis.NewDriver(rdb))
		if w.wrap != nil {
			d = w.wrap(d)
		}
		c, err := holdfast.New(d, &cfg)
		if err != nil {
			panic(err)
		}
		p.ways, clients = append(p.ways, way{rdb, c}), append(clients, c)
	}
	p.client = clients[0]
}

// quorum returns the process's quorum with that node timeout; 0 means the default.
func (p *incarnation) quorum(nodeTimeout time.Duration) *quorum.Quorum {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.quorums[nodeTimeout]; known != nil {
		return known
	}
	var clients []*holdfast.Client
	for _, w := range p.ways {
		clients = append(clients, w.client)
	}
	q, err := quorum.New(clients, &quorum.Config{NodeTimeout: nodeTimeout})
	if err != nil {
		panic(err)
	}
	if p.quorums == nil {
		p.quorums = map[time.Duration]*quorum.Quorum{}
	}
	p.quorums[nodeTimeout] = q
	return q
}

// bury closes what a process had, once its goroutines are done.
func (w *World) bury(p *incarnation) {
	p.idle.Wait()
	p.end()
	ctx, cancel := context.WithTimeout(context.Background(), w.bound())
	defer cancel()
	for _, way := range p.ways {
		if err := way.client.Close(ctx); err != nil {
			w.finding("%s: Close: %v", p.owner, err)
		}
		if err := way.rdb.Close(); err != nil {
			w.finding("%s: go-redis: Close: %v", p.owner, err)
		}
	}
}

// incarnation returns the present incarnation of a process, or nil while it is down.
func (w *World) incarnation(number int) *incarnation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.present[number]
}

// crash kills a process, and starts it again later.
func (w *World) crash(p *incarnation, down time.Duration) {
	w.kill(p)
	w.again(p, down)
}

// kill ends a process, with everything that it has.
func (w *World) kill(p *incarnation) {
	p.dead.Store(true)
	for _, n := range w.nodes {
		n.network.set(func() { n.network.hostOf(p.host).dead = true })
		for _, l := range n.network.linksOf(p.host) {
			l.cut()
		}
	}
	p.end()
}

// close closes a process's client while goroutines use it, and starts the process again later.
func (w *World) close(p *incarnation, down time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), down)
	var closed sync.WaitGroup
	for _, way := range p.ways {
		closed.Go(func() {
			if err := way.client.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				w.finding("%s: Close: %v", p.owner, err)
			}
		})
	}
	w.ended.Go(func() {
		defer cancel()
		closed.Wait()
	})
	w.again(p, down)
}

func (w *World) again(p *incarnation, down time.Duration) {
	w.mu.Lock()
	w.present[p.number] = nil
	w.mu.Unlock()
	w.ended.Go(func() {
		if w.sleepUntil(time.Since(w.begun) + down) {
			w.start(p.number)
		}
	})
}

// sleepUntil sleeps until that time after the beginning. It returns false if the faults are over before that.
func (w *World) sleepUntil(at time.Duration) bool {
	timer := time.NewTimer(at - time.Since(w.begun))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.draining:
		return false
	}
}

// at returns the time since the world began, in ns, above 0.
func (w *World) at(t time.Time) int64 { return int64(t.Sub(w.begun)) + 1 }

// isDraining reports whether the faults are over.
func (w *World) isDraining() bool {
	select {
	case <-w.draining:
		return true
	default:
		return false
	}
}

func (w *World) key(i int) string {
	n := w.plan.names[i]
	if n.key != "" {
		return n.key
	}
	k, err := w.space.Name(n.name)
	if err != nil {
		panic(err)
	}
	return k.Lock
}

// checkLeftovers looks for keys and connections that should be gone, after all clients are closed and every
// lease would have expired.
func (w *World) checkLeftovers() {
	stays := []string{w.space.Fence()}
	if len(w.nodes) > 1 {
		stays = append(stays, w.space.Incarnation(), w.space.CaughtUp())
	}
	for i, n := range w.nodes {
		for _, k := range n.server.keys() {
			if !slices.Contains(stays, k) && !strings.HasSuffix(k, ":once") { // which is kept for 30 days
				w.finding("the key %q is left on server %d", k, i)
			}
		}
		if channels := n.server.redis.PubSubChannels(""); len(channels) > 0 {
			w.finding("the channels %q are left on server %d", channels, i)
		}
		for _, l := range n.network.linksOf(-1) {
			// go-redis does not close a connection whose handshake fails, because it has already marked it as
			// closed. In a real process the garbage collector closes it.
			if l.used {
				w.finding("connection %d of p%d to server %d is left, with %d of its ends closed", l.number, l.process, i, l.closed)
			}
		}
	}
}

// line is a line of the log.
type line struct {
	at                 time.Duration
	process, goroutine int
	text               string
}

func (l line) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%14.6f ", l.at.Seconds())
	if l.process >= 0 {
		fmt.Fprintf(&b, "p%d/%d ", l.process, l.goroutine)
	}
	b.WriteString(l.text)
	return b.String()
}

// note logs a line; process is negative if it belongs to none.
func (w *World) note(process, goroutine int, format string, args ...any) {
	l := line{time.Since(w.begun), process, goroutine, fmt.Sprintf(format, args...)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, l)
}

// acquiredJointly records the fences of locks that were acquired as one.
func (w *World) acquiredJointly(fences map[string]uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jointly == nil {
		w.jointly = map[uint64]bool{}
	}
	for _, fence := range fences {
		w.jointly[fence] = true
	}
}

// finding logs a violation.
func (w *World) finding(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.note(-1, -1, "VIOLATION: %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.findings = append(w.findings, fmt.Sprintf("%s: %s", time.Since(w.begun), text))
}
