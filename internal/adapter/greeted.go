package adapter

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
)

// greeted returns a connection on which a client library has greeted the server. greet must make the library dial exactly once,
// with the Dial that it is given, and must return only after the server has replied to the greeting. When ctx ends, greeted
// closes the connection, because libraries would go on waiting for the server.
func greeted(ctx context.Context, dial Dial, greet func(dial Dial) error) (net.Conn, error) {
	dialed := make(chan net.Conn, 1)
	end := func() {
		select {
		case conn := <-dialed:
			_ = conn.Close()
		default: // not dialed yet; the dialer will see that ctx has ended
		}
	}
	stop := context.AfterFunc(ctx, end)
	err := greet(func(dialing context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		dialing, cancel := context.WithCancel(dialing)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		conn, err := dial(dialing, addr, d, config)
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
