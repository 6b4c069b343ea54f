package holdfastgoredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/sentinel"
)

// ask asks one sentinel, on a connection that stays open.
func (f *follower) ask(ctx context.Context, addr string, others bool) (a sentinel.Answer, err error) {
	client, err := f.sentinel(addr)
	if err != nil {
		return a, err
	}
	name := f.options.MasterName
	master, err := client.GetMasterAddrByName(ctx, name).Result()
	if errors.Is(err, redis.Nil) {
		return a, sentinel.UnknownMaster(name, sentinel.Names(client.Masters(ctx).Val()))
	}
	if err != nil {
		return a, sentinel.Refused(err, err.Error())
	}
	if len(master) != 2 {
		return a, fmt.Errorf("the reply to SENTINEL GET-MASTER-ADDR-BY-NAME has %d fields, not 2", len(master))
	}
	a.Addr = net.JoinHostPort(master[0], master[1])
	// These may fail, since their answers are not needed if a majority agrees.
	if all, err := client.Master(ctx, name).Result(); err == nil {
		a.Epoch, _ = strconv.ParseInt(all["config-epoch"], 10, 64)
	}
	if others {
		all, _ := client.Sentinels(ctx, name).Result()
		for _, other := range all {
			a.Others = append(a.Others, net.JoinHostPort(other["ip"], other["port"]))
		}
	}
	return a, nil
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
