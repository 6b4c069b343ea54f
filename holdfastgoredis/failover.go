package holdfastgoredis

import (
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/sentinel"
)

// NewFailover returns a holdfast.Client for the master that sentinels watch. It takes the options of
// redis.NewFailoverClient and makes go-redis clients of its own.
//
// To find the master it asks all sentinels at once, for at most half a second, and follows the majority. If there is no
// majority, the sentinel with the latest configuration decides. If fewer than three sentinels are given, it asks them
// for others.
//
// If the options cannot be used for locks, the error says why and matches holdfast.ErrInvalid.
func NewFailover(o *redis.FailoverOptions, cfg *holdfast.Config) (*holdfast.Client, error) {
	d, err := NewFailoverDriver(o)
	return connect.Client(d, err, cfg)
}

// NewFailoverDriver returns the driver of NewFailover's client.
func NewFailoverDriver(o *redis.FailoverOptions) (driver.Driver, error) {
	switch {
	case o == nil || len(o.SentinelAddrs) == 0:
		return nil, errors.New("redis.FailoverOptions has no SentinelAddrs")
	case o.ReplicaOnly || o.RouteByLatency || o.RouteRandomly:
		return nil, errors.New("redis.FailoverOptions.ReplicaOnly, RouteByLatency and RouteRandomly cannot be used for locks: replicas do not grant them")
	}
	template := redis.NewFailoverClient(o) // only to derive options
	user := ownOptions(template.Options())
	_ = template.Close()
	user.MaxActiveConns, user.MinIdleConns = o.MaxActiveConns, o.MinIdleConns
	own := ownOptions(user)
	d := newAdapter(nil, "")
	f := newFollower(d, boundingOr(o.Dialer, o.DialTimeout, o.TLSConfig))
	f.group = sentinel.New(o.MasterName, o.SentinelAddrs, func(addr string) (resp.Sender, func(), error) {
		client := redis.NewClient(&redis.Options{
			Addr: addr, ClientName: o.ClientName, Protocol: o.Protocol, Dialer: o.Dialer, OnConnect: o.OnConnect, TLSConfig: o.TLSConfig,
			Username: o.SentinelUsername, Password: o.SentinelPassword, DisableIdentity: o.DisableIdentity,
			MaxRetries: -1, PoolSize: 2, ContextTimeoutEnabled: true,
			MaintNotificationsConfig: noNotifications(),
		})
		return sending(client), func() { _ = client.Close() }, nil
	})
	f.install(user)
	f.install(own)
	d.user, d.ownsUser = redis.NewClient(user), true
	d.makeClients(own)
	d.follower, d.refresh = f, f.look
	return d, nil
}
