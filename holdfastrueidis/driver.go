// Package holdfastrueidis makes a holdfast.Client that talks to the server through rueidis: a single server, a master
// found through Sentinel, or a Cluster.
//
// With Sentinel it asks all sentinels for the master, once a second and whenever it connects, but no more than ten times
// a second. It waits for them for at most half a second, and follows the majority.
// If there is no majority, the sentinel with the latest configuration decides. If fewer than three sentinels are given,
// it asks them for others.
//
// A rueidis.Client does not reveal its options, and all its users share its connections. So the driver takes the options
// and has rueidis make connections of its own, on which it speaks to the server itself, so that a renewal is not stuck behind a reply of a
// hundred megabytes. Almost all calls share one connection to each server. With holdfast.Config.ViaClient, and before the masters of a
// Cluster are known, each call under way has a connection to itself: up to 64 acquires, and 256 renewals and releases. So do calls that
// wait for replicas or disks. A connection is not used for longer than AuthCredentialsFn says by RefreshAfter.
package holdfastrueidis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/connect"
)

// New returns a holdfast.Client that uses the options with which the program makes its own rueidis.Client. It connects on
// first use. Retries, client-side caching, reads from replicas and pipelining are not used. If Dialer.KeepAlive or ConnWriteTimeout is
// zero, it becomes 1 s or 2 s.
//
// If the options cannot be used for locks, the error says why and matches holdfast.ErrInvalid.
func New(o rueidis.ClientOption, cfg *holdfast.Config) (*holdfast.Client, error) {
	d, err := NewDriver(o)
	return connect.Client(d, err, cfg)
}

// NewDriver returns the driver of New's client, for programs that wrap a driver or use one without a client.
func NewDriver(o rueidis.ClientOption) (driver.Driver, error) {
	switch {
	case len(o.InitAddress) == 0:
		return nil, errors.New("rueidis.ClientOption has no InitAddress")
	case o.ReplicaOnly:
		return nil, errors.New("rueidis.ClientOption.ReplicaOnly cannot be used for locks: replicas do not grant them")
	case o.Standalone.EnableRedirect:
		return nil, errors.New("holdfastrueidis does not support rueidis.ClientOption.Standalone.EnableRedirect; use the address of the primary")
	}
	o.Dialer.KeepAlive = cmp.Or(o.Dialer.KeepAlive, time.Second)
	o.ConnWriteTimeout = cmp.Or(o.ConnWriteTimeout, 2*time.Second)
	lib := adapter.Library{
		Name: "rueidis", Addrs: slices.Clone(o.InitAddress), MaxAge: o.ConnLifetime, Greet: greeting(o),
		Dial: adapter.Dialer(o.DialCtxFn, o.DialFn, o.DisableTCPNoDelay),
	}
	if o.Sentinel.MasterSet != "" {
		own, s := o, o.Sentinel
		own.Username, own.Password, own.ClientName, own.Dialer, own.TLSConfig = s.Username, s.Password, s.ClientName, s.Dialer, s.TLSConfig
		own.SelectDB = 0
		lib.Master, lib.GreetSentinel = s.MasterSet, greeting(own)
	} else {
		lib.IsCluster, lib.FindsCluster = len(o.InitAddress) > 1 && !o.ForceSingleClient, !o.ForceSingleClient
	}
	return adapter.New(lib), nil
}

// greeting returns what greets the server at an address.
func greeting(o rueidis.ClientOption) adapter.Greet {
	return func(_ context.Context, addr string, dial adapter.Dial) (g adapter.Greeting, err error) {
		own := o
		own.InitAddress, own.ForceSingleClient, own.DialFn = []string{addr}, true, nil
		own.Sentinel, own.Standalone, own.SendToReplicas = rueidis.SentinelOption{}, rueidis.StandaloneOption{}, nil
		own.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, config *tls.Config) (net.Conn, error) {
			return dial(ctx, addr, &o.Dialer, config)
		}
		own.DisableRetry, own.DisableCache, own.PipelineMultiplex, own.ConnLifetime = true, true, -1, 0
		own.AlwaysRESP2 = true                                 // in RESP3 replies have other forms, and servers can push
		own.AlwaysPipelining, own.OnInvalidations = false, nil // otherwise rueidis would read our replies
		own.Dialer.KeepAlive = -1                              // otherwise it would send PINGs
		if credentials := o.AuthCredentialsFn; credentials != nil {
			own.AuthCredentialsFn = func(of rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
				c, err := credentials(of)
				if !c.RefreshAfter.IsZero() {
					g.MaxAge = max(time.Until(c.RefreshAfter), 1)
				}
				c.RefreshAfter = time.Time{} // otherwise rueidis would send AUTH, and read our replies
				return c, err
			}
		}
		c, err := rueidis.NewClient(own)
		if err == nil {
			g.Free = c.Close
		}
		return g, err
	}
}
