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

// initPrompt sets up the connections for RunPrompt, to a single server. There are none if credentials can change, since new ones
// would have to be sent on them, or if another server can take this one's place: with Sentinel, or if the server redirects clients.
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

// promptTimeout bounds making the connection, including the replies to what rueidis sends first.
const promptTimeout = 10 * time.Second

// openPrompt opens a connection for RunPrompt.
func openPrompt(ctx context.Context, o rueidis.ClientOption) (conn net.Conn, free func(), err error) {
	own := singleServer(o, o.InitAddress[0])
	own.Standalone = rueidis.StandaloneOption{}
	own.PipelineMultiplex = -1
	own.AlwaysPipelining, own.OnInvalidations = false, nil // otherwise rueidis would read our replies
	own.Dialer.KeepAlive = -1                              // otherwise it would send PINGs
	conn, err = prompt.Greeted(ctx, func(ctx context.Context, _, addr string) (net.Conn, error) {
		return o.DialCtxFn(ctx, addr, &o.Dialer, o.TLSConfig)
	}, func(dial prompt.Dialer) error {
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
