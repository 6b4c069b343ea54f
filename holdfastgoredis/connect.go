package holdfastgoredis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/connect"
)

// greeting bounds the wait for the replies to what go-redis sends first on a connection of Connect. It is added to the user's
// DialTimeout. The user's ReadTimeout can be far longer.
const greeting = 5 * time.Second

// Connect opens a connection with the options of the driver's other connections.
func (d *adapter) Connect(ctx context.Context, node string) (driver.Connection, error) {
	o := d.optionsFor(node)
	if o == nil || d.limited || o.StreamingCredentialsProvider != nil { // go-redis sends new credentials only on the connections of a pool
		return driver.Connection{}, errors.ErrUnsupported
	}
	return d.greet(ctx, o)
}

// optionsFor returns the options of connections to that node of a Cluster or, outside Cluster mode, to the server. They are nil if a node
// is not known.
func (d *adapter) optionsFor(node string) *redis.Options {
	if known, is := d.nodes.Load(node); is {
		return known.(*redis.Client).Options()
	}
	return d.urgent.options
}

// greet opens a connection on which go-redis greets the server.
func (d *adapter) greet(ctx context.Context, from *redis.Options) (conn driver.Connection, err error) {
	if from == nil {
		return conn, fmt.Errorf("%w: %w", driver.ErrNotSent, errNoNode)
	}
	own := *from
	own.PoolSize = 2 // with 1, go-redis would keep dialing after a failure
	own.Protocol = 2 // in RESP3 servers can push
	ctx, cancel := context.WithTimeout(ctx, own.DialTimeout+greeting)
	defer cancel()
	conn.MaxIdle, conn.MaxAge = from.ConnMaxIdleTime, from.ConnMaxLifetime
	conn.Conn, err = connect.Greeted(ctx, own.Dialer, func(dial connect.Dialer) error {
		own.Dialer = dial
		client := redis.NewClient(&own)
		sticky := client.Conn() // go-redis does not replace its connection when that breaks
		conn.Free = func() {
			_ = sticky.Close()
			_ = client.Close()
		}
		return sticky.Do(ctx, "hello").Err()
	})
	return conn, convert(err)
}

// noting returns a function that makes the client of a Cluster's node, as newClient does, and notes it.
func (d *adapter) noting(newClient func(*redis.Options) *redis.Client) func(*redis.Options) *redis.Client {
	if newClient == nil {
		newClient = redis.NewClient
	}
	return func(o *redis.Options) *redis.Client {
		client := newClient(o)
		d.nodes.Store(o.Addr, client)
		return client
	}
}

// Connects implements driver.Connector.
func (d *adapter) Connects() driver.Driver { return d }

// Failed implements driver.Connector.
func (d *adapter) Failed(err error) { d.judge(err, d.urgent.get()) }
