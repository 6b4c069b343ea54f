package holdfastrueidis

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/prompt"
)

// initPrompt allows lone callers a connection to a single server. There is none if credentials can change, since they would have
// to be sent on it, or if another server can take the place of this one: with Sentinel, and if the server redirects clients.
func (d *adapter) initPrompt() {
	o := d.option
	if d.follower != nil || o.AuthCredentialsFn != nil || o.Standalone.EnableRedirect || len(o.InitAddress) > 1 {
		return
	}
	d.prompt = prompt.Keeper{
		Open:    func(ctx context.Context) (net.Conn, func(), error) { return openPrompt(ctx, o) },
		Timeout: promptTimeout,
		Spawn:   d.spawn, Ctx: d.ctx,
	}
}

// promptTimeout is how long making the connection may take, with the replies to what rueidis sends first.
const promptTimeout = 10 * time.Second

// openPrompt opens a connection for lone callers.
func openPrompt(ctx context.Context, o rueidis.ClientOption) (conn net.Conn, free func(), err error) {
	own := singleServer(o, o.InitAddress[0])
	own.Standalone = rueidis.StandaloneOption{}
	own.PipelineMultiplex = -1
	own.AlwaysPipelining, own.OnInvalidations = false, nil // rueidis would read what is not for it
	own.Dialer.KeepAlive = -1                              // and send a PING from time to time
	conn, err = prompt.Greeted(ctx, func(ctx context.Context, _, addr string) (net.Conn, error) {
		return o.DialCtxFn(ctx, addr, &o.Dialer, o.TLSConfig)
	}, func(dial func(ctx context.Context, network, addr string) (net.Conn, error)) error {
		own.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dial(ctx, "tcp", addr)
		}
		client, err := rueidis.NewClient(own)
		if client != nil {
			free = client.Close
		}
		return err
	})
	return conn, free, err
}

func (d *adapter) RunPrompt(ctx context.Context, deadline time.Time, c driver.Call) (string, error) {
	return d.prompt.Run(ctx, deadline, &c)
}
