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

// bundle is several leases that are held as one: the lease whose bundle it is lasts while so
// many of them do.
type multiLease struct {
	l      *Lock
	need   int
	fence  uint64 // of a quorum's lease
	round  string // that brought a quorum's lease
	onEnd  func() // called once, when it is over; after a release, when that is done; or nil
	onLoss func() // called when a part is over, and it is not; or nil

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	parts   []*Lease // of Multi, in the order in which the locks were named
	ended   error
	endedAt time.Time
}

// lease makes one lease of its parts.
func (b *multiLease) lease(ctx context.Context, parts []*Lease) *Lease {
	b.parts = parts
	lease := &Lease{many: b}
	b.ctx, b.cancel = context.WithCancelCause(lease.within(context.WithoutCancel(ctx)))
	for _, p := range parts {
		b.watch(p)
	}
	return lease
}

// watch has the bundle end with the part, if it has too few then.
func (b *multiLease) watch(p *Lease) {
	p.whenEnded(func() {
		if b.ctx.Err() != nil {
			return // it is over already
		}
		go func() {
			if b.err() == nil && b.onLoss != nil {
				b.onLoss()
			}
		}()
	})
}

// add adds a part; false if the bundle is over.
func (b *multiLease) add(p *Lease) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended != nil {
		return false
	}
	b.parts = append(slices.DeleteFunc(b.parts, func(old *Lease) bool { return old.g.l == p.g.l }), p)
	b.watch(p)
	return true
}

// all returns the parts, also those that are over.
func (b *multiLease) snapshot() []*Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.parts)
}

// alive returns the parts that are held.
func (b *multiLease) heldParts() []*Lease {
	now := clock.Now()
	return slices.DeleteFunc(b.snapshot(), func(p *Lease) bool { return p.errAt(now) != nil })
}

// err looks at the clocks, as Lease.Err does.
func (b *multiLease) err() error { return b.errAt(clock.Now()) }

func (b *multiLease) errAt(now clock.Instant) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended != nil {
		return b.ended
	}
	alive := 0
	var last error
	for _, p := range b.parts {
		if err := p.errAt(now); err == nil {
			alive++
		} else if last == nil || last == exec.ErrClosed {
			last = err
		}
	}
	if alive >= b.need {
		return nil
	}
	var lost *LostError
	if errors.As(last, &lost) && b.l.quorum != nil {
		last = &LostError{Name: b.l.name, Reason: lost.Reason, Err: lost.Err}
	}
	b.end(last)
	return b.ended
}

// notify has f called when the bundle is over; false if it is.
func (b *multiLease) notify(f func()) bool {
	if b.err() != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onEnd = f
	return b.ended == nil
}

// end ends the lease. Who worked with those of its parts that are left may not know it
// yet: unless the lease was released, they are not given away before their time. Guarded by
// mu.
func (b *multiLease) end(err error) {
	if b.ended != nil {
		return
	}
	b.ended, b.endedAt = err, time.Now()
	b.cancel(err)
	if err != ErrReleased {
		for _, p := range b.parts {
			p.g.endLease(p, err)
		}
	}
	if b.onEnd != nil {
		b.onEnd()
	}
}

// deadline is when too few parts will be left, or when it ended.
func (b *multiLease) deadline() time.Time {
	for {
		over := b.err() != nil
		parts := b.snapshot()
		if !over {
			parts = b.heldParts()
		}
		if len(parts) < b.need {
			continue // one was lost meanwhile, and so it is over
		}
		var all []time.Time
		for _, p := range parts {
			all = append(all, p.Deadline())
		}
		slices.SortFunc(all, func(x, y time.Time) int { return y.Compare(x) })
		d := all[b.need-1]
		if over && d.After(b.endedAt) {
			return b.endedAt
		}
		return d
	}
}

func (b *multiLease) tokens() map[string]uint64 {
	if b.l.quorum != nil {
		return map[string]uint64{b.l.name: b.fence}
	}
	all := map[string]uint64{}
	for _, p := range b.snapshot() {
		all[p.Name()] = p.fence
	}
	return all
}

// nodes returns the servers of the parts that are held.
func (b *multiLease) nodes() []string {
	var all []string
	for _, p := range b.heldParts() {
		all = append(all, p.g.l.c.server.Addr())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// each calls f for parts, all at once. It waits until as many have succeeded as are needed, or
// all have returned, and returns the errors that it met, joined, if too few succeeded.
func (b *multiLease) each(parts []*Lease, f func(*Lease) error) error {
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
		if succeeded == b.need {
			return nil
		}
	}
	return errors.Join(errs...)
}

func (b *multiLease) extend(ctx context.Context, ttl time.Duration) error {
	if err := b.err(); err != nil {
		return err
	}
	err := b.each(b.snapshot(), func(p *Lease) error { return p.Extend(ctx, ttl) })
	if over := b.err(); over != nil {
		return over
	}
	return err
}

// release releases all parts; after a loss, those that are left.
func (b *multiLease) release(ctx context.Context) error {
	// Parts that were lost before have nothing to say of a lease that is held.
	now := clock.Now()
	parts := slices.DeleteFunc(b.snapshot(), func(p *Lease) bool { return errors.Is(p.errAt(now), ErrLost) })
	lost := b.errAt(now)
	if lost != nil {
		parts = b.snapshot() // which ended with it
	}
	b.mu.Lock()
	var onEnd func()
	if b.ended == nil {
		onEnd, b.onEnd = b.onEnd, nil // when the parts are given up
	}
	b.end(ErrReleased)
	b.mu.Unlock()
	err := b.giveUp(ctx, parts)
	if onEnd != nil {
		onEnd()
	}
	if errors.Is(lost, ErrLost) {
		return lost
	}
	return err
}

// giveUp releases parts, all at once. Once as many have succeeded as are needed the others have as
// long again: who acquires the lock next would find it held there. It returns the errors that it
// met, joined, if too few succeeded.
func (b *multiLease) giveUp(ctx context.Context, parts []*Lease) error {
	begun := time.Now()
	patience := time.NewTimer(time.Hour)
	patience.Stop() // it begins with the last that is needed
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
			} else if succeeded++; succeeded == b.need {
				patience.Reset(b.l.set.patience(begun))
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
	if succeeded >= b.need {
		return nil
	}
	return errors.Join(errs...)
}
