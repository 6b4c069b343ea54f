package holdfastrueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/connect"
)

// Connect opens a connection to a single server, or to a node of a Cluster. It returns an error that matches errors.ErrUnsupported if
// credentials can change, since new ones would have to be sent on the connection, or if another server can take this one's place:
// with Sentinel, or if the server redirects clients.
func (d *adapter) Connect(ctx context.Context, node string) (conn driver.Connection, err error) {
	o := d.option
	if d.follower != nil || o.AuthCredentialsFn != nil || o.Standalone.EnableRedirect || len(o.InitAddress) > 1 && node == "" {
		return conn, errors.ErrUnsupported
	}
	addr := o.InitAddress[0]
	if node != "" {
		if addr = d.slots.Load().addrOf(node); addr == "" {
			return conn, fmt.Errorf("%w: the Cluster has no node %s any more", driver.ErrNotSent, node)
		}
	}
	own := singleServer(o, addr)
	own.Standalone = rueidis.StandaloneOption{}
	own.PipelineMultiplex = -1
	own.AlwaysRESP2 = true                                 // in RESP3 replies have other forms, and servers can push
	own.AlwaysPipelining, own.OnInvalidations = false, nil // otherwise rueidis would read our replies
	own.Dialer.KeepAlive = -1                              // otherwise it would send PINGs
	conn.MaxAge, own.ConnLifetime = o.ConnLifetime, 0
	conn.Conn, err = connect.Greeted(ctx, func(ctx context.Context, _, addr string) (net.Conn, error) {
		return o.DialCtxFn(ctx, addr, &o.Dialer, o.TLSConfig)
	}, func(dial connect.Dialer) error {
		own.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dial(ctx, "tcp", addr)
		}
		client, err := rueidis.NewClient(own)
		if client != nil {
			conn.Free = client.Close
		}
		return err
	})
	return conn, convert(err)
}

// Connects implements driver.Connector.
func (d *adapter) Connects() driver.Driver { return d }

// Ready implements driver.Connector: the client is the driver's own.
func (d *adapter) Ready() error { return nil }

// Failed implements driver.Connector: rueidis finds out by itself.
func (d *adapter) Failed(error) {}
