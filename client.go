package holdfast

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/option"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// Client hands out locks on one server, or one Cluster. A process needs one; it is safe for concurrent use.
type Client struct {
	clientHandle
	durable []kind.Option // of all its locks, from Config
	poll    []kind.Option // of those that can poll, from Config
	queued  option.Set    // of those that are waited for in a queue: both
}

type clientHandle = printable.Handle[*engine.Client]

func (c *Client) e() *engine.Client { return printable.Of(c.clientHandle) }

// New returns a client that reaches its server through a driver. Programs call an adapter's New, such as
// holdfastgoredis.New; New itself is for authors of drivers. It sends nothing: a server that cannot be reached, or is too
// old, shows at the first use, or at [Client.Ping]. A nil cfg means the defaults. A Config that is not valid is [ErrInvalid].
func New(d driver.Driver, cfg *Config) (*Client, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	own, err := cfg.engine()
	if err != nil {
		return nil, err
	}
	e, err := engine.New(d, own)
	if err != nil {
		return nil, leave(err)
	}
	confirm := cfg.Durability
	if !confirm.isZero() && !e.Server.CanConfirm() {
		return nil, fmt.Errorf("%w: Config.Durability is not possible: this driver cannot wait for replicas", ErrInvalid)
	}
	c := &Client{clientHandle: printable.NewHandle(e)}
	if !confirm.isZero() || confirm.Timeout != 0 {
		c.durable = []kind.Option{kind.Durability(confirm.Replicas, confirm.Fsync, confirm.Timeout)}
	}
	if cfg.PollInterval != 0 {
		c.poll = []kind.Option{kind.Poll(cfg.PollInterval)}
	}
	c.queued.Given = slices.Concat(c.poll, c.durable)
	return c, nil
}

// Close ends the client. Waiters return [ErrClosed] and leave their queues; the contexts of leases end with that cause, and
// nothing is renewed any more. Close waits until every lease has been released or has expired, because a lock is not given away
// under a holder that may still be working. If ctx ends first, Close returns ctx's error; what is not released expires with its
// TTL. Then the driver's own connections are closed; a client that the program passed to an adapter stays open. A second Close
// waits for the first.
func (c *Client) Close(ctx context.Context) error { return leave(c.e().Close(ctx)) }

// Ping asks whether the server can be reached and used for locks: so a mistyped address shows when the program starts. It tries
// for as long as [Config.RetryTimeout], or until ctx ends, and changes nothing. Its errors are those of an acquire. It does not
// check the user's permissions; "holdfast doctor" does.
func (c *Client) Ping(ctx context.Context) error { return leave(c.e().Ping(ctx)) }
