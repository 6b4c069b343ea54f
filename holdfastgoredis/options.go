package holdfastgoredis

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/internal/adapter"
)

// bounded returns a client over the same pool whose commands end: rdb itself or, if that waits for replies without a limit, one that keeps
// to the deadlines of contexts. Otherwise a command whose context has ended could occupy a connection for ever, and go-redis's Close would
// wait for it. The other client has none of rdb's hooks (go-redis 9.23).
func bounded(rdb *redis.Client) *redis.Client {
	if o := rdb.Options(); o.ReadTimeout > 0 || o.ContextTimeoutEnabled {
		return rdb
	}
	same := rdb.WithTimeout(rdb.Options().ReadTimeout)
	same.Options().ContextTimeoutEnabled = true
	return same
}

// ownOptions returns the options for the driver's own connections, to the server at addr, or if that is "", to the one that o leads to.
func ownOptions(o redis.Options, addr string, dial adapter.Dial) *redis.Options {
	o.Addr = cmp.Or(addr, o.Addr)
	o.Dialer = dialing(dial)
	o.ContextTimeoutEnabled = true
	o.MaxActiveConns = 0
	o.MaxRetries = -1
	o.DialerRetries = 1 // the engine retries, and needs the error
	o.MinIdleConns = 0
	o.Limiter = nil // what is refused to the program must not cost a lease
	o.MaintNotificationsConfig = noNotifications()
	return &o
}

// ownClusterOptions returns the same for a Cluster, whose nodes' clients are noted in nodes.
func ownClusterOptions(o redis.ClusterOptions, dial adapter.Dial, nodes *sync.Map) *redis.ClusterOptions {
	newClient := o.NewClient
	if newClient == nil {
		newClient = redis.NewClient
	}
	o.NewClient = func(o *redis.Options) *redis.Client {
		client := newClient(o)
		nodes.Range(func(addr, node any) bool {
			if isClosed(node.(*redis.Client)) { // it has left the Cluster
				nodes.Delete(addr)
			}
			return true
		})
		nodes.Store(o.Addr, client)
		return client
	}
	o.Dialer = dialing(dial)
	o.ContextTimeoutEnabled = true
	o.MaxActiveConns = 0
	o.MaxRetries = -1
	o.DialerRetries = 1 // the engine retries, and needs the error
	o.MinIdleConns = 0
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
	o.MaintNotificationsConfig = noNotifications()
	return &o
}

// noNotifications switches off notifications of maintenance, and the lookup of the server's name with which each client would
// prepare for them.
func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone}
}

// dialer is go-redis's form of a dialer.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialOf and dialing turn a dialer into the driver's form, and back.
func dialOf(dial dialer, network string) adapter.Dial {
	return func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return dial(ctx, network, addr)
	}
}

func dialing(dial adapter.Dial) dialer {
	return func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr, nil, nil) }
}

// dialerOr returns dial or, if that is nil, a dialer like go-redis's, whose TLS handshakes end with their contexts.
func dialerOr(dial dialer, timeout time.Duration, config *tls.Config) dialer {
	if dial != nil {
		return dial
	}
	d := &net.Dialer{Timeout: cmp.Or(timeout, patience), KeepAlive: 5 * time.Minute}
	if config == nil {
		return d.DialContext
	}
	return (&tls.Dialer{NetDialer: d, Config: config}).DialContext
}
