package holdfast

import "github.com/holdfast-go/holdfast/internal/option"

// Multi returns a lock that is the mutexes of 2 to 256 names at once, all or none. Each name is given once; a program that
// wants one of them alone waits for the same Mutex.
//
// When all are free, one round trip takes them (on a Cluster, if the names begin with the same "{tag}"). Otherwise they are
// acquired one after another, each through its queue, in an order that is the same for everybody: so no two callers wait for
// each other, and none starves. A caller that acquires more locks within the lease keeps to an order itself.
//
// If one of the locks is lost, so is the lease. The others are no longer renewed, and end with Release or their TTL. When
// Wait's limit passes, HeldError.Name is the lock that was held, and nothing stays held. NoRenew, MaxHold and MaxRenewals apply
// once all locks are held; until then those already held are renewed. A lock that is acquired again (Reentrant) keeps the
// bounds of the lease around it.
func (c *Client) Multi(names []string, opts ...MultiOption) *Lock {
	o := option.Resolve(c.queued, opts)
	return newLock(c.e().Multi(names, o.Given...), o.Wait)
}
