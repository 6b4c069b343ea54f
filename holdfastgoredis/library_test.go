package holdfastgoredis

import (
	"context"
	"errors"
	"net"
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
