// Package bounds closes connections to servers whose replies would crash or exhaust a client library: replies to
// no request, arrays nested too deeply, and lengths that do not fit in memory.
package bounds

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
)

// Limits on what a server sends. Replies to this library's requests stay far below them.
const (
	maxDepth    = 32       // nesting of arrays
	maxElements = 1 << 20  // elements announced but not yet received, in all open arrays together
	maxBulk     = 64 << 20 // bytes of a bulk string
	maxLine     = 1 << 20  // bytes of an error or another one-line reply
)

// ErrProtocol is wrapped by the read errors of a connection whose server violated the protocol or exceeded a limit.
var ErrProtocol = errors.New("server violated the protocol")

// Wrap returns a connection that fails and closes once its server violates the protocol or exceeds a limit. If conn
// is a syscall.Conn, so is the result. A connection that Wrap has returned is returned as it is.
func Wrap(conn net.Conn) net.Conn {
	switch conn.(type) {
	case syscallConn, *bounded:
		return conn
	}
	c := &bounded{Conn: conn}
	if sys, ok := conn.(syscall.Conn); ok {
		return syscallConn{c, sys}
	}
	return c
}

// Unwrap returns the connection that Wrap was given, for a reader that has bounds of its own.
func Unwrap(conn net.Conn) net.Conn {
	switch c := conn.(type) {
	case syscallConn:
		return c.bounded.Conn
	case *bounded:
		return c.Conn
	}
	return conn
}

type syscallConn struct {
	*bounded
	syscall.Conn
}

// bounded is a connection that tracks its traffic in both directions. At most one goroutine reads and one writes
// at a time.
type bounded struct {
	net.Conn
	requests   requests
	replies    replies
	awaited    atomic.Int64          // requests whose reply has not begun, without those of subscriptions
	subscribed atomic.Bool           // a subscription was requested or ended, so arrays and errors may arrive that are not counted
	failed     atomic.Pointer[error] // what Read returns from then on
}

func (c *bounded) Write(p []byte) (int, error) {
	c.requests.scan(c, p) // counted before the server can reply
	return c.Conn.Write(p)
}

func (c *bounded) Read(p []byte) (int, error) {
	if err := c.failed.Load(); err != nil {
		return 0, *err
	}
	n, err := c.Conn.Read(p)
	if violation := c.replies.scan(c, p[:n]); violation != nil {
		failure := fmt.Errorf("%w: %w", ErrProtocol, violation)
		c.failed.Store(&failure)
		_ = c.Close()
		return 0, failure
	}
	return n, err
}
