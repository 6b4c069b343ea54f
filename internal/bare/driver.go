// Package bare is a driver that needs no client library, for tests: it speaks the Redis protocol itself, over whatever
// connections it is given. It reaches one server, without credentials.
package bare

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/pubsub"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// Driver is a driver.Driver for a server. It uses a connection for each call under way, and one for subscriptions.
type Driver struct {
	addr string
	dial Dial
	subs *pubsub.Pool

	mu   sync.Mutex
	idle []*Conn
}

// Dial opens a connection to the server.
type Dial func(ctx context.Context) (net.Conn, error)

// New returns a driver of the server that dial reaches; addr names it to people. Nothing is sent.
func New(addr string, dial Dial) *Driver {
	d := &Driver{addr: addr, dial: dial}
	d.subs = pubsub.New(d, d.Run)
	return d
}

// Addr returns the server's name.
func (d *Driver) Addr() string { return d.addr }

// Close closes all connections.
func (d *Driver) Close() error {
	d.subs.Stop()
	d.subs.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.idle {
		c.Close()
	}
	return nil
}

// Subscribe opens a subscription until cancel is called.
func (d *Driver) Subscribe(sub driver.Subscription) (cancel func()) { return d.subs.Subscribe(sub) }

// Probe asks the server what it is.
func (d *Driver) Probe(ctx context.Context) (info driver.ServerInfo, err error) {
	err = d.use(ctx, func(c *Conn) error {
		hello, now := c.reply(ctx, resp.New("HELLO", "2")), c.reply(ctx, resp.New("TIME"))
		info, err = resp.Info(hello, now)
		return err
	})
	return info, err
}

// Run sends a script or a command.
func (d *Driver) Run(ctx context.Context, call driver.Call) (text string, err error) {
	err = d.use(ctx, func(c *Conn) error {
		text, err = c.reply(ctx, resp.First(call)).Text()
		if resp.Is(err, "NOSCRIPT") {
			text, err = c.reply(ctx, resp.Whole(call)).Text()
		}
		return err
	})
	return text, err
}

// RunAll sends several calls together, and then repeats those whose scripts the server did not know.
func (d *Driver) RunAll(ctx context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	replies, errs := make([]string, len(calls)), make([]error, len(calls))
	answered := 0
	err := d.use(ctx, func(c *Conn) error {
		commands := make([][]string, len(calls))
		for i, call := range calls {
			commands[i] = resp.First(call).Words
		}
		if err := c.send(ctx, commands...); err != nil {
			return err
		}
		for i := range calls {
			reply, err := c.receive()
			if isBroken(err) {
				return err
			}
			replies[i], errs[i] = text(reply), err
			answered++
		}
		return nil
	})
	for i, call := range calls {
		switch {
		case i >= answered:
			errs[i] = err
		case resp.Is(errs[i], "NOSCRIPT"):
			replies[i], errs[i] = d.Run(ctx, call)
		}
		tell(i, replies[i], errs[i])
	}
}

// Connect opens a connection.
func (d *Driver) Connect(ctx context.Context, _ string) (driver.Connection, error) {
	conn, err := d.dial(ctx)
	if err != nil {
		err = fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	return driver.Connection{Conn: conn}, err
}

// Connects implements driver.Connector.
func (d *Driver) Connects() driver.Driver { return d }

// Ready returns nil: a driver that is in use is not closed.
func (d *Driver) Ready() error { return nil }

// Failed does nothing: there is only one server.
func (d *Driver) Failed(error) {}

// Locate implements pubsub.Client. There is one server, so there is nothing to locate.
func (d *Driver) Locate(pubsub.Channel) (string, bool) { return "", true }

// Refresh implements pubsub.Client.
func (d *Driver) Refresh(context.Context, pubsub.Channel, error) error { return nil }

// CheckMaster implements pubsub.Client.
func (d *Driver) CheckMaster(context.Context, string) error { return nil }

// RunDurably sends a script and waits for replicas or disks on the same connection.
func (d *Driver) RunDurably(ctx context.Context, call driver.Call, want driver.Durability) (text string, reached driver.Confirmation, err error) {
	err = d.use(ctx, func(c *Conn) error {
		text, reached, err = resp.Durably(ctx, func(ctx context.Context, commands ...resp.Command) []resp.Reply {
			replies := make([]resp.Reply, len(commands))
			for i, command := range commands {
				replies[i] = c.reply(ctx, command)
			}
			return replies
		}, call, want, false)
		return err
	})
	return text, reached, err
}

// use calls f with a connection, which is kept for reuse unless f returns an error that the server did not send.
func (d *Driver) use(ctx context.Context, f func(c *Conn) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	d.mu.Lock()
	var c *Conn
	if n := len(d.idle); n > 0 {
		c, d.idle = d.idle[n-1], d.idle[:n-1]
	}
	d.mu.Unlock()
	if c == nil {
		var err error
		if c, err = d.dial.open(ctx); err != nil {
			return fmt.Errorf("%w: %w", driver.ErrNotSent, err)
		}
	}
	err := f(c)
	if isBroken(err) {
		c.Close()
		return err
	}
	c.rest()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = append(d.idle, c)
	return err
}

// reply sends a command and returns its reply.
func (c *Conn) reply(ctx context.Context, command resp.Command) resp.Reply {
	value, err := c.do(ctx, command.Words...)
	return resp.Reply{Value: value, Err: err}
}

// isBroken reports whether a connection must not be used after this error.
func isBroken(err error) bool {
	_, refused := err.(driver.ReplyError)
	return err != nil && !refused
}
