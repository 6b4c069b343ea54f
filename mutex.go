package holdfast

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/option"
)

// Mutex returns the lock of that name, which one holder has at a time.
func (c *Client) Mutex(name string, opts ...MutexOption) *Lock {
	o := option.Resolve(c.queued, opts)
	return newLock(c.e().Mutex(name, o.Given...), o.Wait)
}

// MutexKey returns the mutex kept under exactly this key, shared with programs that use the canonical form: SET key token NX PX
// ttl, and a script that compares and deletes. Waiters of this library notify each other; a lock that another program holds is
// asked for again and again. A key with a closing brace that is not a Cluster hash tag's is ErrInvalid.
func (c *Client) MutexKey(key string, opts ...MutexOption) *Lock {
	return c.mutex(key, option.Resolve(c.queued, opts), kind.Key(key))
}

// RedissonMutex returns the mutex that Redisson's getLock(name), an RLock, returns in Java: a hash under exactly this key. Both
// sides tell each other when it is free. Names with braces that are not a Cluster hash tag's are ErrInvalid.
func (c *Client) RedissonMutex(name string, opts ...MutexOption) *Lock {
	return c.mutex(name, option.Resolve(c.queued, opts), kind.Redisson(name))
}

// OwnerMutex returns the mutex that an owner can acquire again from any process, without waiting, past all who queue, by one
// round trip. So a job's last step can give up what an earlier one took. The server counts the owner's leases, each of which
// has a TTL of its own. All leases that overlap have the same fence. The last release gives the lock up; Client.ReleaseOwner
// ends a lease that the caller does not hold.
//
// The owner's name is not a secret, but it is all that is needed: 1 to 512 bytes of UTF-8 without control characters. It is
// also the holder's identity, so the option Identity is ErrInvalid. An OwnerMutex is another kind of lock than a Mutex:
// programs that use one name in both ways get ErrMismatch while it is held. It is Reentrant by nature.
func (c *Client) OwnerMutex(name, owner string, opts ...MutexOption) *Lock {
	o := option.Resolve(c.queued, opts)
	own := []kind.Option{kind.OwnedBy(owner)}
	if o.Named {
		own = append(own, kind.Refuse(errors.New("Identity has no meaning for an OwnerMutex: its owner is named already")))
	}
	return c.mutex(name, o, own...)
}

func (c *Client) mutex(name string, o option.Set, own ...kind.Option) *Lock {
	given := o.Given
	if len(own) > 0 {
		given = append(own, given...)
	}
	return newLock(c.e().Mutex(name, given...), o.Wait)
}

// ReleaseOwner ends one lease of an OwnerMutex's owner, in whatever process it is, and returns how many are left. It ends the
// lease that would expire first: most often one left behind by a process that has died, but a lease with a shorter TTL, or a
// waiter that was handed the lock a moment ago, comes before it, and so may the caller's own. Nested leases end together, and
// count as one. The holder learns of it at its next renewal (ErrLost, LossSuperseded). With the last lease the lock goes to the
// next waiter.
//
// ErrNotHeld says that nobody holds the lock. ErrNotOwner says that another owner does; it also matches ErrHeld, and errors.As
// with *HeldError tells who. Neither changes anything. Once begun, ReleaseOwner continues even if ctx ends, for as long as
// Config.RetryTimeout. After ErrAmbiguous the lease may have been ended: calling again could end another.
func (c *Client) ReleaseOwner(ctx context.Context, name, owner string) (left int, err error) {
	left, err = c.e().Mutex(name, kind.OwnedBy(owner)).ReleaseOwner(ctx)
	return left, leave(err)
}
