package holdfastgoredis

import (
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// urgentClient is the go-redis client for renewals, releases and subscriptions.
//
// When the path to a server breaks silently, because an address moved or a firewall dropped its state, every idle
// connection of a pool is dead. go-redis finds that out one connection at a time: each renewal takes another connection
// and waits for its whole timeout, and a few such waits outlast a lease. So after a call has timed out, the client is
// replaced by one with new connections. A Cluster's client is not replaced, since its other masters may work.
type urgentClient struct {
	options *redis.Options // nil in a Cluster

	mu       sync.Mutex
	client   redis.UniversalClient
	replaced time.Time // the last time
}

// A client is replaced at most once in replacePeriod. The old one stays open for replaceGrace, for the calls in flight.
const (
	replacePeriod = time.Second
	replaceGrace  = 3 * time.Second
)

func (u *urgentClient) get() redis.UniversalClient {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.client
}

// replaceUrgent replaces the urgent client, unless it is no longer old or the driver is closing.
func (d *adapter) replaceUrgent(old redis.UniversalClient) {
	u := &d.urgent
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.client != old || u.options == nil || time.Since(u.replaced) < replacePeriod {
		return
	}
	if d.spawn(func() {
		select {
		case <-time.After(replaceGrace):
		case <-d.ctx.Done():
		}
		_ = old.Close()
	}) {
		u.client, u.replaced = redis.NewClient(u.options), time.Now()
	}
}
