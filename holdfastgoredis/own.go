package holdfastgoredis

import (
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ownClient is the go-redis client for renewals and releases.
//
// When the way to a server breaks silently, because an address moved or a firewall dropped its state, every idle
// connection of a pool is dead. go-redis finds that out one connection at a time: each renewal takes another one and
// waits for its whole timeout, and a few such waits outlast a lease. So when a call times out, the client is replaced by
// one with new connections. A Cluster's client is not replaced, because its other masters may be well.
type ownClient struct {
	options *redis.Options // of a single server; else nil

	mu     sync.Mutex
	client redis.UniversalClient
	made   time.Time // when it replaced another
}

// A client is replaced at most once in replacePeriod. The old one stays open for replaceRest, for the calls that are under
// way on it.
const (
	replacePeriod = time.Second
	replaceRest   = 3 * time.Second
)

func (o *ownClient) get() redis.UniversalClient {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.client
}

// replaceOwn replaces the client for renewals and releases, unless that has been done, or the driver closes.
func (d *adapter) replaceOwn(old redis.UniversalClient) {
	o := &d.own
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.client != old || o.options == nil || time.Since(o.made) < replacePeriod {
		return
	}
	if d.behind(func() {
		select {
		case <-time.After(replaceRest):
		case <-d.ctx.Done():
		}
		_ = old.Close()
	}) {
		o.client, o.made = redis.NewClient(o.options), time.Now()
	}
}
