package adapters

import (
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// Acquires leave a quarter of the connections to the application; in a Cluster they use few.
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
		"a Cluster":         {drivertest.Of(holdfastgoredis.NewDriver(cluster)), 4},
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

// Connections that the application uses now are not available to acquires.
func TestWidthIsLessWhatTheApplicationUses(t *testing.T) {
	b := backend.Embedded(t)
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.Dial(ctx) }, PoolSize: 20})
	t.Cleanup(func() { _ = rdb.Close() })
	d := drivertest.Of(holdfastgoredis.NewDriver(rdb))
	t.Cleanup(func() { _ = d.Close() })
	if _, err := d.Run(t.Context(), driver.Call{Script: driver.NewScript("test", "return 'x'"), Keys: []string{"k"}}); err != nil {
		t.Fatal(err)
	}
	var used []*redis.Conn
	for n := range 17 {
		if got, want := d.Width(), 15-n; got != want {
			t.Errorf("beside %d connections of the application %d calls fit; want %d", n, got, want)
		}
		conn := rdb.Conn()
		if err := conn.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		used = append(used, conn)
	}
	for _, conn := range used {
		_ = conn.Close()
	}
	if got := d.Width(); got != 15 {
		t.Errorf("when the application uses none, %d calls fit; want 15", got)
	}
}
