package holdfast

import (
	"context"
	"errors"
	"sync"
	"time"
)

// bundle is several leases that are held as one: the lease whose bundle it is lasts while all
// of them do.
type bundle struct {
	l     *Lock
	parts []*Lease // in the order in which the locks were named

	mu     sync.Mutex
	ended  error
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// bundle makes one lease of one for each of the lock's parts.
func (l *Lock) bundle(ctx context.Context, parts []*Lease) *Lease {
	b := &bundle{l: l, parts: parts}
	lease := &Lease{many: b}
	b.ctx, b.cancel = context.WithCancelCause(lease.within(context.WithoutCancel(ctx)))
	for _, p := range parts {
		context.AfterFunc(p.Context(), func() { b.end(p.Err()) })
	}
	return lease
}

// end ends the lease because one of its parts has ended. Who worked with the others may not
// know it yet: they are not given away before their time.
func (b *bundle) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endLocked(err)
}

func (b *bundle) endLocked(err error) {
	if b.ended != nil {
		return
	}
	b.ended = err
	b.cancel(err)
	if err != ErrReleased {
		for _, p := range b.parts {
			p.g.retire(err)
		}
	}
}

func (b *bundle) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.parts {
		if b.ended != nil {
			break
		}
		if err := p.Err(); err != nil {
			b.endLocked(err)
		}
	}
	return b.ended
}

// deadline is that of the part that ends first.
func (b *bundle) deadline() time.Time {
	first := b.parts[0].Deadline()
	for _, p := range b.parts[1:] {
		if d := p.Deadline(); d.Before(first) {
			first = d
		}
	}
	return first
}

func (b *bundle) tokens() map[string]uint64 {
	all := make(map[string]uint64, len(b.parts))
	for _, p := range b.parts {
		all[p.Name()] = p.fence
	}
	return all
}

// each calls f for all parts at once, and returns what it returned, joined.
func (b *bundle) each(f func(*Lease) error) error {
	errs := make([]error, len(b.parts))
	var wg sync.WaitGroup
	for i, p := range b.parts {
		wg.Go(func() { errs[i] = f(p) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (b *bundle) extend(ctx context.Context, ttl time.Duration) error {
	if err := b.err(); err != nil {
		return err
	}
	return b.each(func(p *Lease) error { return p.Extend(ctx, ttl) })
}

func (b *bundle) release(ctx context.Context) error {
	b.err()
	b.end(ErrReleased)
	return b.each(func(p *Lease) error { return p.Release(ctx) })
}
