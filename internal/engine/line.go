package engine

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// line is where goroutines of this process that want one lock wait, in the order in
// which they came. Only the first is the server's business: whoever finds the line
// empty asks for itself, and a campaign asks for the others.
type line struct {
	c    *Client
	key  string
	refs int32 // guarded by c.mu

	count atomic.Int32 // of waiters
	pace  atomic.Int32 // how often the latest grant was passed on

	asking   bool // somebody who found the line empty is asking the server; guarded by mu, like the rest
	mu       sync.Mutex
	waiters  *list.List // of *waiter; nil until one comes
	campaign *campaign  // nil while none runs
	open     time.Time  // since when the server has not answered what it was asked for this line; zero: it has
	met      error      // by what it was asked since, or nil
	held     *grant     // that this process has through this line, of a lock that one may hold
	reading  *grant     // the latest that readers have
}

// waiter is a goroutine in a line.
type waiter struct {
	ctx     context.Context
	l       *Lock
	place   *list.Element // nil once it left the line
	results chan result
}

type result struct {
	lease *Lease
	err   error
}

// lineOf returns the line of a lock, by its queue's key, held by a reference.
func (c *Client) lineOf(key string) *line {
	c.mu.Lock()
	defer c.mu.Unlock()
	ln := c.lines.Get(key)
	if ln == nil {
		ln = &line{c: c, key: key}
		c.lines.Set(key, ln)
	}
	ln.refs++
	return ln
}

func (ln *line) ref() {
	ln.c.mu.Lock()
	defer ln.c.mu.Unlock()
	ln.refs++
}

func (ln *line) unref() {
	ln.c.mu.Lock()
	defer ln.c.mu.Unlock()
	ln.refs--
	if ln.refs == 0 {
		ln.c.lines.Delete(ln.key)
	}
}

// lock and unlock guard the line; a grant without one has none to guard.
func (ln *line) lock() {
	if ln != nil {
		ln.mu.Lock()
	}
}

func (ln *line) unlock() {
	if ln != nil {
		ln.mu.Unlock()
	}
}

// isHeld reports whether the line has a grant that is not over.
func (ln *line) isHeld() bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.held.isLive()
}

// waiting is how many goroutines wait.
func (ln *line) waiting() int { return int(ln.count.Load()) }

// acquire waits until the lock is had or ctx ends. It uses up one reference.
func (ln *line) acquire(ctx context.Context, l *Lock) (*Lease, error) {
	defer ln.unref()
	ln.mu.Lock()
	if ln.waiting() == 0 {
		if lease := ln.joinReaders(ctx, l); lease != nil {
			ln.mu.Unlock()
			return lease, nil
		}
	}
	var w *waiter
	if !ln.asking && ln.campaign == nil && ln.held == nil && ln.waiting() == 0 {
		ln.asking, ln.open = true, time.Now()
		ln.mu.Unlock()
		var lease *Lease
		var err error
		if lease, w, err = ln.askFirst(ctx, l); w == nil {
			return lease, err
		}
	} else {
		w = ln.join(ctx, l, (*list.List).PushBack)
		if !ln.asking {
			ln.campaignFor(nil, false)
			ln.campaign.join(l)
		}
		ln.mu.Unlock()
	}
	return ln.await(ctx, w)
}

// askFirst asks the server for the lock. When that is held it returns a waiter, which it has put at
// the head of the line.
func (ln *line) askFirst(ctx context.Context, l *Lock) (*Lease, *waiter, error) {
	c := ln.c
	a := l.newAttempt()
	mode := modeTry
	by, up := c.listening(l)
	if up {
		a.listen(by.Channel())
		a.met = ln.meets
		mode = modeWait
	}
	got, err := a.begin(ctx, mode, 1+ln.fences(l))

	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.asking = false
	ln.hear(err)
	g, granted := got.(*grant)
	if err != nil || granted {
		if ln.waiting() > 0 {
			ln.campaignFor(nil, err == nil)
		}
		if err != nil {
			a.abandon()
			return nil, nil, err
		}
		lease := ln.keep(g, ctx)
		ln.letReadersIn()
		return lease, nil, nil
	}
	w := ln.join(ctx, l, (*list.List).PushFront)
	q, waits := got.(queued)
	if !waits {
		a.abandon()
		ln.campaignFor(nil, true)
		return nil, w, nil
	}
	ln.campaignFor(a, true)
	ln.campaign.known = &look{a, q, by}
	return nil, w, nil
}

// fences is how many leases those who wait in line may make of one grant.
func (ln *line) fences(l *Lock) int {
	if !l.set.passable() {
		return 0
	}
	return max(min(ln.waiting(), ln.c.cfg.LocalHandovers), 0)
}

// unrivalled is by how much more often a lock is passed on while no other process waits for it.
const unrivalled = 16

// fencesAlone is fences while no other process waits. Those that are reserved in vain take the counter
// ahead of the clock, so they are no more than twice what was of use the last time.
func (ln *line) fencesAlone(l *Lock) int {
	return min(max(ln.fences(l), 2*int(ln.pace.Load())), unrivalled*ln.c.cfg.LocalHandovers)
}

// keep makes g the line's grant and returns its first lease.
func (ln *line) keep(g *grant, ctx context.Context) *Lease {
	g.line, g.kept = ln, true
	if !g.l.set.kind.isShared() {
		ln.held.replacedBy(g)
		ln.c.triedFor(ln.key).replacedBy(g)
		ln.held = g
	}
	ln.reading = nil // if a writer came between, nobody else is to read with what was before
	if g.l.set.kind.joinable {
		ln.reading = g
	}
	ln.ref()
	return g.begin(ctx)
}

// joinReaders returns a lease of a grant that other readers of this process have, for whoever
// is first in line, if the grant is recent; else nil.
func (ln *line) joinReaders(ctx context.Context, l *Lock) *Lease {
	g := ln.reading
	if g == nil || !l.alike(g.l) {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := clock.Now()
	if !g.state.isSteady() || g.extended || g.failure != nil || g.expired(now) || now.Sub(g.since) > maxPassing ||
		g.lease.ended != nil || ln.c.cfg.LocalHandovers < 0 || !g.l.set.unbounded() || ln.c.isClosing() {
		return nil
	}
	return g.join(ctx, g.fence)
}

// letReadersIn serves the readers at the head of the line with the latest grant.
func (ln *line) letReadersIn() {
	for w := ln.head(); w != nil; w = ln.head() {
		lease := ln.joinReaders(w.ctx, w.l)
		if lease == nil {
			return
		}
		ln.pass(w, lease)
	}
}

// let ends the line's grant.
func (ln *line) let(g *grant) {
	ln.lock()
	defer ln.unlock()
	ln.letLocked(g)
}

func (ln *line) letLocked(g *grant) {
	if ln == nil || !g.kept {
		return
	}
	g.kept = false
	ln.pace.Store(g.passed)
	if ln.reading == g {
		ln.reading = nil
	}
	if ln.held == g { // or of a later grant, if g was lost before we knew
		ln.held = nil
	}
	ln.unref()
}

// await waits for what the campaign, or a holder in this process, brings w.
func (ln *line) await(ctx context.Context, w *waiter) (*Lease, error) {
	select {
	case r := <-w.results:
		return r.lease, r.err
	case <-ctx.Done():
	}
	ln.mu.Lock()
	served := w.place == nil
	err := ln.unheard(ctx, w.l)
	if !served {
		ln.remove(w)
		if c := ln.campaign; c != nil && c.leaving == nil && ln.waiting() == 0 {
			c.leaving = ln.c.departing.begin(w.l.keys.Queue)
		}
	}
	ln.mu.Unlock()
	if served {
		r := <-w.results
		if r.lease != nil {
			// It goes to the next in line, or back to the server.
			// mutants: crossed-local-grant
			ln.c.tasks.Run(func() { _ = r.lease.release(ctx, unaware) })
		}
		return nil, exec.EndedBy(ctx, r.err)
	}
	return nil, err
}

// ask notes that the server is asked.
func (ln *line) ask() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.open.IsZero() {
		ln.open = time.Now()
	}
}

// meets notes what a request met that is sent again.
func (ln *line) meets(err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if !ln.open.IsZero() {
		ln.met = err
	}
}

// hear notes what became of what was asked. Guarded by the line.
func (ln *line) hear(err error) {
	if exec.Passing(exec.KindOf(err)) {
		ln.met = err
		return
	}
	ln.open, ln.met = time.Time{}, nil
}

// unheard returns the error of a waiter whose context has ended. Guarded by the line.
func (ln *line) unheard(ctx context.Context, l *Lock) error {
	switch {
	case ln.met != nil:
		return exec.EndedBy(ctx, ln.met)
	case !ln.open.IsZero() && ln.c.server.IsSilent(ln.open):
		return ln.c.server.Unheard(ctx, "acquire", l.name, ln.open)
	}
	return ctx.Err()
}

// join puts a waiter into the line, at its front or back.
func (ln *line) join(ctx context.Context, l *Lock, push func(*list.List, any) *list.Element) *waiter {
	if ln.waiters == nil {
		ln.waiters = list.New()
	}
	w := &waiter{ctx: ctx, l: l, results: make(chan result, 1)}
	w.place = push(ln.waiters, w)
	ln.count.Add(1)
	return w
}

// remove takes w out of the line.
func (ln *line) remove(w *waiter) {
	ln.waiters.Remove(w.place)
	w.place = nil
	ln.count.Add(-1)
	// The campaign has to see another head only if it wants something else.
	if head := ln.head(); ln.campaign != nil && (head == nil || !head.l.alike(w.l)) {
		ln.campaign.look()
	}
}

// head returns the first waiter, or nil.
func (ln *line) head() *waiter {
	if ln.waiting() == 0 {
		return nil
	}
	return ln.waiters.Front().Value.(*waiter)
}

// successor returns the waiter to whom a lease of g may be passed on now: one that
// wants just what the holder has, within the bounds, with a fence left. Guarded by
// the line and by g.
func (ln *line) successor(g *grant, now clock.Instant) *waiter {
	// mutants: reserved-fences
	if ln == nil || !g.state.isSteady() || g.extended || !g.kept || !g.l.set.kind.isShared() && ln.held != g || g.next >= g.end && g.flying == 0 || ln.c.isClosing() {
		return nil
	}
	// mutants: passing-time
	if g.passed >= g.most || now.Sub(g.since) > maxPassing || !g.l.set.passable() {
		return nil
	}
	w := ln.head()
	if w == nil || !w.l.alike(g.l) {
		return nil
	}
	return w
}

// pass gives w a lease.
func (ln *line) pass(w *waiter, lease *Lease) {
	ln.remove(w)
	w.results <- result{lease: lease}
}

// deliver gives a grant from the server to the head of the line; false if nobody is
// there who wants just this.
func (ln *line) deliver(g *grant) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	w := ln.head()
	if w == nil || !w.l.alike(g.l) {
		return false
	}
	ln.remove(w) // before the grant counts who waits still
	w.results <- result{lease: ln.keep(g, w.ctx)}
	ln.letReadersIn()
	return true
}

// fail gives every waiter an error.
func (ln *line) fail(err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	for w := ln.head(); w != nil; w = ln.head() {
		ln.remove(w)
		w.results <- result{err: err}
	}
}

// failHead gives the first waiter an error that an attempt for l met, unless it wants
// another lease than l: whoever the attempt was for may have left.
func (ln *line) failHead(l *Lock, err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if w := ln.head(); w != nil && w.l.alike(l) {
		ln.remove(w)
		w.results <- result{err: err}
	}
}
