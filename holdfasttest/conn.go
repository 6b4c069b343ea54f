package holdfasttest

import (
	"errors"
	"io"
	"net"

	"github.com/holdfast-go/holdfast/internal/network"
)

// dial opens a connection in memory to the server, through a network. Like those of a socket, and unlike those of a net.Pipe, its writes do
// not wait for the other end to read: the network keeps what is on its way. run calls a function that returns when the connection has ended,
// in another goroutine.
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

// conn is one end of a net.Pipe that fails as a socket does once it is closed.
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
