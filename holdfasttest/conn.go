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
type conn struct {
	in, out *stream
	mu      sync.Mutex
	until   time.Time // the deadline of writes; zero for none
}

// newConns returns both ends of a connection.
func newConns() (*conn, *conn) {
	a, b := &stream{news: make(chan struct{})}, &stream{news: make(chan struct{})}
	return &conn{in: a, out: b}, &conn{in: b, out: a}
}

// stream is one direction of a connection.
type stream struct {
	mu     sync.Mutex
	data   []byte
	ended  bool          // the writing end was closed
	left   bool          // the reading end was closed
	late   bool          // the deadline of reads has passed
	latest *time.Timer   // at the deadline
	news   chan struct{} // closed and replaced when something has changed for the reader
}

// change calls f, and wakes the reader.
func (s *stream) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.news)
	s.news = make(chan struct{})
}

// take reads what is there. If it returns 0 and nil, it has to be called again after news.
func (s *stream) take(p []byte) (n int, news <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.left:
		err = net.ErrClosed
	case s.late:
		err = os.ErrDeadlineExceeded
	case len(s.data) > 0:
		n = copy(p, s.data)
		s.data = s.data[n:]
	case s.ended:
		err = io.EOF
	}
	return n, s.news, err
}

func (c *conn) Read(p []byte) (int, error) {
	for len(p) > 0 {
		n, news, err := c.in.take(p)
		if n > 0 || err != nil {
			return n, err
		}
		<-news
	}
	return 0, nil
}

func (c *conn) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	until := c.until
	c.mu.Unlock()
	if !until.IsZero() && !time.Now().Before(until) {
		return 0, os.ErrDeadlineExceeded
	}
	c.out.change(func() {
		switch {
		case c.out.ended:
			err = net.ErrClosed
		case c.out.left:
			err = io.ErrClosedPipe
		default:
			c.out.data = append(c.out.data, p...)
			n = len(p)
		}
	})
	return n, err
}

// Close closes the connection. The other end still reads what was written.
func (c *conn) Close() error {
	c.out.change(func() { c.out.ended = true })
	c.in.change(func() { c.in.left = true })
	return c.SetReadDeadline(time.Time{}) // which stops the timer
}

// SetDeadline sets the deadlines of reads and writes.
func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetWriteDeadline(t)
	return c.SetReadDeadline(t)
}

// SetWriteDeadline sets when writes begin to fail. They never wait.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	s := c.in
	s.change(func() {
		if s.latest != nil {
			s.latest.Stop()
		}
		s.latest = nil
		left := time.Until(t)
		if s.late = !t.IsZero() && left <= 0; s.late || t.IsZero() {
			return
		}
		var timer *time.Timer
		timer = time.AfterFunc(left, func() {
			s.change(func() { s.late = s.late || s.latest == timer })
		})
		s.latest = timer
	})
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return memory{} }
func (c *conn) RemoteAddr() net.Addr { return memory{} }

// memory is the address of connections in memory.
type memory struct{}

func (memory) Network() string { return "memory" }
func (memory) String() string  { return "memory" }
