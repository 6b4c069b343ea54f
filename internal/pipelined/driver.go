// Package pipelined is the driver over client libraries of which goroutines share a connection: over rueidis, and over valkey-go, which
// was made from it. Adapters make the libraries' clients; what to do with them is the same, and is done here.
package pipelined

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/internal/pubsub"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/sentinel"
)

// Driver is the driver.Driver. It makes its client at the first call, and again after its server turned out to be no longer the master.
type Driver struct {
	lib      Library
	conns    conns
	subs     *pubsub.Pool
	follower *follower // nil without Sentinel

	slots      atomic.Pointer[slotMap] // of a Cluster; nil until first asked for
	refreshing atomic.Bool             // slots is being refreshed in the background

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu         sync.Mutex
	background sync.WaitGroup // added to with mu held, while ctx has not ended
	client     *Client
	made       time.Time
	attempt    *attempt // nil if there is none
}

// attempt is an attempt to make a client, shared by all calls that need one.
type attempt struct {
	done   chan struct{} // closed when client or err is set
	client *Client
	err    error // as Run returns it
}

// New returns a driver, which connects on first use.
func New(lib Library) *Driver {
	d := &Driver{lib: lib}
	d.ctx, d.stop = context.WithCancel(context.Background())
	if lib.Sentinel != nil {
		d.follower = newFollower(d)
	}
	d.subs = pubsub.New(subscriber{d}, d.Run)
	return d
}

// connect returns the client, or makes it if there is none. Its errors are as Run returns them.
func (d *Driver) connect(ctx context.Context) (*Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, notSent(err)
	}
	d.mu.Lock()
	if d.ctx.Err() != nil {
		d.mu.Unlock()
		return nil, notSent(d.lib.ErrClosing)
	}
	if c := d.client; c != nil {
		d.mu.Unlock()
		return c, nil
	}
	a := d.attempt
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		d.attempt = a
		d.background.Go(func() { d.make(a) })
	}
	d.mu.Unlock()
	select {
	case <-a.done:
		return a.client, a.err
	case <-ctx.Done():
		return nil, notSent(ctx.Err())
	}
}

func (d *Driver) make(a *attempt) {
	if d.follower != nil {
		a.client, a.err = d.follower.connect()
	} else {
		a.client, a.err = d.lib.New("", d.dial)
	}
	if a.err = convert(a.err); a.err != nil && !resp.Is(a.err) && !errors.Is(a.err, driver.ErrNotSent) {
		a.err = notSent(a.err) // calls are sent only after that
	}
	d.mu.Lock()
	d.client, d.made, d.attempt = a.client, time.Now(), nil
	d.mu.Unlock()
	close(a.done)
}

// dropPeriod is the shortest time between two drops of clients whose servers say that they are not the master.
const dropPeriod = time.Second

// drop closes a client whose server is no longer the master, with all its connections, unless the client is younger than age. The next
// one asks again where the master is.
func (d *Driver) drop(client *Client, age time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if client == nil || d.client != client || time.Since(d.made) < age || d.ctx.Err() != nil {
		return
	}
	d.client = nil
	d.conns.close(true)
	d.background.Go(client.Close)
}

// spawn calls f in a goroutine, or returns false if the driver is closing.
func (d *Driver) spawn(f func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return false
	}
	d.background.Go(f)
	return true
}

// Run sends a call. ctx ends calls, but not dialing, which the library's dialer bounds.
func (d *Driver) Run(ctx context.Context, c driver.Call) (text string, err error) {
	d.RunAll(ctx, []driver.Call{c}, func(_ int, t string, e error) { text, err = t, e })
	return text, err
}

// RunAll sends the calls at once. The library routes each to its node and follows redirections.
func (d *Driver) RunAll(ctx context.Context, calls []driver.Call, tell func(i int, text string, err error)) {
	client, err := d.connect(ctx)
	if err != nil {
		for i := range calls {
			tell(i, "", err)
		}
		return
	}
	resp.RunAll(ctx, client.Send, calls, func(i int, text string, err error) { tell(i, text, d.judge(client, err)) })
}

// judge returns an error of the client as Run returns it. If a call has timed out, judge closes connections that hang, since the
// library's own ping takes seconds to find them. It drops the client if the server is no longer the master, except in a Cluster, where
// the library finds the new one.
func (d *Driver) judge(client *Client, err error) error {
	switch {
	case errors.Is(err, d.lib.ErrNoSlot):
		return notSent(err)
	case errors.Is(err, context.DeadlineExceeded):
		d.conns.close(false)
	case resp.Is(err, "READONLY", "MASTERDOWN") && !client.IsCluster:
		d.drop(client, dropPeriod)
	}
	return err
}

func notSent(err error) error { return fmt.Errorf("%w: %w", driver.ErrNotSent, err) }

// RunDurably uses a connection of its own, since WAIT delays the commands behind it.
func (d *Driver) RunDurably(ctx context.Context, c driver.Call, want driver.Durability) (string, driver.Confirmation, error) {
	client, err := d.connect(ctx)
	if err != nil {
		return "", driver.Confirmation{}, err
	}
	on := func(client *Client, asking bool) (string, driver.Confirmation, error) {
		conn, release := client.Dedicate()
		defer release()
		return resp.Durably(ctx, conn, c, want, asking)
	}
	text, reached, err := on(client, false)
	// On a dedicated connection the library does not follow redirections, but it learns of the node.
	if addr, asking := redirection(err); text == "" && addr != "" {
		if node := client.Nodes()[addr]; node != nil {
			text, reached, err = on(node, asking)
		}
		if addr, _ := redirection(err); text == "" && addr != "" {
			err = driver.ReplyError("TRYAGAIN " + err.Error()) // the script did not run
		}
	}
	return text, reached, d.judge(client, err)
}

// redirection returns the address that a MOVED or ASK error names, and whether it is an ASK. It returns "" for other
// errors.
func redirection(err error) (addr string, asking bool) {
	var code string
	var slot int
	if resp.Is(err, "MOVED", "ASK") {
		if _, err := fmt.Sscan(err.Error(), &code, &slot, &addr); err != nil {
			return "", false
		}
	}
	return addr, code == "ASK"
}

// Probe uses HELLO, which every user may send, and TIME, which every script sends, in one round trip. In a Cluster it asks a node chosen
// at random: for commands without keys, the library would choose the same master each time, even if it is down.
func (d *Driver) Probe(ctx context.Context) (driver.ServerInfo, error) {
	client, err := d.connect(ctx)
	if err != nil {
		return driver.ServerInfo{}, err
	}
	asked := client
	if client.IsCluster {
		for _, asked = range client.Nodes() {
			break
		}
	}
	info, err := sentinel.Probe(ctx, asked.Send)
	if err == nil && d.follower != nil {
		info.Sentinel, info.Mistakes = true, d.follower.group.Mistakes()
	}
	return info, d.judge(client, err)
}

// Connect opens a connection to a server, or to that node of a Cluster, if the options allow one.
func (d *Driver) Connect(ctx context.Context, node string) (driver.Connection, error) {
	if d.lib.Changes || d.follower != nil || len(d.lib.Addrs) > 1 && node == "" {
		return driver.Connection{}, errors.ErrUnsupported
	}
	return d.greet(ctx, cmp.Or(node, d.lib.Addrs[0]))
}

func (d *Driver) greet(ctx context.Context, addr string) (conn driver.Connection, err error) {
	conn.Conn, err = connect.Greeted(ctx, func(ctx context.Context, _, addr string) (net.Conn, error) {
		return d.dial(ctx, addr, d.lib.NetDialer, d.lib.TLSConfig)
	}, func(dial connect.Dialer) error {
		client, err := d.lib.Greet(addr, func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dial(ctx, "tcp", addr)
		})
		if client != nil {
			conn.Free = client.Close
		}
		return err
	})
	return conn, convert(err)
}

// Connects implements driver.Connector.
func (d *Driver) Connects() driver.Driver { return d }

// Ready implements driver.Connector: the client is the driver's own.
func (d *Driver) Ready() error { return nil }

// Failed implements driver.Connector: the library finds out by itself.
func (d *Driver) Failed(error) {}

// Addr returns the servers' addresses, or the master's.
func (d *Driver) Addr() string {
	if d.follower != nil {
		return d.follower.addr()
	}
	return strings.Join(d.lib.Addrs, ",")
}

// String returns the adapter and the server. Without it, fmt would print the options, which contain the password.
func (d *Driver) String() string { return fmt.Sprintf("holdfast%s.Driver(%s)", d.lib.Name, d.Addr()) }

// Format prints String for every verb.
func (d *Driver) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, d.String()) }

// Close closes the client and waits for the driver's goroutines.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.stop()
	client := d.client
	d.mu.Unlock()
	d.subs.Stop()
	if client != nil {
		client.Close()
	}
	if d.follower != nil {
		d.follower.group.Close()
	}
	d.conns.close(true)
	d.background.Wait()
	d.subs.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client != nil && d.client != client { // made meanwhile
		d.client.Close()
		d.conns.close(true)
	}
	return nil
}
