// Package resp is a very small client of the Redis protocol, version 2. Tests look at a server through it, so
// that what they see depends neither on the library under test nor on its client.
package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Error is an error reply as the server sent it, such as "ERR unknown command".
type Error string

func (e Error) Error() string { return string(e) }

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
// type Error. An error reply is returned as an Error.
func (c *Conn) Receive() (any, error) {
	if err := c.net.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	v, err := readReply(c.in)
	if err != nil {
		return nil, err
	}
	if e, ok := v.(Error); ok {
		return nil, e
	}
	return v, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.net.Close() }

// Request is a command as it looks on the wire.
func Request(args ...any) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		var s string
		if raw, ok := arg.([]byte); ok {
			s = string(raw)
		} else {
			s = fmt.Sprint(arg)
		}
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(s), s)
	}
	return b
}

// ReadRequest reads one command from r and returns the bytes that it came in.
func ReadRequest(r *bufio.Reader) ([]byte, error) {
	raw, err := r.ReadBytes('\n')
	if err != nil || raw[0] != '*' {
		return raw, err // in an inline command raw[0] is another byte
	}
	count, err := length(raw)
	if err != nil {
		return raw, err
	}
	for range count {
		head, err := r.ReadBytes('\n')
		raw = append(raw, head...)
		if err != nil {
			return raw, err
		}
		size, err := length(head)
		if err != nil {
			return raw, err
		}
		body := make([]byte, size+2)
		n, err := io.ReadFull(r, body)
		raw = append(raw, body[:n]...)
		if err != nil {
			return raw, err
		}
	}
	return raw, nil
}

// length reads the number in a line such as "*3" or "$12".
func length(line []byte) (int, error) {
	n, err := strconv.Atoi(strings.TrimRight(string(line[1:]), "\r\n"))
	if err != nil || n < 0 || n > 512<<20 {
		return 0, fmt.Errorf("resp: bad length in %q", line)
	}
	return n, nil
}

func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("resp: empty line in a reply")
	}
	kind, text := line[0], line[1:]
	switch kind {
	case '+':
		return text, nil
	case '-':
		return Error(text), nil
	case ':':
		return strconv.ParseInt(text, 10, 64)
	}
	if text == "-1" {
		return nil, nil
	}
	n, err := length([]byte(line))
	if err != nil {
		return nil, err
	}
	switch kind {
	case '$':
		body := make([]byte, n+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, err
		}
		return string(body[:n]), nil
	case '*':
		items := make([]any, n)
		for i := range items {
			if items[i], err = readReply(r); err != nil {
				return nil, err
			}
		}
		return items, nil
	}
	return nil, fmt.Errorf("resp: unknown reply %q", line)
}
