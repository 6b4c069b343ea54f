package holdfast

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// Client hands out locks on one server, or one Cluster. A process needs one; it is safe for concurrent use.
type Client struct {
	e      *engine.Client
	common []engine.Option // of its locks, from Config
	poll   []engine.Option // of those that can poll, from Config
	queued options         // of those that are waited for in a queue: both
	single bool            // Config sets MinReplicas or Fsync, which a quorum refuses
}

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
	if cfg.isDurable() && !e.Server().CanConfirm() {
		return nil, fmt.Errorf("%w: Config.MinReplicas and Config.Fsync are not possible: this driver cannot wait for replicas", ErrInvalid)
	}
	c := &Client{e: e, single: cfg.isDurable()}
	if cfg.MinReplicas != 0 || cfg.ReplicaTimeout != 0 {
		c.common = append(c.common, engine.MinReplicas(cfg.MinReplicas, cfg.ReplicaTimeout))
	}
	if cfg.Fsync {
		c.common = append(c.common, engine.Fsync(true))
	}
	if cfg.PollInterval != 0 {
		c.poll = append(c.poll, engine.Poll(cfg.PollInterval))
	}
	c.queued.given = slices.Concat(c.poll, c.common)
	return c, nil
}

// Admit admits a new server to Strict mode, so that it grants locks at once. Without it the server is in quarantine at
// first. Run it once for a server, by hand: a server that lost its data looks like a new one, so do not run it whenever a
// server starts. A server in quarantine makes it return [ErrQuarantine], which says for how long. A client whose
// [Config.Strict] is false gets [ErrInvalid].
func (c *Client) Admit(ctx context.Context) error { return leave(c.e.Init(ctx, false)) }

// ForceAdmit is Admit, and ends a quarantine: use it only if no holder can still rely on an earlier lease.
func (c *Client) ForceAdmit(ctx context.Context) error { return leave(c.e.Init(ctx, true)) }

// Close ends the client. Waiters return [ErrClosed] and leave their queues; the contexts of leases end with the cause
// ErrClosed, and nothing is renewed any more. Close then waits until every lease has been released or has expired, because
// a lock is not given away under a holder that may still be working. If ctx ends first, Close returns ctx's error. What is
// not released expires with its TTL. The driver's own connections are closed after that; a client that the program passed
// to an adapter stays open. A second Close waits for the first.
func (c *Client) Close(ctx context.Context) error { return leave(c.e.Close(ctx)) }

// Ping asks whether the server can be reached, and whether it can be used for locks: so a mistyped address shows when the program
// starts. It tries for as long as [Config.RetryTimeout], or until ctx ends, and changes nothing. Its errors are those of an
// acquire: [ErrUnavailable], [ErrDenied], [ErrUnsupported], [ErrClosed]. It does not check the user's permissions; "holdfast
// doctor" does.
func (c *Client) Ping(ctx context.Context) error { return leave(c.e.Ping(ctx)) }

// String names the client and its server.
func (c *Client) String() string { return c.e.String() }
