package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
)

// step may have changed a latch's count, at some time between its beginning and an end.
type step struct {
	name        string
	from, until int64
	sure        bool // it did happen; otherwise it may have
	counts      bool // a party has counted down
	misses      bool // a party has ended without counting down
	resets      bool
	party       *party        // the party that ended, if it had joined
	lag         time.Duration // for how long waiters may not know of it
}

// look is what somebody was told of a latch.
type look struct {
	name             string
	called, returned int64
	told             told
	number           int // the number in the answer
}

// told is what a latch answers.
type told string

const (
	open       told = "open"
	incomplete told = "incomplete"
	begunAnew  told = "reset"
	left       told = "left"  // so many are left
	taken      told = "taken" // all that are left have joined
	nothing    told = ""
)

func (h *hand) latch(i int) *latch.Latch {
	n := h.w.plan.names[i]
	return latch.New(h.p.client, n.name, n.parties, h.wants[i].option())
}

// step records that a step begins which may change a latch.
func (h *hand) step(i int, s step) *step {
	s.name, s.from, s.until = h.w.plan.names[i].name, h.now(), forever
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.crowd.steps = append(h.w.crowd.steps, &s)
	return &s
}

// settle records the outcome of a step that is requested once.
func (h *hand) settle(s *step, err error) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	switch {
	case err == nil:
		s.sure, s.until = true, h.now()
	case h.p.dead.Load(): // what was on its way is lost
		s.until = h.now()
	case errors.Is(err, holdfast.ErrAmbiguous), errors.Is(err, holdfast.ErrClosed):
		s.until = s.from + h.patience()
	default: // it was refused, or not sent
		s.until = -1
	}
}

// looks records what somebody was told.
func (h *hand) looks(l look) {
	l.returned = h.now()
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.crowd.looks = append(h.w.crowd.looks, l)
}

// atLatch does one of the things that are done at a latch. In the end it makes sure that waiters get on.
func (h *hand) atLatch(i int, ctx context.Context, last bool) {
	if last {
		h.countDown(i, ctx)
		h.waitFor(i, ctx)
		return
	}
	switch d := h.rand.IntN(100); {
	case d < 30:
		h.countDown(i, ctx)
	case d < 50:
		h.takePart(i, ctx)
	case d < 57:
		h.dieAtLatch(i, ctx)
	case d < 87:
		if opened := h.waitFor(i, ctx); opened && chance(h.rand, 60) {
			h.reset(i, ctx)
		}
	case d < 98:
		if opened := h.count(i, ctx); opened && chance(h.rand, 60) {
			h.reset(i, ctx)
		}
	default:
		h.reset(i, ctx)
	}
}

func (h *hand) countDown(i int, ctx context.Context) {
	l, began := h.latch(i), time.Now()
	s := h.step(i, step{counts: true})
	err := l.CountDown(ctx)
	h.settle(s, err)
	h.did(i, ctx, "counts down", err, began)
	if errors.Is(err, holdfast.ErrHeld) && !h.p.dead.Load() {
		h.looks(look{name: l.Name(), called: s.from, told: taken})
	}
}

func (h *hand) reset(i int, ctx context.Context) {
	l, began := h.latch(i), time.Now()
	s := h.step(i, step{resets: true})
	err := l.Reset(ctx)
	h.settle(s, err)
	h.did(i, ctx, "resets", err, began)
}

// did records and judges a step.
func (h *hand) did(i int, ctx context.Context, what string, err error, began time.Time) {
	if h.p.dead.Load() {
		return
	}
	result := "done"
	if err != nil {
		result = brief(err)
		h.judgeStep(ctx, i, nil, err, began)
	}
	h.note("%s: %s: %s after %s", h.locks[i].Name(), what, result, time.Since(began))
}

func (h *hand) waitFor(i int, ctx context.Context) bool {
	l, began := h.latch(i), time.Now()
	seen := look{name: l.Name(), called: h.now()}
	err := l.Wait(ctx)
	h.did(i, ctx, "waits", err, began)
	if h.p.dead.Load() {
		return false
	}
	var some *latch.IncompleteError
	switch {
	case err == nil:
		seen.told = open
	case errors.As(err, &some):
		seen.told, seen.number = incomplete, some.Missing
	case errors.Is(err, latch.ErrReset):
		seen.told = begunAnew
	}
	h.looks(seen)
	return seen.told == open || seen.told == incomplete
}

// count asks how many parties are left, and reports whether there are none.
func (h *hand) count(i int, ctx context.Context) bool {
	l, began := h.latch(i), time.Now()
	seen := look{name: l.Name(), called: h.now(), told: left}
	var err error
	seen.number, err = l.Count(ctx)
	h.did(i, ctx, fmt.Sprintf("counts %d", seen.number), err, began)
	if err != nil || h.p.dead.Load() {
		return false
	}
	h.looks(seen)
	return seen.number == 0
}

// join becomes a party of a latch. s is the step with which the party may end.
func (h *hand) join(i int, ctx context.Context) (q *party, s *step, p *latch.Party, err error) {
	q = h.joins(i)
	s = h.step(i, step{misses: true, party: q})
	p, err = h.latch(i).Register(ctx)
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	now := h.now()
	// If a copy of the request was carried out, and its lease ended before the answer arrived, the copy was a
	// party, too, and died.
	for before := now - q.asked; !h.calm && before >= int64(h.wants[i].term()); before -= int64(h.wants[i].term()) {
		h.w.crowd.steps = append(h.w.crowd.steps, &step{name: s.name, from: q.asked, until: now, misses: true})
	}
	switch {
	case h.p.dead.Load():
		s.until = now + h.lasts(h.wants[i].ttl)
		q.gone = s.until
	case errors.Is(err, holdfast.ErrHeld):
		s.until, q.gone = -1, -1
	case err != nil: // it may be a party all the same, if it cannot be taken back
		s.until = now + h.patience() + h.lasts(h.wants[i].ttl)
		q.gone = s.until
	default:
		q.granted = now
		s.from = now
	}
	return q, s, p, err
}

// takePart joins the latch, and usually counts down.
func (h *hand) takePart(i int, ctx context.Context) {
	e, began := h.asks(i), time.Now()
	q, s, p, err := h.join(i, ctx)
	if h.p.dead.Load() {
		return
	}
	if err != nil {
		h.refused(e, i, ctx, true, err, "joins "+e.Name, began)
		return
	}
	alive := h.have(e, i, p.Lease(), false)
	h.ends(q, p.Lease())
	if !alive {
		h.w.mu.Lock()
		s.until = h.now() + h.lasts(extension*h.wants[i].ttl)
		q.gone = s.until
		h.w.mu.Unlock()
		return
	}
	counts := chance(h.rand, 75)
	h.w.mu.Lock()
	q.left, s.counts = h.now(), counts
	h.w.mu.Unlock()
	if counts {
		err = h.countsDown(i, p)
	} else {
		err = h.release(i, p.Lease())
	}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	switch {
	case h.p.dead.Load():
		s.until = h.now() + h.lasts(extension*h.wants[i].ttl)
		q.gone = s.until
	case err == nil:
		s.from, s.until, s.sure, s.misses = q.left, h.now(), true, !counts
		q.gone = s.until
	}
}

// countsDown counts down as a party, and once more if it may have to.
func (h *hand) countsDown(i int, p *latch.Party) error {
	count := func() error { return p.CountDown(context.Background()) }
	again, err := h.end(i, p.Lease(), "CountDown", count)
	if again {
		_, err = h.end(i, p.Lease(), "CountDown", count)
	}
	if !h.p.dead.Load() {
		h.note("%s: counts down as a party: %v", p.Lease().Name(), err == nil)
	}
	return err
}

// dieAtLatch makes a process die that has joined.
func (h *hand) dieAtLatch(i int, ctx context.Context) {
	var s *step
	q := h.doomed(i, func(d *hand) (*party, *holdfast.Lease) {
		q, step, p, err := d.join(i, ctx)
		if s = step; err != nil {
			return nil, nil
		}
		return q, p.Lease()
	})
	if q == nil {
		return
	}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	s.from, s.until, s.sure, s.lag = q.ended, q.gone, true, maxDeaf
}

// expellable reports whether the server may have taken a lease away: it may if the holder is a latch's party
// and somebody reset the latch after it joined.
func (h *hand) expellable(i int) bool {
	n := h.w.plan.names[i]
	if n.form != latched {
		return false
	}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	return h.w.crowd.resetWithin(n.name, h.joined, forever)
}

// since returns the earliest beginning of the count that exists from t on: the call of the last reset that had
// returned by then.
func (c *crowd) since(name string, t int64) int64 {
	since := int64(0)
	for _, s := range c.steps {
		if s.name == name && s.resets && s.sure && s.until <= t {
			since = max(since, s.from)
		}
	}
	return since
}

// may returns how many parties may have ended, with a matching step, in a count that existed at called or
// later, until returned.
func (c *crowd) may(name string, called, returned int64, like func(s *step) bool) int {
	since, n := c.since(name, called), 0
	for _, s := range c.steps {
		if s.name == name && !s.resets && like(s) && s.from <= returned && s.until >= since && (s.party == nil || s.party.granted == 0 || s.party.granted >= since) {
			n++
		}
	}
	return n
}

// must returns how many parties had certainly ended, with a matching step, at called, in the count that exists
// until returned. Parties that joined an earlier count do not belong to it.
func (c *crowd) must(name string, called, returned int64, like func(s *step) bool) int {
	since, n := int64(0), 0
	for _, s := range c.steps {
		if s.name == name && s.resets && s.from <= returned {
			since = max(since, s.until)
		}
	}
	for _, s := range c.steps {
		if s.name == name && !s.resets && like(s) && s.sure && s.from >= since && (s.party == nil || s.party.asked >= since) && s.until <= called-int64(s.lag) {
			n++
		}
	}
	return n
}

// atLatch finds what a latch must not do.
func (c *crowd) atLatch(n name, calm bool) []string {
	var found []string
	ended := func(s *step) bool { return true }
	counted := func(s *step) bool { return s.counts }
	missing := func(s *step) bool { return s.misses }
	for _, l := range c.looks {
		if l.name != n.name {
			continue
		}
		tell := func(format string, args ...any) {
			found = append(found, fmt.Sprintf("%s: latch %q of %d: ", time.Duration(l.returned), n.name, n.parties)+fmt.Sprintf(format, args...))
		}
		done, gone := c.may(n.name, l.called, l.returned, counted), c.may(n.name, l.called, l.returned, missing)
		switch l.told {
		case open:
			if done < n.parties {
				tell("passed although %d have counted down at most", done)
			}
			if m := c.must(n.name, l.called, l.returned, func(s *step) bool { return s.misses && !s.counts }); m > 0 {
				tell("passed, and nobody is told that %d are missing", m)
			}
		case incomplete:
			if l.number > gone || n.parties-l.number > done {
				tell("passed with %d missing although %d have counted down and %d have left or died at most", l.number, done, gone)
			}
		case begunAnew:
			if !c.resetWithin(n.name, l.called, l.returned) {
				tell("told of a reset, and there was none")
			}
		case left:
			if most := c.may(n.name, l.called, l.returned, ended); l.number < n.parties-most {
				tell("counted as %d although %d have counted down, left or died at most", l.number, most)
			}
			if least := c.must(n.name, l.called, l.returned, ended); l.number > max(0, n.parties-least) {
				tell("counted as %d although %d have counted down, left or died", l.number, least)
			}
		case taken:
			if !c.joinedWithin(n.name, l.called, l.returned) {
				tell("nobody may count down although nobody has joined")
			}
		}
		late := l.returned - int64(maxIdle)
		if !calm || l.told == left || l.told == taken || late < l.called {
			continue
		}
		if m := c.must(n.name, late, l.returned, ended); m >= n.parties {
			tell("waited for although %d had counted down, left or died %s before", m, maxIdle)
		}
		for _, s := range c.steps {
			if s.name == n.name && s.resets && s.sure && s.from >= l.called+int64(maxIdle) && s.until <= late {
				tell("waited for although it was reset at %s", time.Duration(s.until))
			}
		}
	}
	return found
}

// resetWithin reports whether a latch may have been reset in that period.
func (c *crowd) resetWithin(name string, from, until int64) bool {
	return slices.ContainsFunc(c.steps, func(s *step) bool {
		return s.name == name && s.resets && s.from <= until && s.until >= from
	})
}

// joinedWithin reports whether there may have been a party in that period.
func (c *crowd) joinedWithin(name string, from, until int64) bool {
	return slices.ContainsFunc(c.parties, func(q *party) bool { return q.name == name && q.asked <= until && q.gone >= from })
}
