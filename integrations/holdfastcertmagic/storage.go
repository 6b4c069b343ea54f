// Package holdfastcertmagic adds Holdfast's locks to a storage of github.com/caddyserver/certmagic, so that servers which
// share certificates obtain and renew each of them once.
package holdfastcertmagic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast"
)

// Wrap returns a storage that keeps certificates in storage, and locks in locks. All servers that share the certificates have
// to wrap their storages. certmagic's lock NAME is the mutex "certmagic/NAME"; the options are those of
// holdfast.Client.Mutex.
//
// Locks are renewed until they are unlocked, by Holdfast: a server that dies keeps one for the TTL. If a lock is lost, because
// the server of the locks cannot be reached, certmagic does not learn it in the middle of its work. It may obtain a certificate
// twice then, and looks again before it tries again.
func Wrap(storage certmagic.Storage, locks *holdfast.Client, opts ...holdfast.MutexOption) certmagic.Storage {
	return &wrapped{Storage: storage, locks: locks, opts: opts, leases: map[string]*holdfast.Lease{}}
}

// wrapped implements certmagic.Storage, certmagic.TryLocker and certmagic.LockLeaseRenewer.
type wrapped struct {
	certmagic.Storage
	locks *holdfast.Client
	opts  []holdfast.MutexOption

	mu     sync.Mutex
	leases map[string]*holdfast.Lease // by the lock's name
}

// Lock acquires the lock, and waits for it as long as ctx.
func (w *wrapped) Lock(ctx context.Context, name string) error {
	lease, err := w.mutex(name).Acquire(ctx)
	if err == nil {
		w.keep(name, lease)
	}
	return err
}

// TryLock acquires the lock if it is free, and returns false if it is held.
func (w *wrapped) TryLock(ctx context.Context, name string) (bool, error) {
	lease, err := w.mutex(name).TryAcquire(ctx)
	if errors.Is(err, holdfast.ErrHeld) {
		return false, nil
	}
	if err == nil {
		w.keep(name, lease)
	}
	return err == nil, err
}

// Unlock releases the lock. It is no error if the lock was lost before. If the server does not answer, the release is tried
// again in the background, and Unlock may be called again.
func (w *wrapped) Unlock(ctx context.Context, name string) error {
	lease, err := w.lease(name)
	if err != nil {
		return err
	}
	if err := lease.Release(ctx); err != nil && !errors.Is(err, holdfast.ErrLost) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leases[name] == lease { // otherwise somebody else of this process has it by now
		delete(w.leases, name)
	}
	return nil
}

// RenewLockLease makes sure that the lock is held, at the beginning of each try to get a certificate. If it was lost, it is
// acquired again: certmagic tries for a month without doing so, and sees after this call whether others have the certificate.
// d is how long a try may take. The lock is renewed meanwhile, but it does not outlive its TTL if the process dies.
func (w *wrapped) RenewLockLease(ctx context.Context, name string, d time.Duration) error {
	lease, err := w.lease(name)
	if err != nil {
		return err
	}
	if err := lease.Err(); err == nil || !errors.Is(err, holdfast.ErrLost) {
		return err
	}
	return w.Lock(ctx, name)
}

func (w *wrapped) mutex(name string) *holdfast.Lock {
	return w.locks.Mutex("certmagic/"+name, w.opts...)
}

func (w *wrapped) keep(name string, lease *holdfast.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leases[name] = lease
}

func (w *wrapped) lease(name string) (*holdfast.Lease, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lease := w.leases[name]
	if lease == nil {
		return nil, fmt.Errorf("holdfastcertmagic: lock %q is not locked by this process", name)
	}
	return lease, nil
}
