package holdfast

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Mutex returns the lock of that name, which one holder has at a time.
func (c *Client) Mutex(name string, opts ...MutexOption) *Lock {
	return c.mutex(name, resolve(c.queued, opts))
}

// MutexKey returns the mutex kept under exactly this key, shared with programs that use the canonical form: SET key token
// NX PX ttl, and a script that compares and deletes. Waiters of this library are notified by each other; a lock that
// another program holds is asked for again and again. A key with a closing brace that is not a Cluster hash tag's is
// ErrInvalid.
func (c *Client) MutexKey(key string, opts ...MutexOption) *Lock {
	return c.mutex(key, resolve(c.queued, opts), engine.Key(key))
}

// RedissonMutex returns the mutex that Redisson's getLock(name), an RLock, returns in Java. It is kept as Redisson keeps
// it, in a hash under exactly this key, and both sides tell each other when it is free. Names
// with braces that are not a Cluster hash tag's are ErrInvalid.
func (c *Client) RedissonMutex(name string, opts ...MutexOption) *Lock {
	return c.mutex(name, resolve(c.queued, opts), engine.Redisson(name))
}

// OwnerMutex returns the mutex that an owner can acquire again from any process, without waiting, past all who queue, by
// one round trip. The server counts the owner's leases, each of which has a TTL of its own: one whose process crashed
// counts no longer than that. All leases that overlap have the same fence. The last release gives the lock up;
// Client.ReleaseOwner ends a lease that the caller does not hold. So a job's last step can give up what an earlier one took.
//
// The owner's name is not a secret, but it is all that is needed: 1 to 512 bytes of UTF-8 without control characters. An
// OwnerMutex is another kind of lock than a Mutex: programs that use one name in both ways get ErrMismatch while it is held.
// It is Reentrant by nature, and the option Owner is refused: its owner is named already.
func (c *Client) OwnerMutex(name, owner string, opts ...MutexOption) *Lock {
	o := resolve(c.queued, opts)
	own := []engine.Option{engine.OwnedBy(owner)}
	if o.named {
		own = append(own, engine.Refuse(errors.New("Owner has no meaning for an OwnerMutex: its owner is named already")))
	}
	return c.mutex(name, o, own...)
}

func (c *Client) mutex(name string, o options, own ...engine.Option) *Lock {
	given := o.given
	if len(own) > 0 {
		given = append(own, given...)
	}
	return &Lock{c.e.Mutex(name, given...), o.wait}
}

// ReleaseOwner ends one lease of an OwnerMutex's owner, in whatever process it is, and returns how many are left. It ends
// the lease that would expire first. That is most often one left behind by a process that has died; but a lease with
// a shorter TTL, or a waiter that was handed the lock a moment ago, comes before it, and so may the caller's own. Leases
// that are nested end together, and count as one. The holder learns of it at its next renewal (ErrLost,
// LossSuperseded); a lease that is not renewed ends at its deadline. With the last lease the lock goes to the first
// in the queue.
//
// ErrNotHeld says that nobody holds the lock: it has expired or was released. ErrNotOwner says that another owner does; it
// also matches ErrHeld, and errors.As with *HeldError tells who. Neither changes anything. Once begun, ReleaseOwner
// continues even if ctx ends, for as long as Config.RetryTimeout. After ErrAmbiguous the lease may have been ended: calling
// again could end another.
func (c *Client) ReleaseOwner(ctx context.Context, name, owner string) (left int, err error) {
	left, err = c.e.Mutex(name, engine.OwnedBy(owner)).ReleaseOwner(ctx)
	return left, leave(err)
}
