package holdfastgoredis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/adapter"
)

// single returns the library for a server, with the options of the program's client.
func single(o redis.Options) adapter.Library {
	return adapter.Library{
		Name: "goredis", Addrs: []string{o.Addr},
		Greet:        greeting(func(string) redis.Options { return o }),
		GreetTimeout: o.DialTimeout + patience,
		MaxIdle:      o.ConnMaxIdleTime, MaxAge: o.ConnMaxLifetime,
		Dial: dialOf(o.Dialer, o.Network),
	}
}

// shared returns the library for a server, over the program's client.
func shared(o redis.Options, rdb *redis.Client) adapter.Library {
	lib := single(o)
	lib.Shared = sending(rdb)
	lib.ByShared = o.Limiter != nil || o.StreamingCredentialsProvider != nil // which know only what goes through a pool
	lib.Closed = func(string) bool { return isClosed(rdb) }
	return lib
}

// failover returns the library for the master that sentinels name.
func failover(o redis.FailoverOptions) adapter.Library {
	template := redis.NewFailoverClient(&o) // only to derive options
	master := *template.Options()
	_ = template.Close()
	master.Dialer = dialerOr(o.Dialer, o.DialTimeout, o.TLSConfig)
	lib := single(master)
	lib.Addrs, lib.Master = slices.Clone(o.SentinelAddrs), o.MasterName
	greet := greeting(func(string) redis.Options {
		return redis.Options{
			ClientName: o.ClientName, OnConnect: o.OnConnect, Username: o.SentinelUsername, Password: o.SentinelPassword,
			DisableIdentity: o.DisableIdentity,
		}
	})
	lib.GreetSentinel = func(ctx context.Context, addr string, dial adapter.Dial) (adapter.Greeting, error) {
		g, err := greet(ctx, addr, dial)
		var refused driver.ReplyError
		if errors.As(err, &refused) && strings.HasPrefix(string(refused), "ERR unknown command") { // sentinels before Redis 6.2 have no HELLO
			err = nil
		}
		return g, err
	}
	return lib
}

// cluster returns the library for a Cluster, over the program's client.
func cluster(o redis.ClusterOptions, rdb *redis.ClusterClient) adapter.Library {
	lib := adapter.Library{
		Name: "goredis", Addrs: slices.Clone(o.Addrs), IsCluster: true,
		Greet:        greeting(func(addr string) redis.Options { return nodeOptions(o, addr) }),
		GreetTimeout: cmp.Or(o.DialTimeout, patience) + patience,
		MaxIdle:      o.ConnMaxIdleTime, MaxAge: o.ConnMaxLifetime,
		Dial:     dialOf(dialerOr(o.Dialer, o.DialTimeout, o.TLSConfig), "tcp"),
		Shared:   sending(rdb),
		ByShared: o.StreamingCredentialsProvider != nil,
		Reload:   rdb.ReloadState,
		Closed: func(key string) bool {
			node, err := rdb.MasterForKey(ended, key)
			if err != nil {
				return errors.Is(err, redis.ErrClosed)
			}
			return isClosed(node)
		},
	}
	if o.ClusterSlots != nil {
		lib.Slots = func(ctx context.Context) (all []adapter.Slots, err error) {
			ranges, err := o.ClusterSlots(ctx)
			for _, r := range ranges {
				if len(r.Nodes) > 0 {
					all = append(all, adapter.Slots{First: r.Start, Last: r.End, Master: r.Nodes[0].Addr})
				}
			}
			return all, err
		}
	}
	return lib
}

// nodeOptions returns the options with which go-redis makes the client of a Cluster's node.
func nodeOptions(o redis.ClusterOptions, addr string) (own redis.Options) {
	newClient := o.NewClient
	if newClient == nil {
		newClient = redis.NewClient
	}
	o.Addrs, o.ClusterSlots = []string{addr}, nil
	o.MinIdleConns, o.MaxRetries, o.ContextTimeoutEnabled, o.MaintNotificationsConfig = 0, -1, true, noNotifications()
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
	o.NewClient = func(node *redis.Options) *redis.Client {
		client := newClient(node)
		own = *client.Options()
		return client
	}
	template := redis.NewClusterClient(&o)
	_, _ = template.MasterForKey(ended, "") // makes the client, and sends nothing
	_ = template.Close()
	return own
}
