package holdfastgoredis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// do sends a command to a sentinel, on a connection that stays open.
func (f *follower) do(ctx context.Context, addr string, words ...string) resp.Reply {
	client, err := f.sentinel(addr)
	if err != nil {
		return resp.Reply{Err: err}
	}
	cmd := command(ctx, resp.New(words...))
	_ = client.Process(ctx, cmd)
	return replyTo(cmd)
}

// sentinel returns the client for a sentinel.
func (f *follower) sentinel(addr string) (*redis.SentinelClient, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, redis.ErrClosed
	}
	client := f.sentinels[addr]
	if client == nil {
		o := f.options
		client = redis.NewSentinelClient(&redis.Options{
			Addr: addr, ClientName: o.ClientName, Protocol: o.Protocol, Dialer: o.Dialer, OnConnect: o.OnConnect, TLSConfig: o.TLSConfig,
			Username: o.SentinelUsername, Password: o.SentinelPassword, DisableIdentity: o.DisableIdentity,
			MaxRetries: -1, PoolSize: 2, ContextTimeoutEnabled: true,
			MaintNotificationsConfig: noNotifications(),
		})
		f.sentinels[addr] = client
	}
	return client, nil
}

func (f *follower) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, client := range f.sentinels {
		_ = client.Close()
	}
}
