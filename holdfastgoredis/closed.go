package holdfastgoredis

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// errClientClosed is the error of calls after the program has closed its client. The driver's own connections would still carry
// acquires and renewals, without end if the program has forgotten its leases. They carry releases only.
var errClientClosed = fmt.Errorf("%w: %w", driver.ErrNotSent, driver.ErrClientClosed)

// convertFor is convert for calls that may go through the program's client. key is the call's first, or "".
func (d *adapter) convertFor(key string, err error) error {
	if errors.Is(err, redis.ErrClosed) && d.isClientClosed(key) {
		return errClientClosed
	}
	return convert(err)
}

// isClientClosed reports whether the program has closed its client, in a Cluster by the node that has the key. Nothing is sent.
func (d *adapter) isClientClosed(key string) bool {
	if d.ownsUser {
		return false
	}
	user, err := nodeOf(ended, d.user, key)
	if err != nil {
		return errors.Is(err, redis.ErrClosed)
	}
	node := user.(*redis.Client)
	if node.PoolStats().TotalConns > 0 {
		return false // Close has closed and forgotten all connections
	}
	// Without its hooks and its Limiter, nobody but the pool sees the command, which it does not serve in any case.
	pool := node.WithTimeout(0)
	pool.Options().Limiter = nil
	return errors.Is(pool.Process(ended, redis.NewCmd(ended, "ping")), redis.ErrClosed)
}

// openPeriod is how long a client that was open is taken for open by RunPrompt, whose calls must cost little.
const openPeriod = 100 * time.Millisecond

// wasOpen reports whether the program's client was open within openPeriod. It is not for Clusters.
func (d *adapter) wasOpen() bool {
	now := time.Now().UnixNano()
	if since := now - d.openAt.Load(); since >= 0 && since < int64(openPeriod) {
		return true
	}
	if d.isClientClosed("") {
		return false
	}
	d.openAt.Store(now)
	return true
}
