// Package rehearsal is a small program with a lock. Its tests rehearse what can happen to the lock in production, in virtual
// time: copy them, and let your own program meet the same.
package rehearsal

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// Biller posts invoices. Billers of several processes take turns.
type Biller struct {
	Locks  *holdfast.Client
	Ledger *Ledger
}

// Run posts an invoice every minute, until ctx ends, the lock is lost, or an operator wants it to let go. The error is ctx's
// own, matches holdfast.ErrLost, or is nil.
func (b *Biller) Run(ctx context.Context) error {
	return b.Locks.Mutex("billing").Do(ctx, func(ctx context.Context, lease *holdfast.Lease) error {
		for {
			if err := b.Ledger.Post(ctx, lease); err != nil {
				return err
			}
			select {
			case <-time.After(time.Minute):
			case <-lease.Revoked():
				return nil // between two invoices, and the lock is released
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// Ledger stands for a database that refuses late holders. Its zero value is empty.
type Ledger struct {
	marks fence.Memory

	mu    sync.Mutex
	by    []string // who posted each invoice
	pause func()   // of a test: called when a poster has checked its lease and has not written yet
}

// Post posts an invoice. If a later holder of the lock has posted, the error matches fence.ErrStale.
func (l *Ledger) Post(ctx context.Context, lease *holdfast.Lease) error {
	stamp, err := fence.Of(lease) // an error if the lease has ended
	if err != nil {
		return err
	}
	if l.pause != nil {
		l.pause()
	}
	if err := l.marks.Raise(ctx, stamp, "invoices"); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by = append(l.by, lease.Identity())
	return nil
}

// Posted returns how many invoices an owner has posted.
func (l *Ledger) Posted(owner string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, by := range l.by {
		if by == owner {
			n++
		}
	}
	return n
}
