package holdfastgoredis

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
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

// patience bounds the wait for the replies to what go-redis sends first on a connection that it greets for others. It is added to the
// user's DialTimeout, which by default is as long. The user's ReadTimeout can be far longer.
const patience = 5 * time.Second

// greeting returns what greets the server at an address, with options of a client. It returns when ctx ends, even if a dialer goes on, as
// go-redis's own does with TLS.
func greeting(options func(addr string) redis.Options) adapter.Greet {
	return func(ctx context.Context, addr string, dial adapter.Dial) (adapter.Greeting, error) {
		o := options(addr)
		o.Addr = addr
		o.Dialer = func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr, nil, nil) }
		o.ContextTimeoutEnabled = true
		o.Protocol = 2                                         // in RESP3 servers can push
		o.PoolSize, o.MinIdleConns, o.MaxActiveConns = 2, 0, 0 // with a PoolSize of 1, go-redis would keep dialing after a failure
		o.MaxRetries = -1
		o.DialerRetries = 1 // the engine retries, and needs the error
		o.Limiter = nil     // what is refused to the program must not cost a lease
		o.MaintNotificationsConfig = noNotifications()
		client := redis.NewClient(&o)
		sticky := client.Conn() // go-redis does not replace its connection when that breaks
		err := sticky.Do(ctx, "hello", "2").Err()
		return adapter.Greeting{Free: func() {
			_ = sticky.Close()
			_ = client.Close()
		}}, convert(err)
	}
}

// noNotifications switches off notifications of maintenance, and the lookup of the server's name with which each client would prepare for
// them.
func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone}
}

// dialer is go-redis's form of a dialer.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialOf returns a dialer in the driver's form.
func dialOf(dial dialer, network string) adapter.Dial {
	return func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return dial(ctx, network, addr)
	}
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
