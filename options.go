package holdfast

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// TTL sets how long the lock outlives a holder that crashed: 5 ms to Config.MaxTTL. Default: Config.TTL.
func TTL(d time.Duration) Option { return common(engine.TTL(d)) }

// NoRenew makes the lease end after its TTL unless Extend is called. By default it is renewed every third of the TTL.
func NoRenew() Option { return common(engine.Renew(false)) }

// MaxHold ends the lease, with ErrLost, at most d after the grant. At least 5 ms. Default: no bound.
func MaxHold(d time.Duration) Option { return common(engine.MaxHold(d)) }

// MaxRenewals ends the lease, with ErrLost, one TTL after the nth renewal. At least 1. Default: no bound.
func MaxRenewals(n int) Option { return common(engine.MaxRenewals(n)) }

// Owner names the holder to people who ask who holds the lock. It is not empty. Default: Config.Owner. An OwnerMutex has
// its owner already, and refuses another with ErrInvalid.
func Owner(name string) Option {
	return commonOption{change: func(o *options) {
		o.named = true
		o.given = append(o.given, engine.Owner(name))
	}}
}

// Meta adds a note for people who ask who holds the lock. All notes and the owner take at most 1 KiB. Of two notes with
// the same key the later counts.
func Meta(key, value string) Option { return common(engine.Meta(key, value)) }

// Options combines options into one, to share them between locks of different kinds.
func Options(opts ...Option) Option {
	return commonOption{change: func(o *options) {
		for _, one := range opts {
			o.take(one)
		}
	}}
}

// Wait bounds how long Acquire and Do wait for the lock, apart from ctx, counted from the call. It does not bound the
// function that Do calls. 0 means do not wait; a negative d is ErrInvalid. Default: no bound.
//
// When the time has passed, the error is a *HeldError that names the last known holder, if the server said that the lock is
// held; it matches ErrQuarantine, if the server grants nothing yet; and ErrUnavailable, if it has not answered what it was
// asked last. Nothing is left behind. Leaving the queue takes a round trip more: if the server does not answer, at most
// a second, or four round trips if that is longer. A lock that is granted meanwhile is returned.
//
// TryAcquire and TryDo ignore it. For a Multi it bounds the whole; for a Once, how long another process's run is waited
// for. A Quorum that has lost its majority fails after Config.RetryTimeout or d, whichever is shorter.
func Wait(d time.Duration) WaitOption {
	if d < 0 {
		return waitOption{change: given(engine.Refuse(fmt.Errorf("a Wait of %s is not possible; 0 means do not wait", d)))}
	}
	return waitOption{change: func(o *options) { o.wait = noWait + waitLimit(min(d, math.MaxInt64-1)) }}
}

// Reentrant lets the holder acquire the lock again, without waiting and without asking the server: with a context made
// from its lease's, Lease.Context, or from the one that Do gives. Each such lease has the fence of the first and is
// released by itself, in any order; the last release gives the lock up. What ends the lock for one of them ends it for all.
// Both the lock of the lease and the lock acquired within it must be Reentrant; otherwise the acquire returns ErrDeadlock.
//
// The writer of an RWMutex may also acquire it for reading. A reader that wants to write gets ErrDeadlock; see TryUpgrade.
func Reentrant() ReentrantOption { return reentrantOption{change: given(engine.Reentrant(true))} }

// MaxDepth bounds how many leases of a Reentrant lock are nested: one more gets ErrDepth. Of an OwnerMutex it also bounds
// how many leases the owner has at a time, in all processes; leases that are being given back in the background count until
// they are. At least 1. Default: no bound.
func MaxDepth(n int) ReentrantOption { return reentrantOption{change: given(engine.MaxDepth(n))} }

// MaxTries bounds how often a job is begun in one window, by all processes together: one more gets ErrOnceExhausted. With
// Every, tries count anew once d has passed since the first of them; with Slot they do not. At least 1. Default: no bound.
func MaxTries(n int) OnceOption { return triesOption{change: given(engine.MaxTries(n))} }

// MinReplicas makes every grant and every renewal count only once n replicas have received it, within the timeout, by
// WAIT. The timeout is at most Config.CommandTimeout; 0 means Config.ReplicaTimeout. If too few have received it, Acquire
// gives the lock back and returns ErrReplicas, and a renewal does not extend the lease. It makes it less likely that a
// failover loses the lock, but not impossible: a replica without the lock can still be promoted. Default:
// Config.MinReplicas.
//
// A latch's counts and resets, and arrivals at a barrier, are confirmed, too, or return ErrReplicas; they may count all the
// same. The order of the queue is not confirmed. A lock that is passed on within the process is as durable as it was.
func MinReplicas(n int, timeout time.Duration) DurableOption {
	return durableOption{change: given(engine.MinReplicas(n, timeout))}
}

// Fsync makes every grant and every renewal count only once it is in the append-only file, on disk, of the master and of
// as many replicas as MinReplicas says, by WAITAOF. It needs appendonly yes, and Redis 7.2 or Valkey. Default:
// Config.Fsync.
//
// With appendfsync everysec, the server's own default, each grant and each renewal can take a second and more, which is
// why Fsync is waited for 1.7 s unless MinReplicas or Config.ReplicaTimeout says otherwise, and why a TTL below 6 s makes
// no sense; with always it takes as long as the disk; with no, nothing is ever confirmed.
func Fsync() DurableOption { return durableOption{change: given(engine.Fsync(true))} }

// Poll makes waiters ask the server every interval, jittered by a tenth, instead of queueing and being notified: for
// servers where pub/sub is forbidden. At least 1 ms. A poller has no place in the queue: while others queue, it does not
// get the lock. Wait bounds how long it polls. Default: Config.PollInterval.
func Poll(interval time.Duration) PollOption {
	return pollOption{change: given(engine.Poll(interval))}
}

// options are those of one lock, as far as this package resolves them.
type options struct {
	given []engine.Option
	wait  waitLimit
	named bool // by Owner
}

// waitLimit is one nanosecond more than an acquire may wait for its lock, or 0 if there is no bound. It is a single number
// because every Lock holds one.
type waitLimit time.Duration

// noWait is the limit of an acquire that does not wait.
const noWait waitLimit = 1

// end is when an acquire that begins now waits no longer; zero if that is not bounded.
func (w waitLimit) end() time.Time {
	if w == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(w - noWait))
}

// option is what all options have in common.
type option interface {
	apply(o *options)
}

// take applies an option.
func (o *options) take(one option) {
	if one == nil {
		one = given(engine.Refuse(errors.New("an option is nil")))
	}
	one.apply(o)
}

// change is what an option does.
type change func(o *options)

func (c change) apply(o *options) { c(o) }

// given is the change that options of the engine make.
func given(opts ...engine.Option) change {
	return func(o *options) { o.given = append(o.given, opts...) }
}

func common(o engine.Option) Option { return commonOption{change: given(o)} }

// resolve returns the options of a lock, on top of those that it would have anyway.
func resolve[O option](base options, opts []O) options {
	if len(opts) == 0 {
		return base
	}
	all := &options{given: append([]engine.Option(nil), base.given...), wait: base.wait, named: base.named}
	for _, o := range opts {
		all.take(o)
	}
	return *all
}
