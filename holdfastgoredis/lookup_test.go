package holdfastgoredis

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Making a driver looks up no name, which could take seconds: go-redis would do it for each of the driver's clients.
func TestADriverIsMadeWithoutLookups(t *testing.T) {
	var lookups atomic.Int64
	resolver := net.DefaultResolver
	defer func() { net.DefaultResolver = resolver }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		lookups.Add(1)
		return nil, errors.New("no name server")
	}}
	single := redis.NewClient(&redis.Options{Addr: "redis.test:6379"})
	defer single.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"redis.test:6379"}})
	defer cluster.Close()
	for _, rdb := range []redis.UniversalClient{single, cluster} {
		lookups.Store(0) // of the program's own clients
		d, err := NewDriver(rdb)
		if err != nil {
			t.Fatal(err)
		}
		if n := lookups.Load(); n > 0 {
			t.Errorf("%T: %d queries to name servers", rdb, n)
		}
		_ = d.Close()
	}
}
