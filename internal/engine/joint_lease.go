package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// JointLease is several leases, its parts, that are held as one. It lasts while enough of the parts do.
type JointLease struct {
	of     *multi
	need   int               // how many parts must be held
	voted  bool              // the parts are on the nodes of a quorum: they are one lock, with one fence
	fence  uint64            // the lock's, if voted
	onLoss func(*JointLease) // called when a part ends but the lease does not; may be nil

	done chan struct{} // closed when the lease ends

	mu       sync.Mutex
	calls    calls
	parts    []*holdLease // in a Multi, in the order in which the locks were named
	ended    error
	endedAt  time.Time
	observed atomic.Pointer[observation] // what observers are told of the lease; nil if there are none

	revocation revocation
}

// JoinNodes makes one lease, with that fence, from the grants of a quorum's nodes. The lease lasts while need of the grants do. of is the
// lock on one of the nodes. If onLoss is not nil, it is called when a node loses the lock while the lease is still held.
func JoinNodes(of *Target, need int, fence uint64, granted []*NodeAttempt, onLoss func(*JointLease)) *JointLease {
	parts := make([]*holdLease, len(granted))
	for i, v := range granted {
		parts[i] = v.h.firstLease()
	}
	m := &JointLease{of: &multi{c: of.c, name: of.Name(), set: of.Set}, need: need, voted: true, fence: fence, onLoss: onLoss}
	return m.joinParts(parts)
}

// Add adds another node's grant. If the lease has ended, Add releases the grant.
func (m *JointLease) Add(v *NodeAttempt) {
	if p := v.h.firstLease(); m.Err() != nil || !m.add(p) {
		_ = p.Release(context.Background())
	}
}

// add adds a part. It returns false if the lease has ended.
func (m *JointLease) add(p *holdLease) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended != nil {
		return false
	}
	m.parts = append(slices.DeleteFunc(m.parts, func(old *holdLease) bool { return old.g.l == p.g.l }), p)
	p.joinTo(m)
	if o := m.observed.Load(); o != nil {
		p.observeAsPart(o)
	}
	return true
}

// joinParts makes one lease of the parts, and returns it.
func (m *JointLease) joinParts(parts []*holdLease) *JointLease {
	m.parts, m.done = parts, make(chan struct{})
	for _, p := range parts {
		p.joinTo(m)
	}
	return m
}

// Name returns the lock's name; for several locks, all names, joined by commas.
func (m *JointLease) Name() string { return m.of.name }

// Owner returns the owner's name.
func (m *JointLease) Owner() string { return m.of.set.Owner }

// Err implements Lease.
func (m *JointLease) Err() error { return m.errAt(clock.Now()) }

// Done implements Lease.
func (m *JointLease) Done() <-chan struct{} { return m.done }

// Token returns the highest fence.
func (m *JointLease) Token() uint64 { return slices.Max(slices.Collect(maps.Values(m.Tokens()))) }

// IsShared returns false.
func (m *JointLease) IsShared() bool { return false }

// partEnded is called when p has ended, with p.g.mu held. In the background, it ends the lease if too few parts are left, or calls onLoss.
func (m *JointLease) partEnded(p *holdLease) {
	select {
	case <-m.done: // the lease has ended, and its parts with it
		return
	default:
	}
	go func() {
		// A node on which an operator broke the lock is not asked to vote again.
		var lost *lock.LostError
		broken := errors.As(p.Err(), &lost) && lost.Reason == lock.LossBroken
		if m.Err() == nil && m.onLoss != nil && !broken {
			m.onLoss(m)
		}
	}()
}

// singles returns all parts, including those that have ended.
func (m *JointLease) singles() []*holdLease {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.parts)
}

// heldParts returns the parts that are held.
func (m *JointLease) heldParts() []*holdLease {
	now := clock.Now()
	return slices.DeleteFunc(m.singles(), func(p *holdLease) bool { return p.errAt(now) != nil })
}

func (m *JointLease) errAt(now clock.Instant) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended != nil {
		return m.ended
	}
	alive := 0
	var last error
	for _, p := range m.parts {
		if err := p.errAt(now); err == nil {
			alive++
		} else if last == nil || last == exec.ErrClosed {
			last = err
		}
	}
	if alive >= m.need {
		return nil
	}
	var lost *lock.LostError
	if errors.As(last, &lost) && m.voted {
		last = &lock.LostError{Name: m.of.name, Reason: lost.Reason, By: lost.By, Note: lost.Note, Err: lost.Err}
	}
	m.end(last)
	return m.ended
}

// end ends the lease with err. Goroutines that work under the lease may not know that yet. So unless the lease was released, its remaining
// parts are not released either: they last until the caller releases the lease, or they expire. The caller holds m.mu.
func (m *JointLease) end(err error) {
	if m.ended != nil {
		return
	}
	m.ended, m.endedAt = err, time.Now()
	close(m.done)
	m.calls.make(err)
	if lost, is := err.(*lock.LostError); is {
		m.observed.Load().lost(lost)
		m.of.c.Tasks.Run(func() {
			m.observed.Load().flush()
			m.of.c.LogLoss(m.of.subject(), m.Token(), lost)
		})
	}
	if err != lock.ErrReleased {
		for _, p := range m.parts {
			p.g.endLease(p, err)
		}
	}
}

// Deadline returns when too few parts will be left, or when the lease ended, if that was earlier.
func (m *JointLease) Deadline() time.Time {
	for {
		over := m.Err() != nil
		parts := m.singles()
		if !over {
			parts = m.heldParts()
		}
		if len(parts) < m.need {
			continue // a part was lost meanwhile, and so the lease has ended
		}
		var all []time.Time
		for _, p := range parts {
			all = append(all, p.Deadline())
		}
		slices.SortFunc(all, func(x, y time.Time) int { return y.Compare(x) })
		d := all[m.need-1]
		if over && d.After(m.endedAt) {
			return m.endedAt
		}
		return d
	}
}

// Tokens returns the fence of each lock, by its name.
func (m *JointLease) Tokens() map[string]uint64 {
	if m.voted {
		return map[string]uint64{m.of.name: m.fence}
	}
	all := map[string]uint64{}
	for _, p := range m.parts { // without m.mu, which WhenOver's functions are called with; a Multi's parts never change
		all[p.Name()] = p.fence
	}
	return all
}

// Nodes returns the clients of the servers on which a part is held.
func (m *JointLease) Nodes() []*Client {
	var all []*Client
	for _, p := range m.heldParts() {
		all = append(all, p.g.l.c)
	}
	return all
}

// each calls start for all parts; start calls done in the end, in any goroutine. Once enough parts have succeeded, the others have as long
// to finish as grace says. If too few succeed, each returns the errors, joined, once all parts are done.
func (m *JointLease) each(parts []*holdLease, grace func() time.Duration, start func(p *holdLease, done func(error))) error {
	results := make(chan error, len(parts))
	for _, p := range parts {
		start(p, func(err error) { results <- err })
	}
	var errs []error
	var late <-chan time.Time
	succeeded := 0
	for range parts {
		select {
		case err := <-results:
			if err != nil {
				errs = append(errs, err)
			} else if succeeded++; succeeded == m.need {
				late = time.After(grace())
			}
		case <-late:
			return nil
		}
	}
	if succeeded >= m.need {
		return nil
	}
	return errors.Join(errs...)
}

// extend extends parts at once. It returns as soon as enough are extended.
func (m *JointLease) extend(ctx context.Context, parts []*holdLease, ttl time.Duration) error {
	return m.each(parts, func() time.Duration { return 0 }, func(p *holdLease, done func(error)) {
		p.g.l.c.Tasks.Run(func() { done(p.Extend(ctx, ttl)) })
	})
}

// Extend extends all parts at once.
func (m *JointLease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := m.of.c.checkTerm("Extend by", m.of.name, ttl); err != nil {
		return err
	}
	if err := m.Err(); err != nil {
		return err
	}
	err := m.extend(ctx, m.singles(), ttl)
	if over := m.Err(); over != nil {
		return over
	}
	return err
}

// Release releases all parts; after a loss, those that are left.
func (m *JointLease) Release(ctx context.Context) error { return m.ReleaseThen(ctx, func() {}) }

// ReleaseThen is Release, and calls then once the servers have answered or failed, even if ctx's deadline has passed by then.
func (m *JointLease) ReleaseThen(ctx context.Context, then func()) error {
	m.of.c.Tasks.Begin() // Close waits until observers are told
	defer m.of.c.Tasks.End()
	now := clock.Now()
	lost := m.errAt(now)
	m.mu.Lock()
	parts := slices.Clone(m.parts) // under the same mutex as the end, so that no part is added in between
	if lost == nil {
		// While the lease is held, parts that were lost earlier do not matter. Otherwise all have ended with it.
		parts = slices.DeleteFunc(parts, func(p *holdLease) bool { return errors.Is(p.errAt(now), lock.ErrLost) })
	}
	m.end(lock.ErrReleased)
	m.mu.Unlock()
	release := func(ctx context.Context) error {
		defer then()
		// Unless the others have time to finish, too, the next holder would find the lock held on their servers.
		begun := time.Now()
		err := m.each(parts, func() time.Duration { return m.of.set.SlowNodeGrace(begun) }, func(p *holdLease, done func(error)) { p.releaseThen(ctx, done) })
		observed := m.observed.Load()
		observed.released(lock.HandoverNone, err)
		observed.flush()
		return err
	}
	var err error
	if isLimit(ctx) {
		err = m.of.c.releaseUntil(ctx, m.of.name, release)
	} else {
		err = release(ctx)
	}
	if errors.Is(lost, lock.ErrLost) {
		return lost
	}
	return err
}

// WhenOver implements Lease.
func (m *JointLease) WhenOver(f func(error)) (forget func()) {
	_ = m.errAt(clock.Now()) // ends the lease if its time is up
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended != nil {
		f(m.ended)
		return func() {}
	}
	return m.calls.add(&m.mu, f)
}

// String names the lease's locks and its fence.
func (b *JointLease) String() string {
	return fmt.Sprintf("holdfast.Lease(%q, fence %d)", b.Name(), b.Token())
}
