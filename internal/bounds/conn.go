// Package bounds closes connections to servers whose replies would crash or exhaust a client library: replies to
// no request, arrays nested too deeply, and lengths that do not fit in memory.
package bounds

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// ErrProtocol is wrapped by the read errors of a connection whose server violated the protocol or exceeded a limit.
var ErrProtocol = resp.ErrProtocol

// Wrap returns a connection that fails and closes once its server violates the protocol or exceeds a limit. If conn
// is a syscall.Conn, so is the result. A connection that Wrap has returned is returned as it is.
func Wrap(conn net.Conn) net.Conn {
	switch conn.(type) {
	case syscallConn, *bounded:
		return conn
	}
	c := &bounded{Conn: conn, in: bufio.NewReader(conn)}
	if sys, ok := conn.(syscall.Conn); ok {
		return syscallConn{c, sys}
	}
	return c
}

// Unwrap returns the connection that Wrap was given, for a reader that has bounds of its own. All replies must have been read.
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

// bounded is a connection that hands on each reply once it has arrived in full and was checked. At most one goroutine reads and one writes
// at a time.
type bounded struct {
	net.Conn
	request []byte       // the beginning of a request of which the rest is not written yet
	awaited atomic.Int64 // requests whose reply has not begun
	in      *bufio.Reader
	checked []byte // that can be read
	failed  error  // what Read returns from then on
}

// unlimited is how many replies a subscription may have.
const unlimited = 1 << 40

func (c *bounded) Write(p []byte) (int, error) {
	// Requests are counted before the server can reply.
	c.request = append(c.request, p...)
	for {
		rest := bytes.NewReader(c.request)
		in := bufio.NewReader(rest)
		request, err := resp.Read(in)
		if err != nil { // the end is missing
			break
		}
		c.request = c.request[len(c.request)-rest.Len()-in.Buffered():]
		c.awaited.Add(1)
		if words, is := request.([]any); is && len(words) > 0 && strings.HasSuffix(strings.ToLower(fmt.Sprint(words[0])), "subscribe") {
			c.awaited.Add(unlimited)
		}
	}
	return c.Conn.Write(p)
}

func (c *bounded) Read(p []byte) (int, error) {
	if len(c.checked) == 0 && c.failed == nil {
		if _, err := c.in.Peek(1); err != nil { // also if a deadline has passed before a reply began
			return 0, err
		}
		r := reply{in: c.in, awaited: &c.awaited}
		if c.failed = r.read(0); c.failed != nil {
			_ = c.Close()
		}
		c.checked = r.text
	}
	if c.failed != nil {
		return 0, c.failed
	}
	n := copy(p, c.checked)
	c.checked = c.checked[n:]
	return n, nil
}
