package engine

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// observation is what observers are told of one acquire and of the lease that it brings. It is also the acquire's context: it wraps the
// caller's, and the engine finds the observation in it. All its methods may be called on nil, which observes nothing.
//
// An event of a lease is added while the mutexes that guard the lease are held. After they are unlocked, flush tells the events, unless
// another goroutine is doing so. So a lease's events are told one at a time and in order, usually by the goroutine that caused them.
//
// Every acquire makes an observation, so it is small, and one allocation: it has room for the event that ends the lease.
type observation struct {
	context.Context

	c     *Client
	task  *exec.Tasks // its End is called when the acquire ends
	told  endless     // the context that observers are given
	of    observable
	at    time.Time // when the acquire began; once it has ended, when it ended
	fence uint64
	grant string
	joint *JointLease // nil if the lease is a hold's, or not granted yet

	mu   sync.Mutex
	news *queuedNews // events not told yet
	last lastNews

	handover lock.Handover
	try      bool
	queued   bool
	busy     bool // a goroutine is telling news
	over     bool // Lost or Released was added
	untold   bool // that event has not been told; it comes after all other news
}

// queuedNews is an event that does not end the lease, and the observer's function for it.
type queuedNews struct {
	lock.LeaseNews
	tell func(context.Context, lock.LeaseEvent)
	next *queuedNews
}

// lastNews is how a lease ended.
type lastNews struct {
	held time.Duration
	err  error         // the release's error, or a *LostError
	to   lock.Handover // how the lock was handed over, if the lease was released
	lost bool
}

// endless is a context that has the values of another, and never ends.
type endless struct{ context.Context }

func (*endless) Deadline() (end time.Time, ok bool) { return time.Time{}, false }
func (*endless) Done() <-chan struct{}              { return nil }
func (*endless) Err() error                         { return nil }

// observationKey is the key under which an observation finds itself.
type observationKey struct{}

func (o *observation) Value(key any) any {
	if key == (observationKey{}) {
		return o
	}
	return o.Context.Value(key)
}

// observing returns the observation that an acquire's context is or carries, or nil.
func (c *Client) observing(ctx context.Context) *observation {
	if c.Config.Observer == nil {
		return nil
	}
	o, _ := ctx.Value(observationKey{}).(*observation)
	return o
}

// observable is a lock that observers can be told about.
type observable interface{ subject() lock.Subject }

// observe tells observers that an acquire begins, and returns its context, which is the observation. Without observers it returns nil and
// ctx itself.
func (c *Client) observe(ctx context.Context, l observable, try bool) (*observation, context.Context) {
	if c.Config.Observer == nil {
		return nil, ctx
	}
	o := &observation{Context: ctx, c: c, task: c.Enter(), told: endless{ctx}, of: l, at: time.Now(), try: try, busy: true}
	if start := c.Config.Observer.AcquireStart; start != nil {
		o.told.Context = start(ctx, o.event())
	}
	return o, o
}

// event returns what is known of the acquire.
func (o *observation) event() lock.AcquireEvent {
	return lock.AcquireEvent{Subject: o.of.subject(), Try: o.try, Start: o.at, Handover: o.handover, Fence: o.fence, Grant: o.grant}
}

// wait tells observers that the acquire has to wait. Only the first call counts.
func (o *observation) wait(ahead int, holder *lock.Holder) {
	if o == nil || o.queued {
		return
	}
	o.queued = true
	if tell := o.c.Config.Observer.AcquireQueued; tell != nil {
		e := o.event()
		e.Ahead, e.Holder = max(ahead, 0), holder
		tell(&o.told, e)
	}
}

// end tells observers how the acquire ended, and returns lease and err. From now on observers are told of the lease.
func (o *observation) end(lease Lease, err error) (Lease, error) {
	if o == nil {
		return lease, err
	}
	defer o.task.End()
	began := o.at
	o.at = time.Now()
	if err == nil {
		lease.observeBy(o)
	}
	// mutants: tell-end
	if tell := o.c.Config.Observer.AcquireEnd; tell != nil {
		e := o.event()
		e.Start, e.Waited, e.Err = began, o.at.Sub(began), err
		if err != nil {
			e.Handover, e.Holder = lock.HandoverNone, holderIn(err)
		}
		tell(&o.told, e)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tellAll()
	return lease, err
}

// add queues an event of the lease for observers, unless the lease is over.
func (o *observation) add(tell func(context.Context, lock.LeaseEvent), n lock.LeaseNews) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over || tell == nil {
		return
	}
	end := &o.news
	for *end != nil {
		end = &(*end).next
	}
	// mutants: told-later
	*end = &queuedNews{n, tell, nil}
}

// addLast queues the event that ends the lease. Only the first call counts.
func (o *observation) addLast(n lastNews) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// mutants: one-end
	if o.over {
		return
	}
	n.held = time.Since(o.at)
	o.last, o.over, o.untold = n, true, true
}

// lost queues the event that the lease was lost.
func (o *observation) lost(err *lock.LostError) {
	if o != nil {
		o.addLast(lastNews{lost: true, err: err})
	}
}

// released queues the event that the lease was released, with how the lock was handed over, or why the release failed.
func (o *observation) released(to lock.Handover, err error) {
	if o == nil {
		return
	}
	if err != nil {
		var lost *lock.LostError
		if errors.As(err, &lost) {
			o.lost(lost)
			return
		}
	}
	o.addLast(lastNews{to: to, err: err})
}

// flush tells the events that were added, unless another goroutine is doing so. The caller holds no mutex.
func (o *observation) flush() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.busy {
		o.busy = true
		o.tellAll()
	}
}

// tellAll tells all events, including any that are added meanwhile. The caller holds o.mu and has set o.busy. tellAll unlocks o.mu while it
// calls an observer.
func (o *observation) tellAll() {
	for {
		if next := o.news; next != nil {
			o.news = next.next
			o.tell(next.tell, next.LeaseNews)
			continue
		}
		if !o.untold {
			o.busy = false
			return
		}
		o.untold = false
		tell, n := o.c.Config.Observer.Released, lock.LeaseNews{Held: o.last.held, Handover: o.last.to, Err: o.last.err}
		if o.last.lost {
			tell, n.Reason = o.c.Config.Observer.Lost, o.last.err.(*lock.LostError).Reason
		}
		if tell != nil {
			o.tell(tell, n)
		}
	}
}

// tell tells one event. The caller holds o.mu, which tell unlocks meanwhile.
func (o *observation) tell(tell func(context.Context, lock.LeaseEvent), n lock.LeaseNews) {
	o.mu.Unlock()
	defer o.mu.Lock()
	if o.joint != nil && !n.Deadline.IsZero() {
		n.Deadline = o.joint.Deadline()
	}
	tell(&o.told, lock.LeaseEvent{Subject: o.of.subject(), Fence: o.fence, Grant: o.grant, Granted: o.at, LeaseNews: n})
}

// subject implements observable.
func (l *Target) subject() lock.Subject {
	return lock.Subject{Name: l.Name(), Kind: cmp.Or(l.Set.SeenAs, l.Set.Kind.Form), Weight: l.Set.Weight, Owner: l.Set.Owner}
}

// observeBy implements Lease.
func (l *holdLease) observeBy(o *observation) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	o.of, o.fence, o.grant = l.g.l, l.fence, l.g.grant().id
	l.observed = o
	// The lease may have ended already.
	if lost, is := l.ended().(*lock.LostError); is {
		o.lost(lost)
	}
}

// endObserved queues the event that the lease was released, unless it is part of a JointLease. The caller holds g.mu.
func (l *holdLease) endObserved(to lock.Handover, err error) {
	if o := l.observed; o != nil && o.joint == nil {
		o.released(to, err)
	}
}

// flush tells observers what has happened to the lease.
func (l *holdLease) flush() {
	if l.g.l.c.Config.Observer == nil {
		return
	}
	l.g.mu.Lock()
	o := l.observed
	l.g.mu.Unlock()
	o.flush()
}

// observations returns the observations of the hold's leases: of its client's observers or, if it is a vote for a quorum's lock, of those of
// the quorum's first client. The caller holds h.mu.
func (h *hold) observations() (all []*observation) {
	if h.l.c.Config.Observer == nil && !h.l.Set.Kind.IsVote {
		return nil
	}
	for l := range h.leases {
		if l.observed != nil {
			all = append(all, l.observed)
		}
	}
	return all
}

// flush tells observers what has happened to the hold's leases: that they were lost, unless lost is nil. The caller holds no mutex.
func (h *hold) flush(lost *lock.LostError) {
	h.mu.Lock()
	all := h.observations()
	h.mu.Unlock()
	for _, o := range all {
		if o.joint != nil && lost != nil {
			o.joint.partOver(lost)
		}
		o.flush()
	}
}

// observeRenewal queues the event that the hold was renewed, with slack left, or that its renewal failed with err. The caller holds h.mu.
func (h *hold) observeRenewal(now clock.Instant, slack time.Duration, err error) {
	for _, o := range h.observations() {
		n := lock.LeaseNews{Deadline: h.deadline(now), Slack: slack, Err: err}
		tell := o.c.Config.Observer.Renewed
		if err != nil {
			tell, n.Slack = o.c.Config.Observer.RenewFailed, 0
		}
		o.add(tell, n)
	}
}

// observeLoss queues the event that the hold was lost. The caller holds h.mu.
func (h *hold) observeLoss(err *lock.LostError) {
	for _, o := range h.observations() {
		if o.joint == nil {
			o.lost(err)
		}
	}
}

// subject implements observable.
func (l *multi) subject() lock.Subject {
	return lock.Subject{Name: l.name, Kind: cmp.Or(l.set.SeenAs, kind.SeenAsMulti), Owner: l.set.Owner}
}

// observeBy implements Lease.
func (m *JointLease) observeBy(o *observation) {
	fence := m.Token()
	m.mu.Lock()
	defer m.mu.Unlock()
	o.of, o.fence, o.joint = m.of, fence, m
	m.observed.Store(o)
	for _, p := range m.parts {
		p.observeAsPart(o)
	}
	if lost, is := m.ended.(*lock.LostError); is {
		o.lost(lost)
	}
}

// observeAsPart makes o, the observation of the JointLease that l is part of, also l's.
func (l *holdLease) observeAsPart(o *observation) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.observed = o
}

// partOver queues the event that the lease was lost, if the client was closed earlier: the lease then went on until a part expired.
func (m *JointLease) partOver(err *lock.LostError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended == exec.ErrClosed {
		m.observed.Load().lost(err)
	}
}
