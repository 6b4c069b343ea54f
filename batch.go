package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/gather"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// batches have acquires, releases and renewals of many locks go out together, in one call each
// (group commit): those of locks that are free, or ours and wanted by nobody else. A script sees
// with one look at all of them that there is nothing more to do. What it leaves goes by itself, to
// the scripts that can do everything.
type batches struct {
	takes    gather.Group[*errand]
	releases gather.Group[*errand]
	renewals gather.Group[*grant]
	done     sync.Pool // of errands to which nobody refers any more: the client's own, for tests in virtual time

	mu        sync.Mutex
	contended map[string]struct{} // keys of locks for which others waited, or which they had, when last seen
}

// maxBatch bounds the locks of a batch, and so for how long it keeps the server from others: about
// a third of a millisecond.
const maxBatch = 128

// maxContended bounds how many contended locks are remembered.
const maxContended = 10_000

func (b *batches) init(c *Client) {
	const patience = 20 * time.Millisecond // many times what a server takes that is well
	b.contended = map[string]struct{}{}
	b.takes = gather.Group[*errand]{
		Send: c.takeAll, Drop: drop, Go: c.tasks.run, Most: c.cfg.Batch, Patience: patience,
	}
	b.releases = gather.Group[*errand]{
		Send: c.freeAll, Drop: drop, Go: c.tasks.run, Most: c.cfg.Batch, Patience: patience,
	}
	b.renewals = gather.Group[*grant]{
		Send: c.renewAll, Drop: putOff, Go: c.tasks.run, Most: c.cfg.Batch, Patience: patience,
	}
}

// isContended reports whether a batch would leave the lock, as far as is known.
func (b *batches) isContended(l *Lock) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, is := b.contended[l.keys.Lock]
	return is
}

// note remembers whether the lock is contended.
func (b *batches) note(l *Lock, contended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !contended:
		delete(b.contended, l.keys.Lock)
	case len(b.contended) < maxContended:
		b.contended[l.keys.Lock] = struct{}{}
	}
}

// errand is what a goroutine wants done for one lock.
type errand struct {
	l        *Lock
	head     string // with which the lock's value begins
	notAfter int64  // server time, µs

	// The outcome, once done has an item.
	done  chan struct{}
	sent  clock.Instant
	fence uint64
	ok    bool
	err   error
}

func newErrand(l *Lock, head string) *errand {
	e, known := l.c.batches.done.Get().(*errand)
	if !known {
		e = &errand{done: make(chan struct{}, 1)}
	}
	e.l, e.head = l, head
	return e
}

// await waits until the errand is done, or ctx ends: it is not to be touched again then.
func (e *errand) await(ctx context.Context) error {
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drop tells errands that they go by themselves.
func drop(all []*errand) {
	for _, e := range all {
		e.err = ErrNotSent
		e.done <- struct{}{}
	}
}

// over makes the errand another's.
func (e *errand) over() {
	done := &e.l.c.batches.done
	*e = errand{done: e.done}
	done.Put(e)
}

// plain reports whether the lock is as scripts for batches know them: a string, which no other
// program has.
func (l *Lock) plain() bool {
	return l.set.kind == &mutex && !l.set.hasKey && !l.set.node && l.c.cfg.Batch > 0
}

// begin is ask of an attempt that is new, which takes the lock together with others if it
// looks free.
func (a *attempt) begin(ctx context.Context, mode string, fences int) (any, error) {
	c := a.l.c
	var began time.Time
	if fences == 1 && a.l.plain() && !c.cfg.Strict && a.l.set.durability() == nil && !c.batches.isContended(a.l) {
		began = time.Now()
		g, err := a.take(ctx)
		if g != nil {
			return g, nil
		}
		if err != nil {
			return nil, err
		}
	}
	got, err := a.askSince(began, ctx, mode, fences)
	var se *ServerError
	if a.unanswered != 0 && errors.As(err, &se) {
		se.ambiguous = true
	}
	if _, granted := got.(*grant); granted && a.l.plain() {
		c.batches.note(a.l, false)
	}
	return got, err
}

// take asks for a lock that may be free, with others that are asked for at the same time. It
// returns neither grant nor error when the lock is to be asked for by itself.
func (a *attempt) take(ctx context.Context) (*grant, error) {
	c := a.l.c
	e := newErrand(a.l, a.head)
	notAfter := c.notAfter(a.l)
	e.notAfter = notAfter
	c.dispatch(&c.batches.takes, e, ctx.Done() == nil)
	if err := e.await(ctx); err != nil {
		a.sent(true, notAfter)
		return nil, err
	}
	defer e.over()
	if e.err != nil {
		a.sent(mayBeDone(e.err), notAfter)
		return nil, nil
	}
	if !e.ok {
		c.batches.note(a.l, true)
		return nil, nil
	}
	a.owed = true
	return a.granted(e.sent, -1, e.fence, 1)
}

// takeAll sends acquires.
func (c *Client) takeAll(all []*errand) {
	n, l := len(all), all[0].l
	keys := make([]string, 2*n, 2*n+1)
	args := append(make([]string, 0, 4+n), l.flags(""), "")
	notAfter, same := all[0].notAfter, true
	for i, e := range all {
		keys[i], keys[n+i] = e.l.keys.Lock, e.l.keys.Queue
		args = append(args, e.head)
		notAfter = min(notAfter, e.notAfter)
		same = same && e.l.set.term() == l.set.term() && e.l.info == l.info
	}
	args[1] = strconv.FormatInt(notAfter, 10)
	keys = append(keys, c.keysOf(l)[2])
	differing := all
	if same {
		differing = all[:1]
	}
	for _, e := range differing {
		args = append(args, milliseconds(e.l.set.term()))
	}
	for _, e := range differing {
		args = append(args, e.l.info)
	}
	c.sendBatch(batch{l: l, n: n, word: "taken", numbers: 1, script: script.BatchAcquire, keys: keys, args: args}, func(r outcomes) {
		for i, e := range all {
			e.sent, e.err, e.ok = r.sent, r.err, r.done(i)
			e.fence = uint64(r.number) + uint64(i)
			e.done <- struct{}{}
		}
	})
}

// dispatch has an errand done, by itself in a Cluster, where locks are apart; direct says that this
// may return only when it is done.
func (c *Client) dispatch(group *gather.Group[*errand], e *errand, direct bool) {
	switch {
	case !c.inCluster() && direct:
		group.Do(e)
	case !c.inCluster():
		group.Add(e)
	case direct:
		group.Send([]*errand{e})
	default:
		c.tasks.run(func() { group.Send([]*errand{e}) })
	}
}

// giveBack gives up a lock that was granted, as Client.release does, whether ctx has ended or not.
func (a *attempt) giveBack(ctx context.Context, tombstone int64) (got answer, unanswered bool, err error) {
	c := a.l.c
	began := time.Now()
	if tombstone == 0 && a.l.plain() && !c.batches.isContended(a.l) {
		var done bool
		if done, unanswered = a.free(); done {
			return answer{Reply: wire.Reply{Word: "released"}}, false, nil
		}
	}
	got, again, err := c.releaseSince(began, context.WithoutCancel(ctx), a.l, a.token(), a.member, tombstone, a.ending)
	return got, unanswered || again, err
}

// free gives up the lock if nobody waits for it, together with others that are given up at the same
// time. If it is not done it is to be given up by itself; unanswered says that it may be done.
func (a *attempt) free() (done, unanswered bool) {
	e := newErrand(a.l, a.head)
	a.l.c.dispatch(&a.l.c.batches.releases, e, true)
	<-e.done
	defer e.over()
	if e.err != nil {
		return false, mayBeDone(e.err)
	}
	if !e.ok {
		a.l.c.batches.note(a.l, true)
	}
	return e.ok, false
}

// freeAll sends releases.
func (c *Client) freeAll(all []*errand) {
	n := len(all)
	keys, args := make([]string, n), make([]string, n)
	for i, e := range all {
		keys[i], args[i] = e.l.keys.Lock, e.head
	}
	c.sendBatch(batch{l: all[0].l, n: n, word: "freed", timeless: true, script: script.BatchRelease, keys: keys, args: args, urgent: true}, func(r outcomes) {
		for i, e := range all {
			e.err, e.ok = r.err, r.done(i)
			e.done <- struct{}{}
		}
	})
}

// gathers reports whether renewals of the grant that want no fences can be in a batch.
func (g *grant) gathers() bool {
	return g.l.plain() && !g.l.c.inCluster() && g.l.set.maxHold == 0 && !g.l.c.cfg.Strict && g.l.set.durability() == nil
}

// renewable reports whether the next renewal of the grant can be. Guarded by the grant.
func (g *grant) renewable() bool { return g.gathers() && g.fencesWanted() == 0 }

// errPutOff is met by renewals behind many that are not answered.
var errPutOff = fmt.Errorf("%w: the renewals before it hang", ErrNotSent)

// putOff has renewals tried again later: by themselves they would be thousands, for a server that has
// not answered the others yet.
func putOff(all []*grant) {
	for _, g := range all {
		g.mu.Lock()
		g.land()
		if !g.over && !g.frozen {
			g.renewed(clock.Now(), errPutOff)
		}
		g.mu.Unlock()
	}
}

// renewAll sends renewals.
func (c *Client) renewAll(all []*grant) {
	l := all[0].l
	keys := make([]string, 0, len(all))
	args := append(make([]string, 0, 2+len(all)), l.flags(""))
	live, same := all[:0], true
	for _, g := range all {
		g.mu.Lock()
		if g.over || g.frozen {
			g.land()
		} else {
			live = append(live, g)
			keys = append(keys, g.l.keys.Lock)
			args = append(args, g.from.head+strconv.FormatUint(g.fence, 10)+":")
			same = same && g.l.set.ttl == live[0].l.set.ttl
		}
		g.mu.Unlock()
	}
	if len(live) == 0 {
		return
	}
	differing := live
	if same {
		differing = live[:1]
	}
	for _, g := range differing {
		args = append(args, milliseconds(g.l.set.ttl))
	}
	c.sendBatch(batch{l: l, n: len(live), word: "kept", script: script.BatchRenew, keys: keys, args: args, urgent: true}, func(r outcomes) {
		answered := r.err == nil || !mayBeDone(r.err)
		for i, g := range live {
			// What is refused together is not always refused by itself: keys and commands may be
			// forbidden to this user.
			if !r.done(i) && answered {
				c.singles.run(g.renew)
				continue
			}
			g.mu.Lock()
			g.land()
			if !g.over && !g.frozen {
				if r.err == nil {
					g.failure = nil
					g.prolong(r.sent, g.l.set.ttl)
				}
				g.renewed(r.sent, r.err)
			}
			g.mu.Unlock()
		}
	})
}

// batch is a script for n locks, of which l is one.
type batch struct {
	l          *Lock
	n          int
	script     Script
	keys, args []string
	urgent     bool

	word     string // with which its reply begins
	timeless bool   // the reply does not have the time
	numbers  int    // that follow, before those of the locks that it leaves: 1 or none
}

// outcomes are what became of a batch.
type outcomes struct {
	sent   clock.Instant
	number int64
	left   []int // in ascending order
	err    error // nothing else is known then
}

// done reports whether it was done for a lock. It is asked for all of them in turn.
func (o *outcomes) done(i int) bool {
	if o.err != nil {
		return false
	}
	if len(o.left) > 0 && o.left[0] == i {
		o.left = o.left[1:]
		return false
	}
	return true
}

// mayBeDone reports whether a batch that failed so may have been carried out, or may still be, for
// some of its locks.
func mayBeDone(err error) bool {
	how, _ := classify(err)
	return how == unknown
}

// sendBatch sends a batch once, and tells once what became of it: what was answered, or that it was
// given up after CommandTimeout, even if the driver does not return then.
func (c *Client) sendBatch(b batch, tell func(outcomes)) {
	work, cancel := context.WithTimeout(context.Background(), c.cfg.CommandTimeout)
	defer cancel()
	sent := clock.Now()
	answered := context.AfterFunc(work, func() { tell(outcomes{sent: sent, err: work.Err()}) })
	text, err := c.driver.Eval(work, b.script, b.keys, b.args, b.urgent)
	if !answered() {
		return
	}
	o := outcomes{sent: sent, err: err}
	if err == nil {
		o.err = c.parseBatch(b, text, &o)
	}
	tell(o)
}

func (c *Client) parseBatch(b batch, text string, o *outcomes) error {
	parse := wire.ParseReply
	if b.timeless {
		parse = wire.ParseTimeless
	}
	r, err := parse(text)
	if err != nil {
		return err
	}
	c.rtt.observe(time.Since(o.sent.Mono))
	if !b.timeless {
		c.setClock(c.slot(b.l), o.sent, r.Now)
	}
	if b.numbers > 0 {
		err = r.Ints(&o.number)
	}
	if err == nil {
		o.left, err = r.Left(b.n)
	}
	if err != nil || r.Word != b.word || o.number < 0 {
		return wire.ErrMalformed
	}
	return nil
}
