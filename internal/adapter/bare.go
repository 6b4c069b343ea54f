package adapter

import (
	"context"
	"crypto/tls"
	"net"
)

// Bare returns a driver that needs no client library, for tests: of the one server that dial reaches, which wants no credentials. addr
// names it to people. Nothing is sent.
func Bare(addr string, dial func(ctx context.Context) (net.Conn, error)) *Driver {
	return New(Library{
		Name: "test", Addrs: []string{addr},
		Dial: func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) { return dial(ctx) },
		Greet: func(ctx context.Context, addr string, dial Dial) (Greeting, error) {
			_, err := dial(ctx, addr, nil, nil) // servers begin with version 2 of the protocol
			return Greeting{}, err
		},
	})
}
