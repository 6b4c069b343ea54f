package virtual

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// Prefix and name may both have the greatest length; the notification of a hand-over has both.
func TestWaitersForTheLongestNameAreNotified(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		longest := func() *holdfast.Lock {
			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: srv.Dial})
			t.Cleanup(func() { _ = rdb.Close() })
			c, err := holdfastgoredis.New(rdb, &holdfast.Config{Prefix: strings.Repeat("p", 512)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close(context.Background()) })
			return c.Mutex(strings.Repeat("n", 512))
		}
		lease := acquire(t, longest())
		w := wait(t, longest())
		release(t, lease)
		w.served(t, 10*time.Millisecond)
	})
}
