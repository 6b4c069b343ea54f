//go:build !race

package leaks

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
	"github.com/holdfast-go/holdfast/holdfastvalkey"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// A lone goroutine that acquires and releases a free mutex allocates 16 times.
//
// Bug: Each call makes timers, contexts, closures, and the arguments of a client library anew.
func TestALoneCycleAllocatesLittle(t *testing.T) {
	const most = 8
	backend.EachRealInTurn(t, func(t *testing.T, b *backend.Backend) {
		for name, connect := range map[string]func(t *testing.T) (*holdfast.Client, error){
			"go-redis": func(t *testing.T) (*holdfast.Client, error) {
				rdb := redis.NewClient(&redis.Options{Addr: b.Server.Addr()}) // Backend.Redis times requests, and so allocates for each
				t.Cleanup(func() { _ = rdb.Close() })
				return holdfastgoredis.New(rdb, nil)
			},
			"rueidis": func(*testing.T) (*holdfast.Client, error) {
				return holdfastrueidis.New(rueidis.ClientOption{InitAddress: []string{b.Server.Addr()}}, nil)
			},
			"valkey-go": func(*testing.T) (*holdfast.Client, error) {
				return holdfastvalkey.New(valkey.ClientOption{InitAddress: []string{b.Server.Addr()}}, nil)
			},
		} {
			t.Run(name, func(t *testing.T) {
				c := expect.Of(connect(t)).OK(t)
				backend.CloseWith(t, c)
				l := c.Mutex("a")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				cycle := func() {
					lease, err := l.Acquire(ctx)
					if err == nil {
						err = lease.Release(ctx)
					}
					expect.OK(t, err)
				}
				// Something else may allocate at times, in a client library or the runtime, and the first cycles make connections.
				backend.Eventually(t, "a lone cycle allocates little", func() bool { return testing.AllocsPerRun(100, cycle) <= most })
			})
		}
	})
}
