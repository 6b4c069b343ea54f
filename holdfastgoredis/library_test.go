package holdfastgoredis

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// The program's dialer need not heed its context; go-redis's own does not with TLS. Whoever waits for a connection gives up all the same.
func TestConnectDoesNotWaitForADialerThatHangs(t *testing.T) {
	dialing, hang := make(chan struct{}), make(chan struct{})
	rdb := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		close(dialing)
		<-hang
		return nil, errors.New("it has hung")
	}})
	defer rdb.Close()
	d, err := NewDriver(rdb)
	if err != nil {
		t.Fatal(err)
	}
	defer close(hang)
	defer d.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-dialing
		cancel()
	}()
	if _, err := d.(driver.Connector).Connect(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A driver looks up no name beside those that its dialer does, which could take seconds: go-redis would do it for each of the driver's
// clients.
func TestADriverLooksUpNoNames(t *testing.T) {
	var lookups atomic.Int64
	resolver := net.DefaultResolver
	defer func() { net.DefaultResolver = resolver }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		lookups.Add(1)
		return nil, errors.New("no name server")
	}}
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no server") }
	single := redis.NewClient(&redis.Options{Addr: "redis.test:6379", Dialer: dial})
	defer single.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"redis.test:6379"}, Dialer: dial})
	defer cluster.Close()
	for _, rdb := range []redis.UniversalClient{single, cluster} {
		_ = rdb.Ping(t.Context()) // the program's own clients look names up
		lookups.Store(0)
		d, err := NewDriver(rdb)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Probe(t.Context()); !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("%T: %v", rdb, err)
		}
		if n := lookups.Load(); n > 0 {
			t.Errorf("%T: %d queries to name servers", rdb, n)
		}
		_ = d.Close()
	}
}
