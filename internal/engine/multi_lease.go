package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// multiLease is several leases, its parts, that are held as one: it lasts while enough of them do.
type multiLease struct {
	l      *Lock
	need   int    // how many parts must be held
	fence  uint64 // of a quorum's lease
	round  string // the round in which a quorum's lease was acquired
	onEnd  func() // called once, when the lease ends; if it is released, when that is done; or nil
	onLoss func() // called when a part ends but the lease does not; or nil

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	parts   []*Lease // of Multi, in the order in which the locks were named
	ended   error
	endedAt time.Time
}

// lease returns one Lease that is made of parts.
func (m *multiLease) lease(ctx context.Context, parts []*Lease) *Lease {
	m.parts = parts
	lease := &Lease{many: m}
	m.ctx, m.cancel = context.WithCancelCause(lease.within(context.WithoutCancel(ctx)))
	for _, p := range parts {
		m.watch(p)
	}
	return lease
}

// watch makes the lease end with p if too few parts are left then.
func (m *multiLease) watch(p *Lease) {
	p.whenEnded(func() {
		if m.ctx.Err() != nil {
			return // it has ended already
		}
		go func() {
			if m.err() == nil && m.onLoss != nil {
				m.onLoss()
			}
		}()
	})
}

// add adds a part. It returns false if the lease has ended.
func (m *multiLease) add(p *Lease) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended != nil {
		return false
	}
	m.parts = append(slices.DeleteFunc(m.parts, func(old *Lease) bool { return old.g.l == p.g.l }), p)
	m.watch(p)
	return true
}

// snapshot returns all parts, including those that have ended.
func (m *multiLease) snapshot() []*Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.parts)
}

// heldParts returns the parts that are held.
func (m *multiLease) heldParts() []*Lease {
	now := clock.Now()
	return slices.DeleteFunc(m.snapshot(), func(p *Lease) bool { return p.errAt(now) != nil })
}

// err is Lease.Err: it compares clocks, and ends the lease if too few parts are held.
func (m *multiLease) err() error { return m.errAt(clock.Now()) }

func (m *multiLease) errAt(now clock.Instant) error {
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
	var lost *LostError
	if errors.As(last, &lost) && m.l.quorum != nil {
		last = &LostError{Name: m.l.name, Reason: lost.Reason, Err: lost.Err}
	}
	m.end(last)
	return m.ended
}

// notify makes the lease call f when it ends. It returns false if the lease has ended; f is not
// called then.
func (m *multiLease) notify(f func()) bool {
	if m.err() != nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onEnd = f
	return m.ended == nil
}

// end ends the lease with err. Goroutines that work under the lease may not know that yet. So
// unless the lease was released, the parts that are left are not released: they last until the
// caller releases the lease, or they expire. The caller holds m.mu.
func (m *multiLease) end(err error) {
	if m.ended != nil {
		return
	}
	m.ended, m.endedAt = err, time.Now()
	m.cancel(err)
	if err != ErrReleased {
		for _, p := range m.parts {
			p.g.endLease(p, err)
		}
	}
	if m.onEnd != nil {
		m.onEnd()
	}
}

// deadline returns when too few parts will be left, or when the lease ended, if that was earlier.
func (m *multiLease) deadline() time.Time {
	for {
		over := m.err() != nil
		parts := m.snapshot()
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

func (m *multiLease) tokens() map[string]uint64 {
	if m.l.quorum != nil {
		return map[string]uint64{m.l.name: m.fence}
	}
	all := map[string]uint64{}
	for _, p := range m.snapshot() {
		all[p.Name()] = p.fence
	}
	return all
}

// nodes returns the servers of the parts that are held, in alphabetical order.
func (m *multiLease) nodes() []string {
	var all []string
	for _, p := range m.heldParts() {
		all = append(all, p.g.l.c.server.Addr())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// each calls f for all parts at once. It returns nil as soon as enough calls have succeeded. If too
// few do, it returns their errors, joined, once all have returned.
func (m *multiLease) each(parts []*Lease, f func(*Lease) error) error {
	results := make(chan error, len(parts))
	for _, p := range parts {
		p.g.l.c.tasks.Run(func() { results <- f(p) })
	}
	var errs []error
	succeeded := 0
	for range parts {
		err := <-results
		if err == nil {
			succeeded++
		} else {
			errs = append(errs, err)
		}
		if succeeded == m.need {
			return nil
		}
	}
	return errors.Join(errs...)
}

func (m *multiLease) extend(ctx context.Context, ttl time.Duration) error {
	if err := m.err(); err != nil {
		return err
	}
	err := m.each(m.snapshot(), func(p *Lease) error { return p.Extend(ctx, ttl) })
	if over := m.err(); over != nil {
		return over
	}
	return err
}

// release releases all parts; after a loss, those that are left.
func (m *multiLease) release(ctx context.Context) error {
	// Parts that were lost earlier do not matter while the lease is held.
	now := clock.Now()
	parts := slices.DeleteFunc(m.snapshot(), func(p *Lease) bool { return errors.Is(p.errAt(now), ErrLost) })
	lost := m.errAt(now)
	if lost != nil {
		parts = m.snapshot() // they have ended with the lease
	}
	m.mu.Lock()
	var onEnd func()
	if m.ended == nil {
		onEnd, m.onEnd = m.onEnd, nil // it is called below, once the parts are released
	}
	m.end(ErrReleased)
	m.mu.Unlock()
	err := m.giveUp(ctx, parts)
	if onEnd != nil {
		onEnd()
	}
	if errors.Is(lost, ErrLost) {
		return lost
	}
	return err
}

// giveUp releases all parts at once. When enough releases have succeeded, the others have as long
// again to finish: whoever acquires the lock next would find it held on their servers. If too few
// succeed, giveUp returns the errors, joined.
func (m *multiLease) giveUp(ctx context.Context, parts []*Lease) error {
	begun := time.Now()
	patience := time.NewTimer(time.Hour)
	patience.Stop() // the last release that is needed starts it
	defer patience.Stop()
	over := make(chan struct{})
	var mu sync.Mutex
	var errs []error
	succeeded := 0
	for _, p := range parts {
		p.releaseThen(ctx, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else if succeeded++; succeeded == m.need {
				patience.Reset(m.l.set.patience(begun))
			}
			if succeeded+len(errs) == len(parts) {
				close(over)
			}
		})
	}
	if len(parts) > 0 {
		select {
		case <-over:
		case <-patience.C:
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if succeeded >= m.need {
		return nil
	}
	return errors.Join(errs...)
}
