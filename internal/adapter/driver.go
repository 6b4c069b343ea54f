// Package adapter is the driver over a client library. The library opens connections and greets the server on them, with the program's
// options. What is sent on them afterwards is the same for all libraries, and is sent here, or by what the driver gives a connection to.
package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// Driver is the driver.Driver.
type Driver struct {
	lib      Library
	servers  pool
	subs     *pubsub.Pool
	follower *follower // nil without Sentinel

	isCluster  atomic.Bool
	slots      atomic.Pointer[slotMap] // of a Cluster; nil until first asked for
	refreshing atomic.Bool             // slots is being refreshed in the background
	openAt     atomic.Int64            // when the program's client was last seen open, by Ready, ns

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu         sync.Mutex
	background sync.WaitGroup // added to with mu held, while ctx has not ended
	replaced   time.Time      // when connections were last closed because of what the server said
}

// New returns a driver, which connects on first use.
func New(lib Library) *Driver {
	d := &Driver{lib: lib}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.isCluster.Store(lib.IsCluster)
	d.servers.open, d.servers.ctx, d.servers.spawn = d.open, d.ctx, d.spawn
	if lib.GreetSentinel != nil {
		d.follower = newFollower(d)
	}
	d.subs = pubsub.New(subscriber{d}, d.Run)
	return d
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
	switch {
	case c.Renews && d.isClosed(c.Keys):
		return "", errClientClosed
	case !c.Urgent && d.lib.Shared != nil:
		text, err = resp.Run(ctx, d.lib.Shared, c, false)
	default:
		err = d.follow(&c, func(node string, asking bool) (err error) {
			text, err = resp.Run(ctx, d.sender(node, use{urgent: c.Urgent}), c, asking)
			return err
		})
	}
	d.Failed(err)
	return text, err
}

// maxRedirections bounds how many servers of a Cluster may send a call on to another.
const maxRedirections = 3

// follow calls f with the node that has a call's keys, as far as known, and again with those to which the servers redirect the call.
func (d *Driver) follow(c *driver.Call, f func(node string, asking bool) error) error {
	node, asking := "", false
	if len(c.Keys) > 0 {
		node = d.Node(c.Keys[0])
	}
	for range maxRedirections {
		err := f(node, asking)
		if !d.isCluster.Load() {
			return err
		}
		addr, asks := redirection(err, cmp.Or(node, d.anyNode()))
		if addr == "" {
			return err
		}
		d.Failed(err)
		node, asking = addr, asks
	}
	err := f(node, asking)
	if addr, _ := redirection(err, node); addr != "" {
		err = driver.ReplyError("TRYAGAIN " + err.Error()) // the script did not run
	}
	return err
}

// redirection returns the address that a MOVED or ASK error of the server at asked names, and whether it is an ASK; "" for other errors.
func redirection(err error, asked string) (addr string, asking bool) {
	var code string
	var slot int
	if resp.Is(err, "MOVED", "ASK") {
		if _, err := fmt.Sscan(err.Error(), &code, &slot, &addr); err != nil {
			return "", false
		}
		if host, port, _ := net.SplitHostPort(addr); host == "" || host == "?" { // the server does not know its own
			own, _, _ := net.SplitHostPort(asked)
			addr = net.JoinHostPort(own, port)
		}
	}
	return addr, code == "ASK"
}

func notSent(err error) error { return fmt.Errorf("%w: %w", driver.ErrNotSent, err) }

// RunDurably uses one connection for the script and the wait.
func (d *Driver) RunDurably(ctx context.Context, c driver.Call, want driver.Durability) (text string, reached driver.Confirmation, err error) {
	if (c.Renews || !c.Urgent) && d.isClosed(c.Keys) {
		return "", reached, errClientClosed
	}
	err = d.follow(&c, func(node string, asking bool) (err error) {
		addr, err := d.locate(ctx, node)
		if err != nil {
			return unsent(err)
		}
		conn, give, err := d.servers.take(ctx, addr, use{durable: true, urgent: c.Urgent})
		if err != nil {
			return err
		}
		defer give()
		text, reached, err = resp.Durably(ctx, conn.send, c, want, asking)
		return err
	})
	d.Failed(err)
	return text, reached, err
}

// sender returns what sends commands to the server that locate finds, each time on a connection of their own.
func (d *Driver) sender(node string, u use) resp.Sender {
	return func(ctx context.Context, commands ...resp.Command) []resp.Reply {
		addr, err := d.locate(ctx, node)
		if err != nil {
			return resp.Failed(commands, unsent(err))
		}
		return d.servers.sender(addr, u)(ctx, commands...)
	}
}

// Probe uses HELLO, which every user may send, and TIME, which every script sends, in one round trip. In a Cluster it asks any
// node.
func (d *Driver) Probe(ctx context.Context) (info driver.ServerInfo, err error) {
	if d.isClosed(nil) {
		return info, errClientClosed
	}
	all := d.nodes()
	if d.follower != nil || len(all) == 0 {
		all = []string{""}
	}
	info, err = askAny(d, all, func(addr string) (driver.ServerInfo, error) {
		return sentinel.Probe(ctx, d.sender(addr, use{urgent: true}))
	})
	switch {
	case err != nil:
	case info.Cluster && d.lib.FindsCluster:
		d.isCluster.Store(true)
	case d.lib.IsCluster && !info.Cluster:
		err = driver.ReplyError("ERR This instance has cluster support disabled")
	}
	if err == nil && d.isCluster.Load() && d.slots.Load() == nil {
		_ = d.refreshSlots(ctx) // otherwise the first calls would go to random nodes, and be redirected
	}
	if d.follower != nil {
		info.Sentinel, info.Mistakes = true, d.follower.group.Mistakes()
	}
	d.Failed(err)
	return info, err
}

// Connect opens a connection to a server, or to that node of a Cluster, if the options allow one.
func (d *Driver) Connect(ctx context.Context, node string) (driver.Connection, error) {
	if d.lib.ByShared || len(d.lib.Addrs) > 1 && node == "" && d.follower == nil {
		return driver.Connection{}, errors.ErrUnsupported
	}
	return d.connect(ctx, node)
}

func (d *Driver) connect(ctx context.Context, node string) (driver.Connection, error) {
	addr, err := d.locate(ctx, node)
	if err != nil {
		return driver.Connection{}, unsent(err)
	}
	return d.open(ctx, addr)
}

// locate returns the address of a server: of that node of a Cluster or, if node is "", of the master that the sentinels name, or of the
// server, or of any node.
func (d *Driver) locate(ctx context.Context, node string) (string, error) {
	switch {
	case d.follower != nil:
		return d.follower.locate(ctx)
	case node != "":
		return node, nil
	}
	if addr := d.anyNode(); addr != "" {
		return addr, nil
	}
	if err := d.refreshSlots(ctx); err != nil {
		return "", err
	}
	return d.anyNode(), nil
}

// anyNode returns the address of the server, or of a master of the Cluster; "" if none is known.
func (d *Driver) anyNode() string {
	if all := d.nodes(); len(all) > 0 {
		return all[rand.IntN(len(all))]
	}
	return ""
}

// open opens a connection that the library greets and does not use itself. If all connections are closed meanwhile, so is this one.
func (d *Driver) open(ctx context.Context, addr string) (conn driver.Connection, err error) {
	era := d.servers.conns.current(d.ctx)
	if d.follower != nil && d.follower.addr() != addr {
		return conn, notSent(errReplaced)
	}
	conn, err = d.greet(ctx, addr, d.lib.Greet, d.servers.conns.dialing(d.lib.Dial, era))
	if d.follower != nil && err == nil {
		// Sentinels that missed a failover still name the old master.
		err = resp.CheckMaster(newConn(conn).send(ctx, resp.New("hello"))[0])
	}
	return conn, err
}

func (d *Driver) greet(ctx context.Context, addr string, greet Greet, dial Dial) (conn driver.Connection, err error) {
	if d.lib.GreetTimeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, d.lib.GreetTimeout)
		defer cancel()
		ctx = bounded
	}
	var g Greeting
	conn.Conn, err = greeted(ctx, dial, func(dial Dial) (err error) {
		g, err = greet(ctx, addr, dial)
		return err
	})
	conn.Free, conn.MaxIdle, conn.MaxAge = g.Free, d.lib.MaxIdle, d.lib.MaxAge
	if g.MaxAge > 0 {
		conn.MaxAge = min(g.MaxAge, cmp.Or(conn.MaxAge, g.MaxAge))
	}
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

// replacePeriod is the shortest time between two replacements of all connections because of what servers say.
const replacePeriod = time.Second

// Failed implements driver.Connector. If the error says that another server has the locks now, the driver looks for it. After a timeout,
// idle connections may hang too: each would be found by a call that waits for its whole timeout, and a few such waits outlast a lease.
func (d *Driver) Failed(err error) {
	if err == nil {
		return
	}
	if isTimeout(err) && !errors.Is(err, driver.ErrNotSent) {
		d.servers.forgetAll()
	}
	switch {
	case d.isCluster.Load():
		if !resp.Is(err) || resp.Is(err, "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "READONLY") {
			d.refresh()
		}
	case d.follower != nil && errors.Is(err, driver.ErrNotSent):
		d.follower.look()
	case resp.Is(err, "READONLY", "MASTERDOWN"):
		d.mu.Lock()
		due := time.Since(d.replaced) >= replacePeriod
		if due {
			d.replaced = time.Now()
		}
		d.mu.Unlock()
		if due {
			d.servers.closeAll()
		}
		if d.follower != nil {
			d.follower.look()
		}
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
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

// Close closes all connections and waits for the driver's goroutines.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.stop()
	d.mu.Unlock()
	d.subs.Stop()
	d.servers.closeAll()
	if d.follower != nil {
		d.follower.sentinels.closeAll()
	}
	d.background.Wait()
	d.subs.Wait()
	return nil
}
