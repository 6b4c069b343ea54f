package holdfastgoredis

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// once is a command that go-redis does not retry, since it could be carried out twice.
type once struct{ *redis.Cmd }

// NoRetry switches retries off (go-redis 9.19).
func (once) NoRetry() bool { return true }

// sending returns what sends commands to a server or a Cluster, one by one and perhaps on several connections.
func sending(rdb interface {
	Process(context.Context, redis.Cmder) error
}) resp.Sender {
	return func(ctx context.Context, commands ...resp.Command) []resp.Reply {
		replies := make([]resp.Reply, len(commands))
		for i, c := range commands {
			cmd := command(ctx, c)
			_ = rdb.Process(ctx, cmd) // cmd has the error, too
			replies[i] = resp.Reply{Value: cmd.Val(), Err: convert(cmd.Err())}
		}
		return replies
	}
}

// command returns a command in the form of go-redis.
func command(ctx context.Context, c resp.Command) once {
	words := make([]any, len(c.Words))
	for i := range c.Words {
		words[i] = &c.Words[i] // saves an allocation
		if i <= c.Key {
			words[i] = c.Words[i] // go-redis reads these: it finds a Cluster's node by the key
		}
	}
	return once{redis.NewCmd(ctx, words...)}
}

// convert returns an error of go-redis as driver.Driver's Run returns it. A reply that is nil is an error of go-redis.
func convert(err error) error {
	var refused redis.Error
	var op *net.OpError
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case errors.As(err, &refused):
		return driver.ReplyError(refused.Error())
	case errors.Is(err, driver.ErrNotSent): // as the driver's dialer reports
		return err
	case errors.Is(err, redis.ErrClosed): // by the program
		return fmt.Errorf("%w: %w", driver.ErrNotSent, driver.ErrClientClosed)
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, redis.ErrPoolTimeout):
		return fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	return err
}

// ended is a context that has ended, so that go-redis answers from memory or not at all.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// isClosed reports whether the program has closed its client of a server. Nothing is sent.
func isClosed(node *redis.Client) bool {
	if node.PoolStats().TotalConns > 0 {
		return false // Close has closed and forgotten all connections
	}
	// The context has ended, so the pool refuses the command. Hooks and the Limiter do not see it.
	pool := node.WithTimeout(0)
	pool.Options().Limiter = nil
	return errors.Is(pool.Process(ended, redis.NewCmd(ended, "ping")), redis.ErrClosed)
}
