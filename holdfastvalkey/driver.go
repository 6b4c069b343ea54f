// Package holdfastvalkey makes a holdfast.Client that talks to the server through valkey-go: a single server or a
// Cluster. It does not support Sentinel; holdfastgoredis.NewFailover and holdfastrueidis do.
//
// A valkey.Client does not reveal its options, and all its users share its connections. So the driver takes the options
// and has valkey-go make connections of its own, on which it speaks to the server itself. Almost all calls share one connection to each
// server. With holdfast.Config.ViaClient, and before the masters of a Cluster are known, each call under way has a connection to itself: up
// to 64 acquires, and 256 renewals and releases. So do calls that wait for replicas or disks. A connection is not used for longer than
// AuthCredentialsFn says by RefreshAfter.
package holdfastvalkey

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/connect"
)

// New returns a holdfast.Client that uses the options with which the program makes its own valkey.Client. It connects on
// first use. Retries, client-side caching, reads from replicas and pipelining are not used. If Dialer.KeepAlive or ConnWriteTimeout is
// zero, it becomes 1 s or 2 s.
//
// If the options cannot be used for locks, the error says why and matches holdfast.ErrInvalid.
func New(o valkey.ClientOption, cfg *holdfast.Config) (*holdfast.Client, error) {
	d, err := NewDriver(o)
	return connect.Client(d, err, cfg)
}

// NewDriver returns the driver of New's client, for programs that wrap a driver or use one without a client.
func NewDriver(o valkey.ClientOption) (driver.Driver, error) {
	switch {
	case len(o.InitAddress) == 0:
		return nil, errors.New("valkey.ClientOption has no InitAddress")
	case o.ReplicaOnly:
		return nil, errors.New("valkey.ClientOption.ReplicaOnly cannot be used for locks: replicas do not grant them")
	case o.Sentinel.MasterSet != "":
		return nil, errors.New("holdfastvalkey does not support Sentinel (valkey.ClientOption.Sentinel.MasterSet); use holdfastgoredis.NewFailover or holdfastrueidis")
	case o.Standalone.EnableRedirect:
		return nil, errors.New("holdfastvalkey does not support valkey.ClientOption.Standalone.EnableRedirect; use the address of the primary")
	}
	o.Dialer.KeepAlive = cmp.Or(o.Dialer.KeepAlive, time.Second)
	o.ConnWriteTimeout = cmp.Or(o.ConnWriteTimeout, 2*time.Second)
	lib := adapter.Library{
		Name: "valkey", Addrs: slices.Clone(o.InitAddress), MaxAge: o.ConnLifetime, Greet: greeting(o),
		Dial:      adapter.Dialer(o.DialCtxFn, o.DialFn, o.DisableTCPNoDelay),
		IsCluster: len(o.InitAddress) > 1 && !o.ForceSingleClient, FindsCluster: !o.ForceSingleClient,
	}
	return adapter.New(lib), nil
}

// greeting returns what greets the server at an address.
func greeting(o valkey.ClientOption) adapter.Greet {
	return func(_ context.Context, addr string, dial adapter.Dial) (g adapter.Greeting, err error) {
		own := o
		own.InitAddress, own.ForceSingleClient, own.DialFn = []string{addr}, true, nil
		own.Sentinel, own.Standalone, own.SendToReplicas = valkey.SentinelOption{}, valkey.StandaloneOption{}, nil
		own.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, config *tls.Config) (net.Conn, error) {
			return dial(ctx, addr, &o.Dialer, config)
		}
		own.DisableRetry, own.DisableCache, own.PipelineMultiplex, own.ConnLifetime = true, true, -1, 0
		own.AlwaysRESP2 = true                                 // in RESP3 replies have other forms, and servers can push
		own.AlwaysPipelining, own.OnInvalidations = false, nil // otherwise valkey-go would read our replies
		own.Dialer.KeepAlive = -1                              // otherwise it would send PINGs
		if credentials := o.AuthCredentialsFn; credentials != nil {
			own.AuthCredentialsFn = func(of valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
				c, err := credentials(of)
				if !c.RefreshAfter.IsZero() {
					g.MaxAge = max(time.Until(c.RefreshAfter), 1)
				}
				c.RefreshAfter = time.Time{} // otherwise valkey-go would send AUTH, and read our replies
				return c, err
			}
		}
		c, err := valkey.NewClient(own)
		if err == nil {
			g.Free = c.Close
		}
		return g, err
	}
}
