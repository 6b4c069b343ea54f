package holdfastgoredis

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/prompt"
)

// promptGreeting bounds the wait for the replies to what go-redis sends first on a connection for RunPrompt. It is added to the
// user's DialTimeout. The user's ReadTimeout can be far longer.
const promptGreeting = 5 * time.Second

// initPrompt sets up the connections for RunPrompt, with the options of the driver's other connections. There are none if
// credentials can change: go-redis sends new ones only on the connections of a pool.
func (d *adapter) initPrompt(o *redis.Options) {
	if o.StreamingCredentialsProvider != nil {
		return
	}
	d.prompt = prompt.Keeper{
		Open:    func(ctx context.Context) (net.Conn, func(), error) { return openPrompt(ctx, *o) },
		Timeout: o.DialTimeout + promptGreeting,
		Spawn:   d.spawn, Ctx: d.ctx,
		MaxIdle: o.ConnMaxIdleTime, MaxAge: o.ConnMaxLifetime,
	}
}

// openPrompt opens a connection for RunPrompt.
func openPrompt(ctx context.Context, own redis.Options) (conn net.Conn, free func(), err error) {
	own.PoolSize = 2 // with 1, go-redis would keep dialing after a failure
	own.Protocol = 2 // in RESP3 servers can push
	conn, err = prompt.Greeted(ctx, own.Dialer, func(dial prompt.Dialer) error {
		own.Dialer = dial
		client := redis.NewClient(&own)
		sticky := client.Conn() // go-redis does not replace its connection when that breaks
		free = func() {
			_ = sticky.Close()
			_ = client.Close()
		}
		return sticky.Do(ctx, "hello").Err()
	})
	return conn, free, err
}

func (d *adapter) RunPrompt(ctx context.Context, deadline time.Time, c driver.Call) (string, error) {
	var urgent redis.UniversalClient
	if !c.Urgent && !d.wasOpen() {
		return "", driver.ErrNotSent // Run says why
	}
	if c.Urgent {
		urgent = d.urgent.get() // before the call, since another that fails meanwhile may replace it
	}
	reply, err := d.prompt.Run(ctx, deadline, &c)
	if err != nil && err != driver.ErrNotSent && ctx.Err() == nil {
		if refused, is := err.(driver.ReplyError); is {
			d.refreshAfter(refusal{refused})
			return reply, err
		}
		d.refreshAfter(err)
		if c.Urgent {
			d.replaceAfter(err, urgent)
		}
	}
	return reply, err
}

// refusal is an error reply in the form in which go-redis returns one.
type refusal struct{ driver.ReplyError }

// RedisError marks refusal as a redis.Error.
func (refusal) RedisError() {}
