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
	"github.com/holdfast-go/holdfast/internal/sentinel"
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
func (d *Driver) Probe(ctx context.Context) (driver.ServerInfo, error) {
	c, err := d.take(ctx)
	if err != nil {
		return driver.ServerInfo{}, err
	}
	defer d.give(c)
	return sentinel.Probe(ctx, c.send)
}

// Run sends a script or a command.
func (d *Driver) Run(ctx context.Context, call driver.Call) (text string, err error) {
	d.RunAll(ctx, []driver.Call{call}, func(_ int, t string, e error) { text, err = t, e })
	return text, err
}

// RunAll sends several calls together.
func (d *Driver) RunAll(ctx context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	c, err := d.take(ctx)
	if err != nil {
		for i := range calls {
			tell(i, "", err)
		}
		return
	}
	defer d.give(c)
	resp.RunAll(ctx, c.send, calls, d.Run, tell)
}

// RunDurably sends a script and waits for replicas or disks on the same connection.
func (d *Driver) RunDurably(ctx context.Context, call driver.Call, want driver.Durability) (string, driver.Confirmation, error) {
	c, err := d.take(ctx)
	if err != nil {
		return "", driver.Confirmation{}, err
	}
	defer d.give(c)
	return resp.Durably(ctx, c.send, call, want, false)
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

// take returns a connection for the caller alone, who gives it back.
func (d *Driver) take(ctx context.Context) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	d.mu.Lock()
	var c *Conn
	if n := len(d.idle); n > 0 {
		c, d.idle = d.idle[n-1], d.idle[:n-1]
	}
	d.mu.Unlock()
	if c != nil {
		return c, nil
	}
	conn, err := d.Connect(ctx, "")
	return NewConn(conn.Conn), err
}

// give keeps a connection for reuse unless it is broken.
func (d *Driver) give(c *Conn) {
	if c.err != nil {
		c.Close()
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = append(d.idle, c)
}
