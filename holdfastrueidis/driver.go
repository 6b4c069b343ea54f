// Package holdfastrueidis makes a holdfast.Client that talks to the server through rueidis: a single server, a master
// found through Sentinel, or a Cluster.
//
// With Sentinel it asks all sentinels for the master, once a second and whenever it connects, but no more than ten times
// a second. It waits for them for at most half a second, and follows the majority.
// If there is no majority, the sentinel with the latest configuration decides. If fewer than three sentinels are given,
// it asks them for others.
//
// A rueidis.Client does not reveal its options, and all its users share its connections. So the driver takes the options
// and makes a client of its own, so that a renewal is not stuck behind a reply of a hundred megabytes. Almost all calls share one more
// connection to each server, which rueidis makes, and on which the library itself speaks to the server; holdfast.Config.ViaClient says
// when not. There is none with AuthCredentialsFn, with Standalone.EnableRedirect, and for several addresses of one server.
// Each command is sent once: rueidis's own retries do not apply.
package holdfastrueidis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/connect"
)

// New returns a holdfast.Client that uses the options with which the program makes its own rueidis.Client. It connects on
// first use. These options are changed:
//
//   - Retries, client-side caching, reads from replicas and ConnLifetime are switched off.
//   - If Dialer.KeepAlive or ConnWriteTimeout is zero, it becomes 1 s or 2 s, so that a dead connection is dropped before
//     leases end (rueidis's default takes 10 s).
//   - If PipelineMultiplex is zero, there is one connection to each server for locks.
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
	}
	o.InitAddress = slices.Clone(o.InitAddress)
	o.DisableRetry, o.DisableCache = true, true
	if o.SendToReplicas != nil { // kept, since rueidis refuses some other options without it
		o.SendToReplicas = func(rueidis.Completed) bool { return false }
	}
	o.Standalone.ReplicaAddress = nil
	o.ConnLifetime = 0 // rueidis repeats calls in flight on a connection that reaches it
	o.Dialer.KeepAlive = cmp.Or(o.Dialer.KeepAlive, time.Second)
	o.ConnWriteTimeout = cmp.Or(o.ConnWriteTimeout, 2*time.Second)
	o.PipelineMultiplex = cmp.Or(o.PipelineMultiplex, -1)
	lib := adapter.Library{
		Name: "rueidis", Addrs: slices.Clone(o.InitAddress),
		Dial: adapter.Dialer(o.DialCtxFn, o.DialFn, o.DisableTCPNoDelay), NetDialer: &o.Dialer, TLSConfig: o.TLSConfig,
		ErrClosing: rueidis.ErrClosing, ErrNoSlot: rueidis.ErrNoSlot,
	}
	o.DialFn = nil
	lib.New = func(addr string, dial adapter.Dial) (*adapter.Client, error) {
		own := o
		own.DialCtxFn = dial
		if addr != "" {
			own = singleServer(own, addr)
		}
		own.InitAddress = slices.Clone(own.InitAddress) // with ShuffleInit, rueidis shuffles it in place
		return open(own)
	}
	lib.Changes = o.AuthCredentialsFn != nil || o.Standalone.EnableRedirect
	lib.Greet = func(_ context.Context, addr string, dial adapter.Dial) (*adapter.Client, error) {
		own := singleServer(o, addr)
		own.DialCtxFn, own.PipelineMultiplex = dial, -1
		own.AlwaysRESP2 = true                                 // in RESP3 replies have other forms, and servers can push
		own.AlwaysPipelining, own.OnInvalidations = false, nil // otherwise rueidis would read our replies
		own.Dialer.KeepAlive = -1                              // otherwise it would send PINGs
		if credentials := o.AuthCredentialsFn; credentials != nil {
			own.AuthCredentialsFn = func(of rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
				c, err := credentials(of)
				c.RefreshAfter = time.Time{} // otherwise rueidis would send AUTH, and read our replies
				return c, err
			}
		}
		return open(own)
	}
	if o.Sentinel.MasterSet != "" {
		lib.Master = o.Sentinel.MasterSet
		lib.Sentinel = func(addr string, dial adapter.Dial) (*adapter.Client, error) {
			own, s := singleServer(o, addr), o.Sentinel
			own.DialCtxFn, own.SelectDB = dial, 0
			own.Username, own.Password, own.ClientName, own.Dialer, own.TLSConfig = s.Username, s.Password, s.ClientName, s.Dialer, s.TLSConfig
			return open(own)
		}
	}
	return adapter.New(lib), nil
}

// singleServer returns the options for the server at addr alone.
func singleServer(o rueidis.ClientOption, addr string) rueidis.ClientOption {
	o.InitAddress, o.ForceSingleClient = []string{addr}, true
	o.Sentinel, o.Standalone, o.SendToReplicas = rueidis.SentinelOption{}, rueidis.StandaloneOption{}, nil
	return o
}

// open makes a client.
func open(o rueidis.ClientOption) (*adapter.Client, error) {
	c, err := rueidis.NewClient(o)
	if err != nil {
		return nil, err
	}
	return adapter.NewClient(c, c.Mode() == rueidis.ClientModeCluster), nil
}
