package compatibility

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// This file has all calls of the library.

// term is the TTL of both sides' leases, longer than a test takes: a lock that changes hands was handed over.
const term = 5 * time.Minute

// longest is the longest lease in Strict mode, and so the quarantine.
const longest = 2 * term

// process is the library in another process.
type process struct {
	tb    testing.TB
	c     *holdfast.Client
	owner string
}

// setting changes a process.
type setting func(*holdfast.Config)

func owner(name string) setting { return func(c *holdfast.Config) { c.Owner = name } }
func lease(ttl time.Duration) setting {
	return func(c *holdfast.Config) { c.TTL = ttl }
}

// library starts a process whose owner is "new".
func library(tb testing.TB, s site, settings ...setting) *process {
	tb.Helper()
	cfg := &holdfast.Config{Owner: "new", TTL: term, Prefix: s.prefix}
	if s.strict {
		cfg.Strict, cfg.MaxTTL = true, longest
	}
	for _, change := range settings {
		change(cfg)
	}
	return &process{tb, s.Client(tb, cfg), cfg.Owner}
}

// admit admits the server to Strict mode.
func (p *process) admit() error { return p.c.Admit(p.tb.Context()) }

// lock is one of the library's locks.
type lock struct {
	tb testing.TB
	l  *holdfast.Lock
	// releaseOwner ends one lease of its owner, if an owner has it.
	releaseOwner func(context.Context) (left int, err error)
}

func (p *process) mutex(name string) lock { return lock{tb: p.tb, l: p.c.Mutex(name)} }
func (p *process) exact(key string) lock  { return lock{tb: p.tb, l: p.c.MutexKey(key)} }
func (p *process) redisson(name string) lock {
	return lock{tb: p.tb, l: p.c.RedissonMutex(name)}
}
func (p *process) owned(name, id string) lock {
	return lock{p.tb, p.c.OwnerMutex(name, id), func(ctx context.Context) (int, error) { return p.c.ReleaseOwner(ctx, name, id) }}
}
func (p *process) reader(name string) lock { return lock{tb: p.tb, l: p.c.RWMutex(name).Reader()} }
func (p *process) writer(name string) lock { return lock{tb: p.tb, l: p.c.RWMutex(name).Writer()} }
func (p *process) permits(name string, of, n int) lock {
	return lock{tb: p.tb, l: p.c.Semaphore(name, of).Permits(n)}
}
func (p *process) multi(names ...string) lock { return lock{tb: p.tb, l: p.c.Multi(names)} }

// quorum returns the mutex with that name on the servers of all processes, with a node timeout for slow
// machines.
func quorum(name string, nodes ...*process) lock {
	tb := nodes[0].tb
	tb.Helper()
	return lock{tb: tb, l: quorumOf(nodes).Mutex(name)}
}

// admitAll admits the servers of all processes as the nodes of a quorum.
func admitAll(nodes ...*process) error { return quorumOf(nodes).Admit(nodes[0].tb.Context()) }

func quorumOf(nodes []*process) *holdfast.Quorum {
	tb := nodes[0].tb
	tb.Helper()
	var clients []*holdfast.Client
	for _, p := range nodes {
		clients = append(clients, p.c)
	}
	q, err := holdfast.NewQuorum(clients, &holdfast.QuorumConfig{NodeTimeout: 10 * time.Second})
	if err != nil {
		tb.Fatal(err)
	}
	return q
}

// holder is the library's description of a holder.
type holder struct {
	owner, host string
	pid         int
	note        string // one of its notes
	fence       int64
	ttl         time.Duration
	mode        holdfast.Mode
	permits     int
	foreign     bool
}

func toldBy(h holdfast.Holder) holder {
	return holder{h.Owner, h.Host, h.PID, h.Meta["note"], int64(h.Fence), h.TTL, h.Mode, h.Permits, h.Foreign}
}

// refused tries to acquire a lock that is held, and returns its holder.
func (l lock) refused() holder {
	l.tb.Helper()
	var held *holdfast.HeldError
	lease, err := l.l.TryAcquire(l.tb.Context())
	if err == nil {
		_ = lease.Release(context.Background())
	}
	if !errors.As(err, &held) {
		l.tb.Fatalf("TryAcquire(%q): %v; want ErrHeld", l.l.Name(), err)
	}
	return toldBy(held.Holder)
}

// mismatched tries to acquire a lock whose key has another kind of lock, or another number of permits.
func (l lock) mismatched() {
	l.tb.Helper()
	_, err := l.l.TryAcquire(l.tb.Context())
	if !errors.Is(err, holdfast.ErrMismatch) {
		l.tb.Errorf("TryAcquire(%q): %v; want a mismatch", l.l.Name(), err)
	}
}

// quarantined tries to acquire the lock while the server is in quarantine.
func (l lock) quarantined() {
	l.tb.Helper()
	if _, err := l.l.TryAcquire(l.tb.Context()); !errors.Is(err, holdfast.ErrQuarantine) {
		l.tb.Errorf("TryAcquire(%q): %v; want ErrQuarantine", l.l.Name(), err)
	}
}

// unadmitted tries to acquire the lock while the nodes of the quorum are new.
func (l lock) unadmitted() {
	l.tb.Helper()
	if _, err := l.l.TryAcquire(l.tb.Context()); !errors.Is(err, holdfast.ErrNotAdmitted) {
		l.tb.Errorf("TryAcquire(%q): %v; want ErrNotAdmitted", l.l.Name(), err)
	}
}

// holders returns all holders of the lock.
func (l lock) holders() (all []holder) {
	l.tb.Helper()
	told, err := backend.HoldersOf(l.tb.Context(), l.l)
	if err != nil {
		l.tb.Fatalf("Holders(%q): %v", l.l.Name(), err)
	}
	for _, h := range told {
		all = append(all, toldBy(h))
	}
	return all
}

// holder returns a holder of the lock.
func (l lock) holder() holder {
	l.tb.Helper()
	h, err := backend.HolderOf(l.tb.Context(), l.l)
	if err != nil {
		l.tb.Fatalf("Holder(%q): %v", l.l.Name(), err)
	}
	return toldBy(h)
}

// waiters waits until n processes wait for the lock.
func (l lock) waiters(n int) {
	l.tb.Helper()
	backend.Waiters(l.tb, l.l, n)
}

// granted is one of the library's leases.
type granted struct {
	tb testing.TB
	l  *holdfast.Lease
}

func (l lock) acquire() granted {
	l.tb.Helper()
	return granted{l.tb, backend.Acquire(l.tb, l.l)}
}

// try acquires the lock, which is free.
func (l lock) try() granted {
	l.tb.Helper()
	lease, err := l.l.TryAcquire(l.tb.Context())
	if err != nil {
		l.tb.Fatalf("TryAcquire(%q): %v", l.l.Name(), err)
	}
	return granted{l.tb, lease}
}

// waiting is an acquire that waits.
type waiting struct {
	tb     testing.TB
	leases <-chan *holdfast.Lease
	cancel context.CancelFunc
}

func (l lock) wait() waiting {
	ctx, cancel := context.WithCancel(l.tb.Context())
	leases := make(chan *holdfast.Lease, 1)
	go func() {
		lease, err := l.l.Acquire(ctx)
		if err != nil && ctx.Err() == nil {
			l.tb.Errorf("Acquire(%q): %v", l.l.Name(), err)
		}
		leases <- lease
	}()
	return waiting{l.tb, leases, cancel}
}

// queue begins to wait for the lock, and returns when it is the only waiter in the queue.
func (l lock) queue() waiting {
	l.tb.Helper()
	w := l.wait()
	l.waiters(1)
	return w
}

// granted returns the lease. It fails the test before a waiter that missed its message would look by itself.
func (w waiting) granted() granted {
	w.tb.Helper()
	return granted{w.tb, backend.Receive(w.tb, w.leases)}
}

// giveUp ends an acquire that has not returned a lease.
func (w waiting) giveUp() {
	w.tb.Helper()
	w.cancel()
	if lease := <-w.leases; lease != nil {
		w.tb.Fatalf("there is a lease: %v", lease)
	}
}

func (g granted) fence() int64 { return int64(g.l.Fence()) }

// fences returns the fence of each lock, by name.
func (g granted) fences() map[string]int64 {
	fences := map[string]int64{}
	for name, fence := range g.l.Fences() {
		fences[name] = int64(fence)
	}
	return fences
}

func (g granted) release() {
	g.tb.Helper()
	backend.Release(g.tb, g.l)
}

// extend makes the lease last for ttl.
func (g granted) extend(ttl time.Duration) {
	g.tb.Helper()
	if err := g.l.Extend(g.tb.Context(), ttl); err != nil {
		g.tb.Fatalf("Extend(%q): %v", g.l.Name(), err)
	}
}

// lost fails the test if Extend and Release do not report the lease as lost.
func (g granted) lost() {
	g.tb.Helper()
	if err := g.l.Extend(g.tb.Context(), term); !errors.Is(err, holdfast.ErrLost) {
		g.tb.Errorf("Extend(%q): %v; want ErrLost", g.l.Name(), err)
	}
	if err := g.l.Release(g.tb.Context()); !errors.Is(err, holdfast.ErrLost) {
		g.tb.Errorf("Release(%q): %v; want ErrLost", g.l.Name(), err)
	}
}

// isHeld reports whether the lease is held, as far as the library knows.
func (g granted) isHeld() bool { return g.l.Err() == nil }

// downgrade makes a writer's lease a reader's.
func (p *process) downgrade(name string, g granted) granted {
	p.tb.Helper()
	reader, err := p.c.RWMutex(name).Downgrade(p.tb.Context(), g.l)
	if err != nil {
		p.tb.Fatalf("Downgrade(%q): %v", name, err)
	}
	return granted{p.tb, reader}
}

// upgrade makes a reader's lease a writer's, unless there are other readers.
func (p *process) upgrade(name string, g granted) (writer granted, ok bool) {
	p.tb.Helper()
	lease, err := p.c.RWMutex(name).TryUpgrade(p.tb.Context(), g.l)
	if err != nil && !errors.Is(err, holdfast.ErrHeld) {
		p.tb.Fatalf("TryUpgrade(%q): %v", name, err)
	}
	return granted{p.tb, lease}, err == nil
}

// resize sets the number of a semaphore's permits.
func (p *process) resize(name string, of, permits int) {
	p.tb.Helper()
	if err := p.c.Semaphore(name, of).Resize(p.tb.Context(), permits); err != nil {
		p.tb.Fatalf("Resize(%q): %v", name, err)
	}
}

// disown ends one lease of the lock's owner.
func (l lock) disown() (left int) {
	l.tb.Helper()
	left, err := l.releaseOwner(l.tb.Context())
	if err != nil {
		l.tb.Fatalf("ReleaseOwner(%q): %v", l.l.Name(), err)
	}
	return left
}

// job is a job that runs once.
type job struct {
	tb testing.TB
	o  *holdfast.Once
}

// every returns the job with that name, in windows of length d.
func (p *process) every(name string, d time.Duration) job {
	return job{p.tb, p.c.Once(name, holdfast.Every(d))}
}

// slot returns the job with that name, in the window with that name.
func (p *process) slot(name, slot string) job {
	return job{p.tb, p.c.Once(name, holdfast.Slot(slot, time.Hour))}
}

// run is a run that was completed.
type run struct {
	here          bool
	owner, result string
	fence         int64
	try           int
}

// run runs the job, unless it is done, and returns the run that counts.
func (j job) run(result string) run {
	j.tb.Helper()
	r, err := j.o.Do(j.tb.Context(), func(context.Context, *holdfast.Lease) (string, error) { return result, nil })
	if err != nil {
		j.tb.Fatalf("Do: %v", err)
	}
	return run{r.Here, r.Owner, r.Result, int64(r.Fence), r.Try}
}

// fail runs the job, and fails.
func (j job) fail() {
	j.tb.Helper()
	failed := errors.New("failed")
	if _, err := j.o.Do(j.tb.Context(), func(context.Context, *holdfast.Lease) (string, error) { return "", failed }); !errors.Is(err, failed) {
		j.tb.Fatalf("Do: %v", err)
	}
}

// refused tries to run the job while another process runs it.
func (j job) refused() {
	j.tb.Helper()
	if _, err := j.o.TryDo(j.tb.Context(), func(context.Context, *holdfast.Lease) (string, error) { return "", nil }); !errors.Is(err, holdfast.ErrHeld) {
		j.tb.Errorf("TryDo: %v; want ErrHeld", err)
	}
}

// latch is one of the library's latches.
type latch struct {
	tb testing.TB
	l  *holdfast.Latch
}

func (p *process) latch(name string, parties int) latch {
	return latch{p.tb, p.c.Latch(name, parties)}
}

func (l latch) count() int {
	l.tb.Helper()
	n, err := l.l.Count(l.tb.Context())
	if err != nil {
		l.tb.Fatalf("Count: %v", err)
	}
	return n
}

func (l latch) countDown() {
	l.tb.Helper()
	if err := l.l.CountDown(l.tb.Context()); err != nil {
		l.tb.Fatalf("CountDown: %v", err)
	}
}

func (l latch) reset() {
	l.tb.Helper()
	if err := l.l.Reset(l.tb.Context()); err != nil {
		l.tb.Fatalf("Reset: %v", err)
	}
}

// parties returns the owners of the parties that have joined.
func (l latch) parties() (owners []string) {
	l.tb.Helper()
	all, err := backend.HoldersOf(l.tb.Context(), l.l)
	if err != nil {
		l.tb.Fatalf("Parties: %v", err)
	}
	for _, h := range all {
		owners = append(owners, h.Owner)
	}
	return owners
}

// wait waits in the background until the latch is open. The channel gets the outcome: "open", "reset" or "missing N".
func (l latch) wait() <-chan string {
	ended := make(chan string, 1)
	go func() {
		var incomplete *holdfast.LatchIncompleteError
		switch err := l.l.Wait(l.tb.Context()); {
		case err == nil:
			ended <- "open"
		case errors.Is(err, holdfast.ErrLatchReset):
			ended <- "reset"
		case errors.As(err, &incomplete):
			ended <- fmt.Sprint("missing ", incomplete.Missing)
		default:
			ended <- err.Error()
		}
	}()
	return ended
}

// latchParty has joined a latch.
type latchParty struct {
	granted
	p *holdfast.LatchParty
}

func (l latch) join() latchParty {
	l.tb.Helper()
	p, err := l.l.Register(l.tb.Context())
	if err != nil {
		l.tb.Fatalf("Join: %v", err)
	}
	return latchParty{granted{l.tb, p.Lease()}, p}
}

// countDown counts the party down.
func (p latchParty) countDown() {
	p.tb.Helper()
	if err := p.p.CountDown(p.tb.Context()); err != nil {
		p.tb.Fatalf("CountDown: %v", err)
	}
}

// barrier is one of the library's barriers.
type barrier struct {
	tb testing.TB
	b  *holdfast.Barrier
}

func (p *process) barrier(name string, parties int) barrier {
	return barrier{p.tb, p.c.Barrier(name, parties)}
}

// refused tries to join the barrier, which is full.
func (b barrier) refused() {
	b.tb.Helper()
	if _, err := b.b.TryJoin(b.tb.Context()); !errors.Is(err, holdfast.ErrHeld) {
		b.tb.Errorf("TryJoin: %v; want ErrHeld", err)
	}
}

// barrierParty has joined a barrier.
type barrierParty struct {
	granted
	p *holdfast.BarrierParty
}

// join joins in the background, since it may have to wait.
func (b barrier) join() <-chan barrierParty {
	joined := make(chan barrierParty, 1)
	go func() {
		p, err := b.b.Join(b.tb.Context())
		if err != nil {
			b.tb.Errorf("Join: %v", err)
			close(joined)
			return
		}
		joined <- barrierParty{granted{b.tb, p.Lease()}, p}
	}()
	return joined
}

// await arrives in the background. The channel gets the outcome: "phase N" or "broken at N by OWNER".
func (p barrierParty) await() <-chan string {
	ended := make(chan string, 1)
	go func() {
		var broken *holdfast.BarrierBrokenError
		switch phase, err := p.p.Await(p.tb.Context()); {
		case err == nil:
			ended <- fmt.Sprint("phase ", phase)
		case errors.As(err, &broken):
			ended <- fmt.Sprintf("broken at %d by %s", broken.Phase, broken.Party.Owner)
		default:
			ended <- err.Error()
		}
	}()
	return ended
}

// lead wins the election of that name, and leads until resign is called.
func (p *process) lead(name string) (term granted, resign func()) {
	p.tb.Helper()
	ctx, cancel := context.WithCancel(p.tb.Context())
	candidate := backend.Campaign(ctx, p.c.Election(name))
	lease, _ := candidate.Elected(p.tb)
	return granted{p.tb, lease}, func() {
		p.tb.Helper()
		candidate.Answer <- nil
		if err := candidate.Ran(p.tb); err != nil {
			p.tb.Errorf("Run: %v", err)
		}
		cancel()
	}
}

// watch watches an election. next returns the next leader that it sees, or "" for none.
func (p *process) watch(name string) (next func() string) {
	p.tb.Helper()
	return backend.Watch(p.tb, p.c.Election(name))
}
