package holdfasttest

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/network"
)

// Client is a client of locks like that of one process of a program, with everything that can happen to such a process.
// The code under test gets its holdfast.Client.
//
// Each fault lasts until the function is called that it returned, or until the test ends. Faults may overlap, but for
// LoseReplies with itself.
//
// Clients work in and out of testing/synctest bubbles. In a bubble what takes minutes takes no time, and nothing is late on
// a slow machine. With Go 1.26 run such tests under the race detector with -cpu 1: -race crashes now and then when two timers
// of a bubble fire on two processors at once.
type Client struct {
	*holdfast.Client
	Server *Server // the server that the client uses; Server.NewClient makes another process

	t       TB
	prefix  string // Config.Prefix; "" is the default
	engine  *engine.Client
	network network.Network
	asleep  network.Gate // shut while the process is paused

	mu     sync.Mutex
	links  sync.WaitGroup
	closed bool
	ends   []func() // of faults
}

// New starts a server in memory and returns a client of it. Both are closed when the test ends.
func New(t TB) *Client {
	t.Helper()
	return Run(t).NewClient(t, nil)
}

// NewClient returns a new client of the server, like one in another process. It is closed when the test ends: in a bubble
// that waits until leases which the test has not released have expired. A nil cfg means the defaults.
func (s *Server) NewClient(t TB, cfg *holdfast.Config) *Client {
	t.Helper()
	c := &Client{Server: s, t: t}
	if cfg != nil {
		c.prefix = cfg.Prefix
	}
	locks, err := holdfast.New(adapter.Bare("holdfasttest", func(ctx context.Context) (net.Conn, error) {
		conn, err := c.dial(ctx)
		c.asleep.Pass(nil)
		return pausing{conn, &c.asleep}, err
	}), cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	c.Client, c.engine = locks, access.Client(locks).Engine
	t.Cleanup(c.end)
	return c
}

// Expire lets this client's leases of the lock of that name run out, as in a process that is too busy to renew them. It
// returns when they are over, on the server too: they have ended, at their deadlines, with holdfast.LossExpired, and the next
// waiter has the lock. That takes up to the lock's TTL. The client's other leases are renewed meanwhile.
//
// Expire fails the test if the client has no lease of the lock.
func (c *Client) Expire(name string) {
	c.t.Helper()
	left := c.engine.Starve(name)
	if left == nil {
		c.t.Fatalf("holdfasttest: Expire(%q): this client has no lease of that lock", name)
		return
	}
	for d := left(); d > 0; d = left() {
		time.Sleep(d)
	}
}

// Partition separates the client from the server until heal. Nothing arrives at either, and no connection can be opened.
// Leases that cannot be renewed end at their deadlines, with holdfast.LossUnreachable; acquires return
// holdfast.ErrUnavailable after Config.RetryTimeout, while those that the server has queued wait on. When the network heals,
// what was sent arrives, late.
func (c *Client) Partition() (heal func()) { return c.until(c.network.Partition()) }

// LoseReplies loses, until end, whatever the server sends to the client. Requests arrive and are carried out: an acquire that
// the server grants returns holdfast.ErrAmbiguous after Config.RetryTimeout, and the lock is given back as soon as replies
// arrive again, or expires with its TTL. Leases end with holdfast.LossUnreachable, though the server has renewed them.
func (c *Client) LoseReplies() (end func()) {
	c.network.SwallowReplies(true)
	return c.until(func() { c.network.SwallowReplies(false) })
}

// Pause suspends the client's process until resume, as does SIGSTOP, a debugger, or a virtual machine that is moved: the
// clock runs on, but the library does nothing. Its leases expire on the server, and others get the locks. The holder is told
// when the process resumes: leases that are past their deadlines have ended by then, with holdfast.LossExpired. A holder that
// asks Lease.Err learns it meanwhile, since that compares clocks.
//
// Only the library can be stopped. The test must see to it that the program's own goroutines wait: one that is to be paused
// in the middle of its work waits there for the test. What it calls meanwhile, such as Acquire, gets no answer before resume,
// but timeouts run on.
func (c *Client) Pause() (resume func()) {
	wake, heal, open := c.engine.Suspend(), c.network.Partition(), c.asleep.Shut()
	return c.until(func() {
		wake() // first, so that a lease ends because the process slept, whatever becomes of a renewal under way
		open()
		heal()
	})
}

// Dial opens a connection to the server that meets what happens to the client: give it to a program's own Redis client, as
// redis.Options.Dialer, if that is to be cut off together with the locks. It ignores network and addr.
func (c *Client) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return c.dial(ctx)
}

// until makes the test end a fault, unless it has ended by then.
func (c *Client) until(end func()) func() {
	end = sync.OnceFunc(end)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, end)
	return end
}

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	if err := c.network.Wait(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	return c.Server.dial(&c.network, c.links.Go)
}

// end ends the faults, and then the client.
func (c *Client) end() {
	c.mu.Lock()
	ends := c.ends
	c.mu.Unlock()
	for _, end := range ends {
		end()
	}
	ctx := context.Background()
	if !clock.InBubble() {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		ctx = short
	}
	_ = c.Close(ctx)
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.network.Close()
	c.links.Wait()
}

// pausing is a connection on which nothing is written or read while the process is paused.
type pausing struct {
	net.Conn
	asleep *network.Gate
}

func (c pausing) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.asleep.Pass(nil)
	return n, err
}

func (c pausing) Write(b []byte) (int, error) {
	c.asleep.Pass(nil)
	defer c.asleep.Pass(nil)
	return c.Conn.Write(b)
}
