package adapters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// claiming is a driver whose server claims this version, if it is not empty.
type claiming struct {
	drivertest.Driver
	driver.Connector
	server, version string
	deletes         *atomic.Int64 // how many DELIFEQ were sent
}

// tallied counts the DELIFEQ that are sent on a connection.
type tallied struct {
	net.Conn
	deletes *atomic.Int64
}

func (c tallied) Write(p []byte) (int, error) {
	c.deletes.Add(int64(bytes.Count(p, []byte("DELIFEQ"))))
	return c.Conn.Write(p)
}

func (d claiming) Connect(ctx context.Context, node string) (driver.Connection, error) {
	conn, err := d.Connector.Connect(ctx, node)
	conn.Conn = tallied{conn.Conn, d.deletes}
	return conn, err
}

func (d claiming) Connects() driver.Driver { return d }

func (d claiming) Probe(ctx context.Context) (driver.ServerInfo, error) {
	info, err := d.Driver.Probe(ctx)
	if d.server != "" {
		info.Server, info.Version = d.server, d.version
	}
	return info, err
}

// A release has the same results by the server's own command and by the script, even if a server claims to have
// the command and does not: then it is tried once.
func TestReleasesByCommandAndByScriptAgree(t *testing.T) {
	each(t, func(t *testing.T, a adapter) {
		for what, claim := range map[string]claiming{
			"as the server is":    {},
			"as if it had it":     {server: "valkey", version: "9.0.0"},
			"as if it had it not": {server: "valkey", version: "8.1.4"},
		} {
			t.Run(what, func(t *testing.T) {
				backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
					claim := claim
					claim.deletes = new(atomic.Int64)
					claim.Driver = a.single(t, 3, b.Dial)
					claim.Connector = claim.Driver.(driver.Connector)
					releases(t, b, client(t, claim))
					if n, uses := b.Server.CommandStats()["delifeq"], b.Server.Binary().Deletes() && what != "as if it had it not"; uses && n < 5 || !uses && n != 0 {
						t.Errorf("%d DELIFEQ", n)
					}
					if lacks, n := !b.Server.Binary().Deletes() && what == "as if it had it", claim.deletes.Load(); lacks && n != 1 {
						t.Errorf("DELIFEQ is tried %d times", n)
					}
				})
			})
		}
	})
}

// releases releases locks in all the states that they can have.
func releases(t *testing.T, b *backend.Backend, c *holdfast.Client) {
	t.Helper()
	ctx, rdb, other := t.Context(), b.Redis(t), b.Client(t, nil)
	const key = "holdfast:{a}"
	acquire := func(opts ...holdfast.MutexOption) *holdfast.Lease {
		t.Helper()
		// Not renewed: a renewal changes the value, and the script releases the lock then.
		return backend.Acquire(t, c.Mutex("a", append(opts, holdfast.TTL(time.Minute), holdfast.NoRenew())...))
	}
	lease := acquire(holdfast.Meta("job", "a:b {}\" é"))
	expect.Err(t, "Extend", lease.Extend(ctx, 2*time.Minute), nil)
	backend.Release(t, lease)
	backend.Release(t, lease) // again
	expect.Equal(t, "a lock is not deleted", rdb.Exists(ctx, key).Val(), 0)

	lease = acquire()
	waiting := backend.Start(t, other.Mutex("a"))
	backend.Waiters(t, c.Mutex("a"), 1)
	backend.Release(t, lease)
	next := backend.Receive(t, waiting) // it looks for itself after 30s
	expect.Rises(t, lease.Fence(), next.Fence())
	backend.Release(t, next)
	backend.Release(t, acquire()) // after this it is not considered contended

	for what, value := range map[string]string{"a lock that was deleted": "", "another program's": "a program's"} {
		lease = acquire()
		rdb.Del(ctx, key)
		if value != "" {
			rdb.Set(ctx, key, value, time.Minute)
		}
		expect.ErrBut(t, what, lease.Release(ctx), holdfast.ErrLost, holdfast.ErrAmbiguous)
		expect.Equal(t, what+": the value", rdb.Get(ctx, key).Val(), value)
		rdb.Del(ctx, key)
		backend.Release(t, acquire())
	}

	lease = acquire()
	rdb.Del(ctx, key)
	rdb.HSet(ctx, key, "a", "b")
	var se *holdfast.ServerError
	if err := lease.Release(ctx); !errors.As(err, &se) || !errors.Is(se, holdfast.ErrMismatch) {
		t.Errorf("a key that is no string: %v", err)
	}
	rdb.Del(ctx, key)
	backend.Release(t, acquire())
	b.Cleaned(t)
}

// A probe sends TIME without waiting for the reply to HELLO: that reply is held back until the same connection has sent TIME.
func TestAProbeIsOneRoundTrip(t *testing.T) {
	each(t, func(t *testing.T, a adapter) {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
				g, b := &gate{}, backend.One(t)
				d := a.single(t, protocol, func(ctx context.Context) (net.Conn, error) { return g.watch(b.Dial(ctx)) })
				t.Cleanup(func() { _ = d.Close() })
				expect.OK(t, expect.ErrOf(d.Run(t.Context(), driver.Call{Script: count, Keys: []string{"warm"}})))
				g.probe(t, d)
			})
		}
		t.Run("Cluster", func(t *testing.T) {
			soak.Nightly(t)
			g, nodes := &gate{}, addrsOf(server.StartCluster(t, server.One(t), 3))
			d := a.cluster(t, nodes, func(ctx context.Context, addr string) (net.Conn, error) { return g.watch(direct(ctx, addr)) })
			warm(t, d)
			for range 10 { // of masters chosen at random
				g.probe(t, d)
			}
		})
	})
}

// Fault: A master of a Cluster dies. Clients that start meanwhile reach the others.
func TestAProbeDoesNotDependOnOneMaster(t *testing.T) {
	soak.Nightly(t)
	each(t, func(t *testing.T, a adapter) {
		nodes := server.StartCluster(t, server.One(t), 3)
		d := a.cluster(t, addrsOf(nodes), direct)
		warm(t, d)
		nodes[0].Kill() // it has the first slots
		backend.Eventually(t, "a probe finds another master", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := d.Probe(ctx)
			return err == nil
		})
	})
}

// gate holds back the replies to a probe's HELLO.
type gate struct {
	mu      sync.Mutex
	probing context.Context // nil if there is no probe; when it ends, the gate opens
	passed  int             // how many replies were held back until TIME was sent
}

// probe makes a driver that is connected probe the server.
func (g *gate) probe(t *testing.T, d drivertest.Driver) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g.mu.Lock()
	g.probing, g.passed = ctx, 0
	g.mu.Unlock()
	info, err := d.Probe(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing = nil
	if err != nil || g.passed != 1 {
		t.Fatalf("Probe = %+v, %v; TIME followed HELLO at once %d times, want once", info, err, g.passed)
	}
}

// watch watches a connection that was dialed.
func (g *gate) watch(conn net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return &gated{Conn: conn, g: g}, nil
}

// gated is a connection behind a gate.
type gated struct {
	net.Conn
	g    *gate
	held context.Context // ends when the connection may be read
	open func()          // ends it
}

func (c *gated) Write(p []byte) (int, error) {
	c.g.mu.Lock()
	request := bytes.ToLower(p)
	if c.g.probing != nil && bytes.Contains(request, []byte("*1\r\n$5\r\nhello\r\n")) {
		c.held, c.open = context.WithCancel(c.g.probing)
	}
	if c.held != nil && bytes.Contains(request, []byte("*1\r\n$4\r\ntime\r\n")) {
		c.open()
		c.held = nil
		c.g.passed++
	}
	c.g.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *gated) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.g.mu.Lock()
	held := c.held
	c.g.mu.Unlock()
	if held != nil {
		<-held.Done()
	}
	return n, err
}
