package holdfastvalkey

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/prompt"
)

// initPrompt sets up the connections for RunPrompt, to a single server. There are none if credentials can change, since new ones
// would have to be sent on them.
func (a *adapter) initPrompt() {
	o := a.option
	if o.AuthCredentialsFn != nil || len(o.InitAddress) > 1 {
		return
	}
	a.prompt = prompt.Keeper{
		Open:    func(ctx context.Context) (net.Conn, func(), error) { return openPrompt(ctx, o) },
		Timeout: promptTimeout,
		Spawn:   a.spawn, Ctx: a.ctx,
	}
}

// promptTimeout bounds making the connection, including the replies to what valkey-go sends first.
const promptTimeout = 10 * time.Second

// openPrompt opens a connection for RunPrompt.
func openPrompt(ctx context.Context, o valkey.ClientOption) (conn net.Conn, free func(), err error) {
	own := o
	own.InitAddress, own.ForceSingleClient = o.InitAddress[:1:1], true
	own.SendToReplicas = nil
	own.PipelineMultiplex = -1
	own.AlwaysPipelining, own.OnInvalidations = false, nil // otherwise valkey-go would read our replies
	own.Dialer.KeepAlive = -1                              // otherwise it would send PINGs
	conn, err = prompt.Greeted(ctx, func(ctx context.Context, _, addr string) (net.Conn, error) {
		return o.DialCtxFn(ctx, addr, &o.Dialer, o.TLSConfig)
	}, func(dial prompt.Dialer) error {
		own.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dial(ctx, "tcp", addr)
		}
		client, err := valkey.NewClient(own)
		if client != nil {
			free = client.Close
		}
		return err
	})
	return conn, free, err
}

func (a *adapter) RunPrompt(ctx context.Context, deadline time.Time, c driver.Call) (string, error) {
	return a.prompt.Run(ctx, deadline, &c)
}
