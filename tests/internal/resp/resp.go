// Package resp is a very small client of the Redis protocol, version 2. Tests look at a server through it, so
// that what they see does not depend on the connections of the library under test.
package resp

import (
	"bufio"
	"fmt"
	"net"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// Conn is one connection to a server. One goroutine at a time may use it.
type Conn struct {
	net     net.Conn
	in      *bufio.Reader
	timeout time.Duration
}

// Dial connects to addr. The timeout bounds the dialling, every Send and every Receive. After one of them has
// timed out the connection is useless.
func Dial(addr string, timeout time.Duration) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, err
	}
	return &Conn{net: c, in: bufio.NewReader(c), timeout: timeout}, nil
}

// SetTimeout changes the timeout.
func (c *Conn) SetTimeout(d time.Duration) { c.timeout = d }

// Do sends a command and returns its reply, as Receive does.
func (c *Conn) Do(args ...any) (any, error) {
	if err := c.Send(args...); err != nil {
		return nil, err
	}
	return c.Receive()
}

// Send writes a command and does not wait for its reply. Arguments other than strings and byte slices are
// written as fmt.Sprint formats them.
func (c *Conn) Send(args ...any) error {
	if err := c.net.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	_, err := c.net.Write(Request(args...))
	return err
}

// Receive waits for the next reply: a string, an int64, nil, or a []any of these, in which errors are values of
// type driver.ReplyError. An error reply is returned as an error.
func (c *Conn) Receive() (any, error) {
	if err := c.net.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	v, err := resp.Read(c.in)
	if e, is := v.(driver.ReplyError); is {
		return nil, e
	}
	return v, err
}

// Close closes the connection.
func (c *Conn) Close() error { return c.net.Close() }

// Request is a command as it looks on the wire.
func Request(args ...any) []byte {
	words := make([]string, len(args))
	for i, arg := range args {
		if raw, ok := arg.([]byte); ok {
			arg = string(raw)
		}
		words[i] = fmt.Sprint(arg)
	}
	return resp.Append(nil, words...)
}

// ReadRequest reads one command from r, and returns it as it looks on the wire.
func ReadRequest(r *bufio.Reader) ([]byte, error) {
	got, err := resp.Read(r)
	words, is := got.([]any)
	if err == nil && !is {
		err = resp.ErrProtocol
	}
	return Request(words...), err
}
