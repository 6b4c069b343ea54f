package holdfasttest

import (
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// conn is a client's end of a connection in memory. A pipe has no buffer: a client that sends a long pipeline would wait for
// the server to read it, and the server for the client to read its first replies. So what is longer than the server reads at
// a time is written behind the caller's back.
type conn struct {
	net.Conn

	mu      sync.Mutex
	rest    []byte // not written yet
	writing bool   // somebody writes the rest
	closed  bool
	err     error // of a write behind a caller's back
}

// readAtOnce is how many bytes miniredis reads at a time.
const readAtOnce = 4096

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return 0, c.err
	case c.closed:
		return 0, net.ErrClosed
	case !c.writing && len(p) <= readAtOnce:
		c.mu.Unlock()
		defer c.mu.Lock()
		return c.Conn.Write(p)
	}
	c.rest = append(c.rest, p...)
	if !c.writing {
		c.writing = true
		_ = c.Conn.SetWriteDeadline(time.Time{})
		go c.writeRest()
	}
	return len(p), nil
}

// writeRest writes until nothing is left. It then closes the connection if Close was called meanwhile.
func (c *conn) writeRest() {
	for {
		c.mu.Lock()
		next, closed := slices.Clone(c.rest), c.closed
		c.rest = nil
		if len(next) == 0 || c.err != nil {
			c.writing = false
			c.mu.Unlock()
			if closed {
				_ = c.Conn.Close()
			}
			return
		}
		c.mu.Unlock()
		if _, err := c.Conn.Write(next); err != nil {
			c.mu.Lock()
			c.err = err
			c.mu.Unlock()
		}
	}
}

// Close closes the connection once everything is written. Nobody reads any more, so what the server sends until then is
// discarded.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if !c.writing {
		return c.Conn.Close()
	}
	_ = c.Conn.SetReadDeadline(time.Time{})
	go func() { _, _ = io.Copy(io.Discard, c.Conn) }()
	return nil
}

// SetDeadline sets the deadlines of reads and writes.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetWriteDeadline(t); err != nil {
		return err
	}
	return c.SetReadDeadline(t)
}

// SetWriteDeadline bounds writes but those behind the caller's back, which are as in a socket's buffer.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}
