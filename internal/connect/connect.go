// Package connect is what adapters share: they make clients, and have client libraries open connections for others to use.
package connect

import (
	"context"
	"errors"
	"net"
)

// Dialer makes a connection, as net.Dialer's DialContext does.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Greeted returns a connection on which a client library has greeted the server. greet must make the library dial exactly once,
// with the Dialer that it is given, and must return only after the server has replied to the greeting. When ctx ends, Greeted
// closes the connection, because libraries would go on waiting for the server.
func Greeted(ctx context.Context, dial Dialer, greet func(dial Dialer) error) (net.Conn, error) {
	dialed := make(chan net.Conn, 1)
	end := func() {
		select {
		case conn := <-dialed:
			_ = conn.Close()
		default: // not dialed yet; the dialer will see that ctx has ended
		}
	}
	stop := context.AfterFunc(ctx, end)
	err := greet(func(dialing context.Context, network, addr string) (net.Conn, error) {
		dialing, cancel := context.WithCancel(dialing)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		conn, err := dial(dialing, network, addr)
		if err != nil {
			return nil, err
		}
		select {
		case dialed <- conn:
			err = ctx.Err()
		default:
			err = errors.New("dialed again")
		}
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
		return conn, nil
	})
	switch {
	case !stop():
		return nil, ctx.Err()
	case err != nil:
		end() // libraries may leave a connection open after a greeting that failed
		return nil, err
	}
	return <-dialed, nil
}
