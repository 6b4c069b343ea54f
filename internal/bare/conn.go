package bare

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// Conn is a connection that speaks version 2 of the Redis protocol.
type Conn struct {
	net net.Conn
	in  *bufio.Reader
}

// NewConn returns the protocol's side of a connection.
func NewConn(c net.Conn) *Conn { return &Conn{c, bufio.NewReader(c)} }

// open opens a connection.
func (dial Dial) open(ctx context.Context) (*Conn, error) {
	c, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	return NewConn(c), nil
}

// Close closes the connection.
func (c *Conn) Close() {
	c.rest()
	_ = c.net.Close()
}

// rest removes the deadline, whose timer would otherwise run on.
func (c *Conn) rest() { _ = c.net.SetDeadline(time.Time{}) }

// Do sends a command and returns its reply as text; that of several items has one on a line.
func (c *Conn) Do(ctx context.Context, args ...string) (string, error) {
	reply, err := c.do(ctx, args...)
	if err != nil {
		return "", err
	}
	return text(reply), nil
}

// do sends a command and returns its reply. After an error that is not a driver.ReplyError the connection must not be used.
func (c *Conn) do(ctx context.Context, args ...string) (any, error) {
	if err := c.send(ctx, args); err != nil {
		return nil, err
	}
	return c.receive()
}

// send writes commands. ctx's deadline bounds that and the reading of the replies.
func (c *Conn) send(ctx context.Context, commands ...[]string) error {
	deadline, _ := ctx.Deadline()
	if err := c.net.SetDeadline(deadline); err != nil {
		return err
	}
	var b []byte
	for _, args := range commands {
		b = resp.Append(b, args...)
	}
	_, err := c.net.Write(b)
	return inTime(err)
}

// receive returns the next reply, or the error that the server sent.
func (c *Conn) receive() (any, error) {
	reply, err := resp.Read(c.in)
	if err != nil {
		return nil, inTime(err)
	}
	if refused, is := reply.(driver.ReplyError); is {
		return nil, refused
	}
	return reply, nil
}

// inTime turns the error of a passed deadline into context.DeadlineExceeded.
func inTime(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
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
