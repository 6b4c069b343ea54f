// Package holdfastgoredis makes a holdfast.Client from the go-redis client that a program already has, for a single server or for a
// Cluster, or from options, for a master found through Sentinel.
//
// Almost all calls share one connection to each server, which go-redis makes with that client's options, and on which the library
// itself speaks to the server. Hooks of the program's client do not see these calls, nor does PoolStats. There is no such connection
// with holdfast.Config.ViaClient, or if the client has a Limiter or a StreamingCredentialsProvider.
//
// Without that connection, acquires use the program's client and its pool, so hooks, the Limiter and PoolStats see them. But process hooks do not if
// the client has no read timeout and ContextTimeoutEnabled is off. Renewals, releases and subscriptions use connections of their own, so
// that they are not stuck behind the application's commands when its pool is exhausted. go-redis makes these with the same options; the
// client's hooks, also those for dialing, do not apply. There are up to 256 to a server for calls, and as many and 64 more for those that
// wait for replicas or disks. Each command is sent once: the client's own retries do not apply.
//
// With Sentinel, use NewFailover. It asks all sentinels for the master, once a second and whenever it looks for it after a failure, but no
// more than ten times a second, and follows the majority.
package holdfastgoredis

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/connect"
)

// New returns a holdfast.Client over the program's go-redis client, a *redis.Client or a *redis.ClusterClient. The
// caller closes rdb, after the holdfast.Client. If rdb is closed earlier, acquires fail with holdfast.ErrClosed, and leases are not
// renewed, but can still be released. If rdb cannot be used for locks, such as one that redis.NewFailoverClient made, the error says why
// and matches holdfast.ErrInvalid.
func New(rdb redis.UniversalClient, cfg *holdfast.Config) (*holdfast.Client, error) {
	d, err := NewDriver(rdb)
	return connect.Client(d, err, cfg)
}

// NewDriver returns the driver of New's client, for programs that wrap a driver or use one without a client.
func NewDriver(rdb redis.UniversalClient) (driver.Driver, error) {
	switch rdb := rdb.(type) {
	case *redis.Client:
		if rdb == nil {
			break
		}
		if rdb.Options().Addr == "FailoverClient" {
			return nil, errors.New("a client that redis.NewFailoverClient made cannot be used for locks: it believes a single sentinel, " +
				"which may not know that the master was replaced; give its options to holdfastgoredis.NewFailover")
		}
		return adapter.New(shared(*rdb.Options(), bounded(rdb))), nil
	case *redis.ClusterClient:
		if rdb == nil {
			break
		}
		return adapter.New(cluster(*rdb.Options(), rdb)), nil
	case *redis.Ring:
		return nil, errors.New("a redis.Ring cannot be used for locks: if a shard is down, the Ring moves its keys to another, " +
			"which grants the same locks again; use the client of one server, or a quorum")
	case nil:
	default:
		return nil, fmt.Errorf("a %T cannot be used for locks; use a *redis.Client or a *redis.ClusterClient", rdb)
	}
	return nil, errors.New("the go-redis client is nil")
}

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
		return nil, errors.New("redis.FailoverOptions.ReplicaOnly, RouteByLatency and RouteRandomly cannot be used for locks: " +
			"replicas do not grant them")
	}
	return adapter.New(failover(*o)), nil
}
