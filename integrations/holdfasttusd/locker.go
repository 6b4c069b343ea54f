// Package holdfasttusd lets several servers of resumable uploads, github.com/tus/tusd, share a store, by locks of Holdfast.
package holdfasttusd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
)

// Locker is a handler.Locker. All servers of a store need one, with a client of the same prefix.
type Locker struct {
	locks *holdfast.Client
	look  *inspect.Inspector
	opts  []holdfast.MutexOption

	mu      sync.Mutex
	uploads map[string]*upload // those that requests of this process use, by name
}

var _ handler.Locker = (*Locker)(nil)

// NewLocker returns a Locker. The upload ID has the mutex "tusd/ID"; the options are those of holdfast.Client.Mutex.
//
// A request for an upload that another request uses asks that one to stop, as holdfast revoke does. tusd then ends it, and keeps
// what it has received. A request of the same process is asked at once. One of another process is asked once it has had the lock
// for a second; without a subscription (holdfast.Poll, Config.PollInterval, an ACL that forbids it) it never is. Requests wait in
// the server's queue until their context ends, after tusd's Config.AcquireLockTimeout.
//
// A request that loses its lock, because the server of the locks cannot be reached for longer than the TTL, is ended too.
//
// The client needs the rights of the role "breaker" in docs/SECURITY.md. Each request that crosses processes takes one of the
// 1,000 places in the record of breaks: give uploads a Config.Prefix of their own.
func NewLocker(locks *holdfast.Client, opts ...holdfast.MutexOption) *Locker {
	return &Locker{locks: locks, look: inspect.New(locks), opts: opts, uploads: map[string]*upload{}}
}

// UseIn adds the locker to a composer.
func (l *Locker) UseIn(composer *handler.StoreComposer) { composer.UseLocker(l) }

// NewLock returns the lock of an upload. Nothing is sent.
func (l *Locker) NewLock(id string) (handler.Lock, error) {
	return &lock{of: l, name: name(id)}, nil
}

// longestID is the longest upload ID, in bytes, that is part of its lock's name.
const longestID = 256

// name returns the name of an upload's lock. Some stores have IDs that are longer than a lock's name may be.
func name(id string) string {
	if len(id) <= longestID {
		return "tusd/" + id
	}
	sum := sha256.Sum256([]byte(id))
	return "tusd/sha256/" + hex.EncodeToString(sum[:])
}

// upload is what requests of this process for one upload share. One at a time deals with the server. Otherwise they would pass
// the server's grant on among themselves, and a request that got a grant whose holder was asked to let go would be asked, too.
type upload struct {
	turn     chan struct{} // has a value while a request has its turn
	requests int           // that have or want it
	stop     func()        // asks the request that has the lock to stop; nil if none has it
}

// enter announces a request for an upload. If another one of this process has the lock, it is asked to stop.
func (l *Locker) enter(name string) *upload {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.uploads[name]
	if u == nil {
		u = &upload{turn: make(chan struct{}, 1)}
		l.uploads[name] = u
	}
	u.requests++
	if u.stop != nil {
		u.stop()
	}
	return u
}

// leave ends a request.
func (l *Locker) leave(name string, u *upload) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u.requests--; u.requests == 0 {
		delete(l.uploads, name)
	}
}

// hold notes how to stop the request that has the lock now. It is stopped at once if others wait.
func (l *Locker) hold(u *upload, stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u.stop = stop; stop != nil && u.requests > 1 {
		stop()
	}
}

// lock is the lock of one request.
type lock struct {
	of   *Locker
	name string

	mu       sync.Mutex
	lease    *holdfast.Lease // nil while it is not locked
	upload   *upload
	unlocked chan struct{}
}

// Lock acquires the lock, and asks whoever has it to let go. requestUnlock is called, once, when somebody else asks for the lock,
// or when it is lost. The error is handler.ErrLockTimeout if ctx ends first; it is joined with one that kept others from being
// asked.
func (k *lock) Lock(ctx context.Context, requestUnlock func()) error {
	u := k.of.enter(k.name)
	select {
	case u.turn <- struct{}{}:
	case <-ctx.Done():
		k.of.leave(k.name, u)
		return handler.ErrLockTimeout
	}
	lease, err := k.acquire(ctx)
	if err != nil {
		k.of.leave(k.name, u)
		<-u.turn
		return err
	}
	asked, unlocked := make(chan struct{}), make(chan struct{})
	k.mu.Lock()
	k.lease, k.upload, k.unlocked = lease, u, unlocked
	k.mu.Unlock()
	k.of.hold(u, sync.OnceFunc(func() { close(asked) }))
	go func() {
		select {
		case <-asked:
		case <-lease.Revoked():
		case <-lease.Done():
		case <-unlocked:
		}
		select {
		case <-unlocked:
		default:
			requestUnlock()
		}
	}()
	return nil
}

// Unlock releases the lock. An error that matches holdfast.ErrLost says that it was lost before. After another error the
// release is tried again in the background.
func (k *lock) Unlock() error {
	k.mu.Lock()
	lease, u := k.lease, k.upload
	k.lease = nil
	k.mu.Unlock()
	if lease == nil {
		return fmt.Errorf("holdfasttusd: Unlock of %q without Lock", k.name)
	}
	close(k.unlocked)
	k.of.hold(u, nil)
	err := lease.Release(context.Background())
	k.of.leave(k.name, u) // first, so that the next one does not take this request for one that waits
	<-u.turn
	return err
}

// acquire acquires the server's lock.
func (k *lock) acquire(ctx context.Context) (*holdfast.Lease, error) {
	mutex := k.of.locks.Mutex(k.name, k.of.opts...)
	lease, err := mutex.TryAcquire(ctx)
	if errors.Is(err, holdfast.ErrHeld) {
		asking, stop := context.WithCancel(ctx)
		result := make(chan error, 1)
		go func() { result <- k.ask(asking) }()
		lease, err = mutex.Acquire(ctx)
		stop()
		if why := <-result; err != nil {
			err = errors.Join(err, why)
		}
	}
	if err != nil && ctx.Err() != nil {
		err = timeout(err)
	}
	return lease, err
}

// again is how often a request that waits looks who has the lock.
const again = time.Second

// ask asks each holder of the lock to let go, until ctx ends. It returns the latest error, unless that says that the holder has
// gone.
func (k *lock) ask(ctx context.Context) (failed error) {
	var asked string // the grant id of the latest holder that was
	for {
		s, err := k.of.look.Get(ctx, k.name)
		if h, held := s.Holder(); held && h.Grant != asked {
			if err = k.of.look.Revoke(ctx, h, "another request for the upload"); err == nil {
				asked = h.Grant
			}
		}
		if ctx.Err() != nil {
			return failed
		}
		if failed = err; errors.Is(err, inspect.ErrChanged) || errors.Is(err, holdfast.ErrNotHeld) {
			failed = nil
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return failed
		}
	}
}

// timeout returns the error of a request whose context has ended: tusd's own, and the server's if there was one.
func timeout(err error) error {
	var server *holdfast.ServerError
	if errors.As(err, &server) {
		return fmt.Errorf("%w: %w", handler.ErrLockTimeout, server)
	}
	return handler.ErrLockTimeout
}
