package simulation

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// gathers reports whether goroutines wait for each other, not for a lock.
func (f form) gathers() bool { return f == latched || f == gathered }

// keeps returns how long the server keeps what is no longer used: a latch for a day.
func (p plan) keeps() time.Duration {
	for _, n := range p.names {
		if n.form == latched {
			return 25 * time.Hour
		}
	}
	return 0
}

// crowd is what was done at latches and barriers. World.mu guards it.
type crowd struct {
	parties []*party
	steps   []*step // at latches
	looks   []look  // at latches
	awaits  []await // at barriers, in each party's order
}

// party is one that has joined, or tried to. Times are as in history.Event.
type party struct {
	name, owner string
	asked       int64
	granted     int64 // 0: it never knew that it was a party
	left        int64 // when it called Release, or CountDown; 0: it never did
	ended       int64 // when it stopped believing that it was a party
	gone        int64 // when the server dropped the last of it
	died        bool  // its process was killed while it was a party, by doomed
}

// forever is an end that nobody knows.
const forever = math.MaxInt64

// joins records that somebody tries to become a party.
func (h *hand) joins(i int) *party {
	q := &party{name: h.w.plan.names[i].name, owner: h.p.owner, asked: h.now(), gone: forever}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.joined = q.asked
	h.w.crowd.parties = append(h.w.crowd.parties, q)
	return q
}

// ends records that a party has ended, as far as it knows.
func (h *hand) ends(q *party, lease *holdfast.Lease) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	q.ended = min(h.now(), h.at(lease.Deadline()))
}

// overlaps reports whether both were parties at the same time.
func (q *party) overlaps(o *party) bool {
	return q.granted != 0 && o.granted != 0 && max(q.granted, o.granted) < min(q.ended, o.ended)
}

// patience returns how long a request that was given up may still be carried out: until its not-after. The
// client computes the not-after, which is server time, from an earlier answer. That answer may have been slow,
// and the clocks have drifted since.
func (h *hand) patience() int64 {
	c, rate := h.w.plan.processes[h.p.number].config, h.w.plan.rate
	drift := max(0, 1-rate) * float64(h.now())
	return int64((float64(c.RetryTimeout+2*c.CommandTimeout+time.Second) + drift) / rate)
}

// lasts returns how long the server keeps a lease of that length, by the clients' clocks.
func (h *hand) lasts(ttl time.Duration) int64 {
	return int64(float64(ttl)/h.w.plan.rate) + int64(2*time.Millisecond)
}

// another returns a hand with a process of its own, which wants everything in the same way.
func (w *World) another(process int, role string, wanted want) *hand {
	p := w.client(process)
	h := &hand{w: w, p: p, rand: random(w.plan.seed, role, p.host), calm: w.plan.temper == Calm}
	for _, n := range w.plan.names {
		h.wants, h.locks = append(h.wants, wanted), append(h.locks, n.lock(p.client, wanted))
	}
	return h
}

// doomed makes a process join and die as a party, whatever the world's temper. Those who wait for the party do
// so until its lease is over. live is what the process does until then.
func (h *hand) doomed(i int, live func(d *hand) (*party, *holdfast.Lease)) *party {
	d := h.w.another(h.p.number, "doomed", want{ttl: between(h.rand, 2*time.Second, time.Minute), renew: true, maxRenewals: -1, share: 1})
	defer h.w.ended.Go(func() { h.w.bury(d.p) })
	e := d.asks(i)
	q, lease := live(d)
	if lease == nil {
		return nil
	}
	e.Granted, e.Fence = q.granted, lease.Fence()
	d.note("%s: granted %d, and doomed", e.Name, e.Fence)
	d.sleep(between(h.rand, 10*time.Millisecond, 30*time.Second))
	h.w.mu.Lock()
	now := h.now()
	q.died = lease.Err() == nil
	e.Deadline = h.at(lease.Deadline())
	e.Released = max(e.Deadline, e.Granted) // nobody was told that it died
	q.ended = min(now, e.Deadline)
	if q.died {
		q.gone = now + h.lasts(d.wants[i].ttl)
	}
	h.w.mu.Unlock()
	h.w.record(e, false)
	d.note("%s: dies with %d", e.Name, e.Fence)
	h.w.kill(d.p)
	if !q.died {
		return nil
	}
	return q
}

// attend makes others come when the faults are over, and leave when all hands are done. Without them, the last
// hands would wait for parties that never come.
func (w *World) attend(i int) {
	n := w.plan.names[i]
	many := 1
	if n.form == gathered {
		many = n.parties - 1
	}
	for range many {
		h := w.another(0, "attendant", want{ttl: 30 * time.Second, renew: true, maxRenewals: -1, share: 1})
		ctx, cancel := context.WithCancel(h.p.ctx)
		w.ended.Go(func() {
			for w.hands.Load() > 0 {
				time.Sleep(100 * time.Millisecond)
			}
			cancel()
		})
		w.ended.Go(func() {
			for w.hands.Load() > 0 {
				if n.form == latched {
					h.countDown(i, ctx)
					time.Sleep(time.Second)
				} else {
					h.party(i, ctx, false, attends)
				}
			}
			w.bury(h.p)
		})
	}
}

// judgeStep judges whether a step at a latch or a barrier may have failed like this.
func (h *hand) judgeStep(ctx context.Context, i int, lease *holdfast.Lease, err error, began time.Time) {
	var lost *holdfast.LostError
	switch {
	case errors.Is(err, latch.ErrIncomplete), errors.Is(err, latch.ErrReset), errors.Is(err, barrier.ErrBroken):
	case lease != nil && errors.As(err, &lost):
		h.judgeLoss(i, lease, err)
	default:
		h.judgeRefusal(ctx, i, true, err, time.Since(began))
	}
}

// crowding finds what latches and barriers must not do.
func (w *World) crowding() []string {
	var found []string
	for _, n := range w.plan.names {
		switch n.form {
		case latched:
			found = append(found, w.crowd.atLatch(n, w.plan.temper == Calm)...)
		case gathered:
			found = append(found, w.crowd.atBarrier(n, w.plan.temper == Calm)...)
		}
	}
	return found
}

// passed returns how many waits were completed.
func (c *crowd) passed() int {
	n := 0
	for _, l := range c.looks {
		if l.told == open || l.told == incomplete {
			n++
		}
	}
	for _, a := range c.awaits {
		if a.how == hasTripped {
			n++
		}
	}
	return n
}

// maxDeaf is how long a waiter may go without learning that a party has joined, and thus when the party's lease
// ends.
const maxDeaf = 30 * time.Second

// untilReset ends events of a latch's parties at a reset that may have happened: they are no longer parties
// then, and learn of it with their next renewal.
func (c *crowd) untilReset(name string, events []history.Event) []history.Event {
	for i := range events {
		e := &events[i]
		for _, s := range c.steps {
			if s.name == name && s.resets && e.Granted != 0 && s.until >= e.Asked && s.from < e.Released {
				e.Released = max(e.Granted, s.from)
			}
		}
	}
	return events
}
