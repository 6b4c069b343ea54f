package adapter

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounds"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// Conn is a connection that speaks version 2 of the Redis protocol. One goroutine at a time may use it.
type Conn struct {
	net driver.Connection
	in  *bufio.Reader
	err error // why it can no longer be used

	made, used time.Time
}

// NewConn returns the protocol's side of a connection.
func NewConn(c net.Conn) *Conn { return newConn(driver.Connection{Conn: c}) }

func newConn(c driver.Connection) *Conn {
	c.Conn = bounds.Unwrap(c.Conn) // resp.Read has its own
	now := time.Now()
	return &Conn{net: c, in: bufio.NewReader(c.Conn), made: now, used: now}
}

// Close closes the connection.
func (c *Conn) Close() { discard(c.net) }

// Do sends a command and returns its reply as text; that of several items has one on a line.
func (c *Conn) Do(ctx context.Context, words ...string) (string, error) {
	reply := c.send(ctx, resp.New(words...))[0]
	return text(reply.Value), reply.Err
}

// send is a resp.Sender. ctx's deadline bounds it. After an error that the server did not send, all further commands fail.
func (c *Conn) send(ctx context.Context, commands ...resp.Command) []resp.Reply {
	var request []byte
	for _, command := range commands {
		request = resp.Append(request, command.Words...)
	}
	if c.err == nil {
		deadline, _ := ctx.Deadline()
		_ = c.net.SetDeadline(deadline)
		_, err := c.net.Write(request)
		c.fail(err)
	}
	replies := make([]resp.Reply, len(commands))
	for i := range replies {
		if c.err == nil {
			value, err := resp.Read(c.in)
			c.fail(err)
			replies[i].Value = value
		}
		refused, is := replies[i].Value.(driver.ReplyError)
		switch {
		case c.err != nil:
			replies[i] = resp.Reply{Err: c.err}
		case is:
			replies[i] = resp.Reply{Err: refused}
		}
	}
	if c.err == nil {
		_ = c.net.SetDeadline(time.Time{}) // whose timer would otherwise run on
	}
	if c.in.Buffered() > 0 {
		c.fail(errSurplus)
	}
	c.used = time.Now()
	return replies
}

var errSurplus = fmt.Errorf("%w: it sent a reply to no request", resp.ErrProtocol)

// fail notes an error, if it is the first one. That of a passed deadline is context.DeadlineExceeded, too.
func (c *Conn) fail(err error) {
	switch {
	case c.err != nil:
	case isTimeout(err):
		c.err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	default:
		c.err = err
	}
}

// text returns a reply as text, with a line for each item of an array.
func text(reply any) string {
	switch r := reply.(type) {
	case nil:
		return ""
	case []any:
		lines := make([]string, len(r))
		for i, item := range r {
			lines[i] = text(item)
		}
		return strings.Join(lines, "\n")
	}
	return fmt.Sprint(reply)
}
