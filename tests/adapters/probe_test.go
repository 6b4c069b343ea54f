package adapters

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

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
			long(t)
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
	long(t)
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
