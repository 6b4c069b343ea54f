// Package holdfastgoose lets several processes run the migrations of github.com/pressly/goose at once: one of them migrates
// the database, and the others find it done.
package holdfastgoose

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/pressly/goose/v3/lock"

	"github.com/holdfast-go/holdfast"
)

// Locker is a lock.Locker, for goose.WithLocker.
type Locker struct {
	lock *holdfast.Lock

	mu    sync.Mutex
	lease *holdfast.Lease // nil while the lock is not held
}

var _ lock.Locker = (*Locker)(nil)

// NewLocker returns a Locker that holds a lock while goose migrates, such as locks.Mutex("migrations/orders"): one name for each
// database. The lock is renewed meanwhile, however long that takes. holdfast.Wait bounds how long a process waits for another's
// migrations, as does goose's context.
//
// goose does not learn in the middle of a migration that the lock is lost, because its server cannot be reached for longer than
// the TTL. Another process may then begin to migrate beside it, so choose a TTL of minutes, and migrations that run in
// transactions. Provider.Up and its like return an error in the end that matches holdfast.ErrLost.
func NewLocker(l *holdfast.Lock) *Locker { return &Locker{lock: l} }

// Lock acquires the lock, and waits for it as long as ctx. The database is not used.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	lease, err := l.lock.Acquire(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = lease
	return nil
}

// Unlock releases the lock. An error that matches holdfast.ErrLost says that it was lost before. After another error the
// release is tried again in the background.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	l.mu.Lock()
	lease := l.lease
	l.lease = nil
	l.mu.Unlock()
	if lease == nil {
		return errors.New("holdfastgoose: Unlock without Lock")
	}
	return lease.Release(ctx)
}
