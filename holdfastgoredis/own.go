package holdfastgoredis

import (
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ownClient is the go-redis client for renewals and releases.
//
// When the way to a server breaks without a word, as with an address that moves or a firewall that forgets, every idle
// connection of a pool is dead, and go-redis finds that out one by one: each renewal takes another of them,
// and waits for its whole timeout. A few of these waits are longer than a lease. So a client on which a call had no
// answer in time is replaced by one that has new connections. That of a Cluster is not: other masters may be well.
type ownClient struct {
	options *redis.Options // of a single server; else nil

	mu     sync.Mutex
	client redis.UniversalClient
	made   time.Time // when it replaced another
}

// replacePeriod is how often at most a client is replaced, replaceRest how long an earlier one stays for the calls that
// are under way on it.
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
