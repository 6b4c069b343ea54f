package holdfastgoredis

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// errClientClosed is the error of acquires and renewals after the program has closed its client. The driver's own connections could
// still carry them, but then leases that the program has forgotten would be renewed until it ends.
var errClientClosed = fmt.Errorf("%w: %w", driver.ErrNotSent, driver.ErrClientClosed)

// orClosed returns err, or errClientClosed if that is why a call has failed. key is the call's first, or "".
func (d *adapter) orClosed(key string, err error) error {
	if errors.Is(err, redis.ErrClosed) && d.isClientClosed(key) {
		return errClientClosed
	}
	return err
}

// isClientClosed reports whether the program has closed its client, in a Cluster by the node that has the key. Nothing is sent.
func (d *adapter) isClientClosed(key string) bool {
	if d.ownsUser {
		return false
	}
	node, err := nodeOf(ended, d.user, key)
	if err != nil {
		return errors.Is(err, redis.ErrClosed)
	}
	if node.PoolStats().TotalConns > 0 {
		return false // Close has closed and forgotten all connections
	}
	// The context has ended, so the pool refuses the command. Hooks and the Limiter do not see it.
	pool := node.WithTimeout(0)
	pool.Options().Limiter = nil
	return errors.Is(pool.Process(ended, redis.NewCmd(ended, "ping")), redis.ErrClosed)
}

// openPeriod is how long Ready assumes that an open client stays open. A check for each call would be slow.
const openPeriod = 100 * time.Millisecond

// Ready implements driver.Connector.
func (d *adapter) Ready() error {
	now := time.Now().UnixNano()
	if since := now - d.openAt.Load(); since >= 0 && since < int64(openPeriod) {
		return nil
	}
	if d.isClientClosed("") {
		return errClientClosed
	}
	d.openAt.Store(now)
	return nil
}
