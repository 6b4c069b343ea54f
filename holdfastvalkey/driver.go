// Package holdfastvalkey makes a holdfast.Client that talks to the server through valkey-go: a single server or a
// Cluster. It does not support Sentinel; holdfastgoredis.NewFailover and holdfastrueidis do.
//
// A valkey.Client does not reveal its options, and all its users share its connections. So the driver takes the options
// and makes a client of its own. Almost all calls share one more connection to each server, which valkey-go makes, and on which the
// library itself speaks to the server; holdfast.Config.ViaClient says when not. There is none with AuthCredentialsFn, and for
// several addresses of one server. Each command is sent once: valkey-go's own retries do not apply.
package holdfastvalkey

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/connect"
)

// New returns a holdfast.Client that uses the options with which the program makes its own valkey.Client. It connects on
// first use. These options are changed:
//
//   - Retries, client-side caching, reads from replicas and ConnLifetime are switched off.
//   - If Dialer.KeepAlive or ConnWriteTimeout is zero, it becomes 1 s or 2 s, so that a dead connection is dropped before
//     leases end (valkey-go's default takes 10 s).
//   - If PipelineMultiplex is zero, there is one connection to each server for locks.
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
	o.InitAddress = slices.Clone(o.InitAddress)
	o.DisableRetry, o.DisableCache = true, true
	if o.SendToReplicas != nil { // kept, since valkey-go refuses some other options without it
		o.SendToReplicas = func(valkey.Completed) bool { return false }
	}
	o.Standalone = valkey.StandaloneOption{}
	o.ConnLifetime = 0 // valkey-go repeats calls in flight on a connection that reaches it
	o.Dialer.KeepAlive = cmp.Or(o.Dialer.KeepAlive, time.Second)
	o.ConnWriteTimeout = cmp.Or(o.ConnWriteTimeout, 2*time.Second)
	o.PipelineMultiplex = cmp.Or(o.PipelineMultiplex, -1)
	lib := adapter.Library{
		Name: "valkey", Addrs: slices.Clone(o.InitAddress),
		Dial: adapter.Dialer(o.DialCtxFn, o.DialFn, o.DisableTCPNoDelay), NetDialer: &o.Dialer, TLSConfig: o.TLSConfig,
		ErrClosing: valkey.ErrClosing, ErrNoSlot: valkey.ErrNoSlot,
	}
	o.DialFn = nil
	lib.New = func(_ string, dial adapter.Dial) (*adapter.Client, error) {
		own := o
		own.DialCtxFn = dial
		own.InitAddress = slices.Clone(own.InitAddress) // with ShuffleInit, valkey-go shuffles it in place
		return open(own)
	}
	lib.Changes = o.AuthCredentialsFn != nil
	lib.Greet = func(_ context.Context, addr string, dial adapter.Dial) (*adapter.Client, error) {
		own := o
		own.InitAddress, own.ForceSingleClient, own.SendToReplicas = []string{addr}, true, nil
		own.DialCtxFn, own.PipelineMultiplex = dial, -1
		own.AlwaysRESP2 = true                                 // in RESP3 replies have other forms, and servers can push
		own.AlwaysPipelining, own.OnInvalidations = false, nil // otherwise valkey-go would read our replies
		own.Dialer.KeepAlive = -1                              // otherwise it would send PINGs
		if credentials := o.AuthCredentialsFn; credentials != nil {
			own.AuthCredentialsFn = func(of valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
				c, err := credentials(of)
				c.RefreshAfter = time.Time{} // otherwise valkey-go would send AUTH, and read our replies
				return c, err
			}
		}
		return open(own)
	}
	return adapter.New(lib), nil
}

// open makes a client.
func open(o valkey.ClientOption) (*adapter.Client, error) {
	c, err := valkey.NewClient(o)
	if err != nil {
		return nil, err
	}
	return adapter.NewClient(c, c.Mode() == valkey.ClientModeCluster), nil
}
