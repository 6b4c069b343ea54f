// Package adapter is the driver over a client library. The adapters say how to make the library's clients; what to do with them is the
// same for all libraries, and is done here.
package adapter

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
	"github.com/holdfast-go/holdfast/internal/pubsub"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/sentinel"
)

// Driver is the driver.Driver. It makes its client at the first call, and again after it gave one up.
type Driver struct {
	lib      Library
	conns    conns
	subs     *pubsub.Pool
	follower *follower // nil without Sentinel

	slots      atomic.Pointer[slotMap] // of a Cluster; nil until first asked for
	refreshing atomic.Bool             // slots is being refreshed in the background
	openAt     atomic.Int64            // when the program's client was last seen open, by Ready, ns

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
	done chan struct{} // closed when the attempt is over
	err  error         // as Run returns it
}

// New returns a driver, which connects on first use.
func New(lib Library) *Driver {
	d := &Driver{lib: lib}
	d.ctx, d.stop = context.WithCancel(context.Background())
	if lib.Sentinel != nil || lib.Find != nil {
		d.follower = newFollower(d)
	}
	d.subs = pubsub.New(subscriber{d}, d.Run)
	return d
}

// connect returns the client, or makes it if there is none. The caller calls calls.Done of the client when it no longer uses it. The
// errors are as Run returns them.
func (d *Driver) connect(ctx context.Context) (*Client, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, notSent(err)
		}
		d.mu.Lock()
		if d.ctx.Err() != nil {
			d.mu.Unlock()
			return nil, notSent(d.lib.ErrClosing)
		}
		if c := d.client; c != nil {
			c.calls.Add(1)
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
			if a.err != nil {
				return nil, a.err
			}
		case <-ctx.Done():
			return nil, notSent(ctx.Err())
		}
	}
}

func (d *Driver) make(a *attempt) {
	var client *Client
	if d.follower != nil {
		client, a.err = d.follower.connect()
	} else {
		client, a.err = d.lib.New("", d.dial(d.era()))
	}
	if a.err = convert(a.err); a.err != nil && !resp.Is(a.err) && !errors.Is(a.err, driver.ErrNotSent) {
		a.err = notSent(a.err) // calls are sent only after that
	}
	d.mu.Lock()
	d.client, d.made, d.attempt = client, time.Now(), nil
	d.mu.Unlock()
	close(a.done)
}

// current returns the client, or nil if there is none.
func (d *Driver) current() *Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.client
}

// dropPeriod is the shortest time between two drops of clients because of what servers say or fail to say.
const dropPeriod = time.Second

// drop gives up a client, unless it is younger than age. The next one asks again where the master is. If replaced is set, the client's
// server is no longer the master, and all connections are closed; otherwise its calls may end first. A nil client stands for none: there
// may be connections nevertheless, such as those that open has made before the client was dropped.
func (d *Driver) drop(client *Client, age time.Duration, replaced bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client != client || time.Since(d.made) < age || d.ctx.Err() != nil {
		return
	}
	d.client = nil
	if replaced {
		d.conns.closeAll()
	}
	if client == nil {
		return
	}
	d.background.Go(func() {
		if !replaced {
			client.calls.Wait()
		}
		client.Close()
	})
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

// errClientClosed is the error of acquires and renewals after the program has closed its client. The driver's own connections could
// still carry them, but then leases that the program has forgotten would be renewed until it ends.
var errClientClosed = notSent(driver.ErrClientClosed)

// isClosed reports whether the program has closed its client, of which the node that has the key is asked.
func (d *Driver) isClosed(keys []string) bool {
	key := ""
	if len(keys) > 0 {
		key = keys[0]
	}
	return d.lib.Closed != nil && d.lib.Closed(key)
}

// Run sends a call. ctx ends calls, but not dialing, which the library's dialer bounds.
func (d *Driver) Run(ctx context.Context, c driver.Call) (text string, err error) {
	d.RunAll(ctx, []driver.Call{c}, func(_ int, t string, e error) { text, err = t, e })
	return text, err
}

// RunAll sends the calls at once.
func (d *Driver) RunAll(ctx context.Context, calls []driver.Call, tell func(i int, text string, err error)) {
	refuse := func(err error) {
		for i := range calls {
			tell(i, "", err)
		}
	}
	c := &calls[0]
	if c.Renews && d.isClosed(c.Keys) {
		refuse(errClientClosed)
		return
	}
	client, err := d.connect(ctx)
	if err != nil {
		refuse(err)
		return
	}
	defer client.calls.Done()
	if !c.Urgent && client.Shared != nil {
		client = client.Shared
	}
	resp.RunAll(ctx, client.Send, calls, d.Run, func(i int, text string, err error) { tell(i, text, d.judge(client, err)) })
}

// judge draws the consequences of a call's error, and returns the error as Run does. If a call has timed out on a connection that others
// share, judge closes connections that hang, since the library's own ping takes seconds to find them.
func (d *Driver) judge(client *Client, err error) error {
	if d.lib.ErrNoSlot != nil && errors.Is(err, d.lib.ErrNoSlot) {
		return notSent(err)
	}
	if isTimeout(err) && !client.Pools {
		d.conns.closeIf((*conn).isSilent)
	}
	d.suspect(client, err)
	return err
}

// suspect gives up the client after an error that says that another server has the locks now or, if calls do not share connections, that
// connections may hang: idle ones would be found one by one, each by a call that waits for its whole timeout, and a few such waits
// outlast a lease. In a Cluster the library finds the new master, and other masters may work.
func (d *Driver) suspect(client *Client, err error) {
	switch {
	case err == nil:
	case client.Refresh != nil:
		if !resp.Is(err) || resp.Is(err, "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "READONLY") {
			d.spawn(func() { _ = client.Refresh(d.ctx, "") })
		}
	case client.IsCluster:
	case d.follower != nil && errors.Is(err, driver.ErrNotSent):
		d.follower.look()
	case isTimeout(err) && client.Pools:
		d.drop(client, dropPeriod, false)
	case resp.Is(err, "READONLY", "MASTERDOWN"):
		d.drop(client, dropPeriod, true)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

func notSent(err error) error { return fmt.Errorf("%w: %w", driver.ErrNotSent, err) }

// RunDurably uses a connection of its own, since WAIT delays the commands behind it.
func (d *Driver) RunDurably(ctx context.Context, c driver.Call, want driver.Durability) (string, driver.Confirmation, error) {
	if (c.Renews || !c.Urgent) && d.isClosed(c.Keys) {
		return "", driver.Confirmation{}, errClientClosed
	}
	client, err := d.connect(ctx)
	if err != nil {
		return "", driver.Confirmation{}, err
	}
	defer client.calls.Done()
	on := func(node *Client, asking bool) (string, driver.Confirmation, error) {
		conn, release := node.Dedicate(c.Urgent)
		defer release()
		text, reached, err := resp.Durably(ctx, conn, c, want, asking)
		return text, reached, d.judge(client, err)
	}
	text, reached, err := on(client, false)
	// On a dedicated connection the library does not follow redirections.
	if addr, asking := redirection(err); client.IsCluster && text == "" && addr != "" {
		node := client.Nodes()[addr]
		// The library learns of a node without slots from a redirection, and forgets it when it next asks for the slots.
		for tries := 0; node == nil && tries < 3 && client.route(ctx, c.Keys[0]) == nil; tries++ {
			node = client.Nodes()[addr]
		}
		if node != nil {
			text, reached, err = on(node, asking)
		}
		if addr, _ := redirection(err); text == "" && addr != "" {
			err = driver.ReplyError("TRYAGAIN " + err.Error()) // the script did not run
		}
	}
	return text, reached, err
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
// at random, as go-redis does: for commands without keys, the other libraries would choose the same master each time, even if it is down.
func (d *Driver) Probe(ctx context.Context) (driver.ServerInfo, error) {
	if d.isClosed(nil) {
		return driver.ServerInfo{}, errClientClosed
	}
	client, err := d.connect(ctx)
	if err != nil {
		return driver.ServerInfo{}, err
	}
	defer client.calls.Done()
	asked := client
	if client.IsCluster && client.Node == nil {
		for _, asked = range client.Nodes() {
			break
		}
	}
	info, err := sentinel.Probe(ctx, asked.Send)
	if d.follower != nil {
		info.Sentinel, info.Mistakes = true, d.follower.mistakes()
	}
	return info, d.judge(client, err)
}

// Connect opens a connection to a server, or to that node of a Cluster, if the options allow one.
func (d *Driver) Connect(ctx context.Context, node string) (driver.Connection, error) {
	if d.lib.Changes || len(d.lib.Addrs) > 1 && node == "" && d.follower == nil {
		return driver.Connection{}, errors.ErrUnsupported
	}
	return d.open(ctx, node)
}

// open opens a connection that the library greets and does not use itself, to that node of a Cluster or, if node is "", to the server that
// the client is connected to. If all connections are closed meanwhile, so is this one.
func (d *Driver) open(ctx context.Context, node string) (conn driver.Connection, err error) {
	client, err := d.connect(ctx)
	if err != nil {
		return conn, err
	}
	client.calls.Done()
	dial := d.dial(d.era()) // before addr: if the master changes now, the connection is closed
	if d.follower != nil {
		node = d.follower.addr()
	}
	addr := cmp.Or(node, d.conns.latest())
	if addr == "" && len(d.lib.Addrs) > 0 {
		addr = d.lib.Addrs[0]
	}
	if d.lib.GreetTimeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, d.lib.GreetTimeout)
		defer cancel()
		ctx = bounded
	}
	conn.MaxIdle, conn.MaxAge = d.lib.MaxIdle, d.lib.MaxAge
	conn.Conn, err = greeted(ctx, func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return dial(ctx, addr, d.lib.NetDialer, d.lib.TLSConfig)
	}, func(dial Dial) error {
		client, err := d.lib.Greet(ctx, addr, dial)
		if client != nil {
			conn.Free = client.Close
		}
		return err
	})
	return conn, convert(err)
}

// Connects implements driver.Connector.
func (d *Driver) Connects() driver.Driver { return d }

// openPeriod is how long Ready assumes that an open client stays open. A check for each call would be slow.
const openPeriod = 100 * time.Millisecond

// Ready implements driver.Connector.
func (d *Driver) Ready() error {
	if d.lib.Closed == nil {
		return nil
	}
	now := time.Now().UnixNano()
	if since := now - d.openAt.Load(); since >= 0 && since < int64(openPeriod) {
		return nil
	}
	if d.isClosed(nil) {
		return errClientClosed
	}
	d.openAt.Store(now)
	return nil
}

// Failed implements driver.Connector.
func (d *Driver) Failed(err error) {
	if client := d.current(); client != nil {
		d.suspect(client, err)
	}
}

// Addr returns the servers' addresses, or the master's.
func (d *Driver) Addr() string {
	if d.follower != nil {
		return cmp.Or(d.follower.addr(), "the master that Sentinel names")
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
	if d.follower != nil && d.follower.group != nil {
		d.follower.group.Close()
	}
	d.conns.closeAll()
	d.background.Wait()
	d.subs.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client != nil && d.client != client { // made meanwhile
		d.client.Close()
		d.conns.closeAll()
	}
	return nil
}
