package adapters

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

// Acquires leave a quarter of the application's connections to itself.
func TestWidthIsPartOfThePool(t *testing.T) {
	single := func(o redis.Options) drivertest.Driver {
		o.Addr = "127.0.0.1:1"
		rdb := redis.NewClient(&o)
		t.Cleanup(func() { _ = rdb.Close() })
		return drivertest.Of(holdfastgoredis.NewDriver(rdb))
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, PoolSize: 12})
	t.Cleanup(func() { _ = cluster.Close() })
	for what, c := range map[string]struct {
		driver drivertest.Driver
		want   int
	}{
		"a pool":            {single(redis.Options{PoolSize: 20}), 15},
		"bounded":           {single(redis.Options{PoolSize: 20, MaxActiveConns: 8}), 6},
		"a bound above it":  {single(redis.Options{PoolSize: 20, MaxActiveConns: 80}), 15},
		"a Cluster":         {drivertest.Of(holdfastgoredis.NewDriver(cluster)), 9},
		"through sentinels": {drivertest.Of(holdfastgoredis.NewFailoverDriver(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}, PoolSize: 40})), 30},
	} {
		if got := c.driver.Width(); got != c.want {
			t.Errorf("%s: %d calls at once; want %d", what, got, c.want)
		}
		if err := c.driver.Close(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
