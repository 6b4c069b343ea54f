package holdfast

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/option"
)

// TTL sets how long the lock outlives a holder that crashed: 5 ms to Config.MaxTTL. Default: Config.TTL.
func TTL(d time.Duration) Option { return commonOption{Change: option.Given(kind.TTL(d))} }

// NoRenew makes the lease end after its TTL unless Extend is called. By default it is renewed every third of the TTL.
func NoRenew() Option { return commonOption{Change: option.Given(kind.Renew(false))} }

// MaxHold ends the lease, with ErrLost, at most d after the grant. At least 5 ms. Default: no bound.
func MaxHold(d time.Duration) Option { return commonOption{Change: option.Given(kind.MaxHold(d))} }

// MaxRenewals ends the lease, with ErrLost, one TTL after the nth renewal. At least 1. Default: no bound.
func MaxRenewals(n int) Option { return commonOption{Change: option.Given(kind.MaxRenewals(n))} }

// Identity names the holder to people who ask who holds the lock. It is not empty. Default: Config.Identity. An OwnerMutex has
// its owner already, and refuses another with ErrInvalid.
func Identity(name string) Option {
	return commonOption{Change: func(s *option.Set) {
		s.Named = true
		s.Given = append(s.Given, kind.Owner(name))
	}}
}

// Meta adds a note for people who ask who holds the lock. All notes and the owner take at most 1 KiB. Of two notes with
// the same key the later counts.
func Meta(key, value string) Option {
	return commonOption{Change: option.Given(kind.Meta(key, value))}
}

// Options combines options into one, to share them between locks of different kinds.
func Options(opts ...Option) Option {
	return commonOption{Change: func(s *option.Set) {
		for _, one := range opts {
			s.Take(one)
		}
	}}
}

// Wait bounds how long Acquire and Do wait for the lock, apart from ctx, counted from the call; not how long the function runs
// that Do calls. 0 means do not wait; a negative d is ErrInvalid. Default: no bound.
//
// When the time has passed, the error is a *HeldError that names the last known holder, if the server said that the lock is
// held; it matches ErrQuarantine if the server grants nothing yet, and ErrUnavailable if it has not answered what it was asked
// last. Nothing is left behind. Leaving the queue takes a round trip more: if the server does not answer, at most a second, or
// four round trips if that is longer. A lock that is granted meanwhile is returned.
//
// TryAcquire, TryDo and elections ignore it. For a Multi it bounds the whole; for a job of package once, how long another
// process's run is waited for. A quorum that has lost its majority fails after Config.RetryTimeout or d, whichever is shorter.
func Wait(d time.Duration) WaitOption {
	if d < 0 {
		return waitOption{Change: option.Refuse(fmt.Errorf("a Wait of %s is not possible; 0 means do not wait", d))}
	}
	return waitOption{Change: func(s *option.Set) { s.Wait = option.NoWait + option.Limit(min(d, math.MaxInt64-1)) }}
}

// Reentrant lets the holder acquire the lock again, without waiting and without asking the server, with a context made from its
// lease's: Lease.Context, or the one that Do gives. Each such lease has the fence of the first and is released by itself, in
// any order; the last release gives the lock up. What ends the lock for one of them ends it for all. Both the lock of the lease
// and the lock acquired within it must be Reentrant; otherwise the acquire returns ErrDeadlock. The writer of an RWMutex may
// also acquire it for reading; a reader that wants to write gets ErrDeadlock, see TryUpgrade.
func Reentrant() ReentrantOption {
	return reentrantOption{Change: option.Given(kind.Reentrant(true))}
}

// MaxDepth bounds how deep leases of a Reentrant lock are nested in each other: one more gets ErrDepth. Of an OwnerMutex it
// bounds how many leases the owner has at a time, in all processes; leases that are being given back in the background count
// until they are. At least 1. Default: no bound.
func MaxDepth(n int) ReentrantOption {
	return reentrantOption{Change: option.Given(kind.MaxDepth(n))}
}

// Durability is what has to confirm every grant and every renewal before it counts. As an option it takes the place of
// Config.Durability. If too few replicas or disks confirm a grant in time, Acquire gives the lock back and returns ErrReplicas;
// a renewal then does not extend the lease. So a failover is less likely to lose the lock, but may: a replica without it can
// still be promoted. A latch's counts and resets, and arrivals at a barrier, are confirmed, too; after ErrReplicas they may
// count all the same. The order of the queue is not confirmed. A lock that is passed on within the process is as durable as it
// was.
type Durability struct {
	// Replicas is how many replicas must have received the write (WAIT).
	Replicas int
	// Fsync says that it must also be on the disk of the master and of that many replicas (WAITAOF). It needs appendonly yes, and
	// Redis 7.2 or Valkey. With appendfsync everysec, the server's default, a grant or renewal can take a second and more, so a TTL
	// below 6 s makes no sense; with always it takes as long as the disk; with no, nothing is ever confirmed.
	Fsync bool
	// Timeout bounds the wait for that: 1 ms to Config.CommandTimeout. Default: that of Config.Durability; else 1 s, or
	// CommandTimeout if that is shorter; with Fsync 1.7 s, or 85% of CommandTimeout.
	Timeout time.Duration

	durable
}

// Apply implements the options of locks.
func (d Durability) Apply(s *option.Set) {
	if d.isZero() && d.Timeout != 0 {
		s.Take(option.Refuse(errors.New("the Timeout of Durability has a meaning only with Replicas or Fsync")))
		return
	}
	s.Given = append(s.Given, kind.Durability(d.Replicas, d.Fsync, d.Timeout))
}

func (d Durability) isZero() bool { return d.Replicas == 0 && !d.Fsync }

// Poll makes waiters ask the server every interval, jittered by a tenth, instead of queueing and being notified: for
// servers where pub/sub is forbidden. At least 1 ms. A poller has no place in the queue: while others queue, it does not
// get the lock. Wait bounds how long it polls. Default: Config.PollInterval.
func Poll(interval time.Duration) WaitOption {
	return waitOption{Change: option.Given(kind.Poll(interval))}
}
