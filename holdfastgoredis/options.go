package holdfastgoredis

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/internal/bounds"
	"github.com/holdfast-go/holdfast/internal/connect"
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

// ownOptions returns the options for the driver's own connections to the server that o leads to.
func ownOptions(o *redis.Options) *redis.Options {
	own := *o
	own.Dialer = bounding(o.Dialer)
	own.ContextTimeoutEnabled = true
	own.MaxActiveConns = 0
	own.MaxRetries = -1
	own.DialerRetries = 1 // the engine retries, and needs the error
	own.MinIdleConns = 0
	own.Limiter = nil // what is refused to the program must not cost a lease
	own.MaintNotificationsConfig = noNotifications()
	return &own
}

// noNotifications switches off notifications of maintenance, and the lookup of the server's name with which each client would
// prepare for them.
func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone}
}

// bounding returns a dialer whose connections close when the server sends what go-redis could not survive.
func bounding(dial connect.Dialer) connect.Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return bounds.Wrap(conn), nil
	}
}

// boundingOr returns bounding of dial or, if that is nil, of one like go-redis's, whose TLS handshakes end with their contexts.
func boundingOr(dial connect.Dialer, timeout time.Duration, config *tls.Config) connect.Dialer {
	if dial != nil {
		return bounding(dial)
	}
	const usual = 5 * time.Second
	d := &net.Dialer{Timeout: cmp.Or(timeout, usual), KeepAlive: 5 * time.Minute}
	if config == nil {
		return bounding(d.DialContext)
	}
	return bounding((&tls.Dialer{NetDialer: d, Config: config}).DialContext)
}

func ownClusterOptions(o *redis.ClusterOptions) *redis.ClusterOptions {
	own := *o
	own.Dialer = boundingOr(o.Dialer, o.DialTimeout, o.TLSConfig)
	own.ContextTimeoutEnabled = true
	own.MaxActiveConns = 0
	own.MaxRetries = -1
	own.DialerRetries = 1 // the engine retries, and needs the error
	own.MinIdleConns = 0
	own.ReadOnly, own.RouteByLatency, own.RouteRandomly = false, false, false
	own.MaintNotificationsConfig = noNotifications()
	return &own
}
