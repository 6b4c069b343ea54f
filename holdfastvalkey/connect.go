package holdfastvalkey

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/connect"
)

// Connect opens a connection to a single server, or to that node of a Cluster. It does not if credentials can change, since new ones
// would have to be sent on it.
func (a *adapter) Connect(ctx context.Context, node string) (conn driver.Connection, err error) {
	o := a.option
	if o.AuthCredentialsFn != nil || len(o.InitAddress) > 1 && node == "" {
		return conn, errors.ErrUnsupported
	}
	own := o
	own.InitAddress, own.ForceSingleClient = o.InitAddress[:1:1], true
	if node != "" {
		own.InitAddress = []string{node}
	}
	own.SendToReplicas = nil
	own.PipelineMultiplex = -1
	own.AlwaysRESP2 = true                                 // in RESP3 replies have other forms, and servers can push
	own.AlwaysPipelining, own.OnInvalidations = false, nil // otherwise valkey-go would read our replies
	own.Dialer.KeepAlive = -1                              // otherwise it would send PINGs
	conn.MaxAge, own.ConnLifetime = o.ConnLifetime, 0
	conn.Conn, err = connect.Greeted(ctx, func(ctx context.Context, _, addr string) (net.Conn, error) {
		return o.DialCtxFn(ctx, addr, &o.Dialer, o.TLSConfig)
	}, func(dial connect.Dialer) error {
		own.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dial(ctx, "tcp", addr)
		}
		client, err := valkey.NewClient(own)
		if client != nil {
			conn.Free = client.Close
		}
		return err
	})
	return conn, convert(err)
}

// Connects implements driver.Connector.
func (a *adapter) Connects() driver.Driver { return a }

// Ready implements driver.Connector: the client is the driver's own.
func (a *adapter) Ready() error { return nil }

// Failed implements driver.Connector: valkey-go finds out by itself.
func (a *adapter) Failed(error) {}
