package holdfasttest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// conn is one end of a connection in memory. Like a socket's, and unlike a net.Pipe's, its writes do not wait for the other end to read:
// a client may send one request after another before it reads the replies, and a subscriber that reads nothing holds up nobody. What is
// written and not read yet is kept, without a bound.
type conn struct{ in, out *stream }

// newConns returns both ends of a connection.
func newConns() (*conn, *conn) {
	a, b := newStream(), newStream()
	return &conn{in: a, out: b}, &conn{in: b, out: a}
}

// stream is one direction of a connection.
type stream struct {
	mu          sync.Mutex
	changed     *sync.Cond // for the reader
	data        []byte
	ended       bool        // the writing end was closed
	left        bool        // the reading end was closed
	read, write time.Time   // deadlines; zero for none
	alarm       *time.Timer // wakes the reader at its deadline
}

func newStream() *stream {
	s := &stream{}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func isPast(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

func (c *conn) Read(p []byte) (int, error) {
	s := c.in
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.left:
			return 0, net.ErrClosed
		case isPast(s.read):
			return 0, os.ErrDeadlineExceeded
		case len(s.data) > 0 || len(p) == 0:
			n := copy(p, s.data)
			s.data = s.data[n:]
			return n, nil
		case s.ended:
			return 0, io.EOF
		}
		s.changed.Wait()
	}
}

func (c *conn) Write(p []byte) (int, error) {
	s := c.out
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return 0, net.ErrClosed
	case isPast(s.write):
		return 0, os.ErrDeadlineExceeded
	case s.left:
		return 0, io.ErrClosedPipe
	}
	s.data = append(s.data, p...)
	s.changed.Signal()
	return len(p), nil
}

// Close closes the connection. The other end still reads what was written.
func (c *conn) Close() error {
	c.out.change(func() { c.out.ended = true })
	c.in.change(func() { c.in.left = true })
	return c.SetReadDeadline(time.Time{}) // which stops the timer
}

// change calls f and wakes the reader.
func (s *stream) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.changed.Broadcast()
}

// SetDeadline sets the deadlines of reads and writes.
func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetWriteDeadline(t)
	return c.SetReadDeadline(t)
}

// SetWriteDeadline sets when writes begin to fail. They never wait.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.change(func() { c.out.write = t })
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	s := c.in
	s.change(func() {
		if s.alarm != nil {
			s.alarm.Stop()
		}
		if s.read = t; !t.IsZero() {
			s.alarm = time.AfterFunc(time.Until(t), func() { s.change(func() {}) })
		}
	})
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return memory{} }
func (c *conn) RemoteAddr() net.Addr { return memory{} }

// memory is the address of connections in memory.
type memory struct{}

func (memory) Network() string { return "memory" }
func (memory) String() string  { return "memory" }
