package holdfasttest

import (
	"errors"
	"io"
	"net"

	"github.com/holdfast-go/holdfast/internal/network"
)

// dial opens a connection in memory to the server, through a network. The network keeps what is on its way, so writes do not wait for the
// other end to read, as those to a net.Pipe do. run is given a function to call in another goroutine, which returns when the connection has
// ended.
func (s *Server) dial(through *network.Network, run func(func())) (net.Conn, error) {
	s.running.RLock()
	defer s.running.RUnlock()
	select {
	case <-s.stopped:
		return nil, errors.New("holdfasttest: server closed")
	default:
	}
	if s.down {
		return nil, errors.New("holdfasttest: server restarts")
	}
	client, near := net.Pipe()
	far, server := net.Pipe()
	s.redis.Server().ServeConn(server)
	link := through.NewLink(near, far)
	run(func() { link.Run(network.Tap{}) })
	return conn{client}, nil
}

// conn is one end of a net.Pipe. After Close, its reads and writes return net.ErrClosed, as a socket's do.
type conn struct{ net.Conn }

func (c conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, closed(err)
}

func (c conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, closed(err)
}

func closed(err error) error {
	if err == io.ErrClosedPipe {
		return net.ErrClosed
	}
	return err
}
