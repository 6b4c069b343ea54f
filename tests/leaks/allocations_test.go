//go:build !race

package leaks

import (
	"context"
	"testing"

	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfastrueidis"
	"github.com/holdfast-go/holdfast/holdfastvalkey"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// A lone goroutine that acquires and releases a free mutex allocates 16 times.
//
// Bug: Each call makes timers, contexts, closures, and the arguments of a client library anew.
func TestALoneCycleAllocatesLittle(t *testing.T) {
	const most = 20
	backend.EachRealInTurn(t, func(t *testing.T, b *backend.Backend) {
		for name, connect := range map[string]func(t *testing.T) (*holdfast.Client, error){
			"go-redis": func(t *testing.T) (*holdfast.Client, error) { return holdfastgoredis.New(b.Redis(t), nil) },
			"rueidis": func(*testing.T) (*holdfast.Client, error) {
				return holdfastrueidis.New(rueidis.ClientOption{InitAddress: []string{b.Server.Addr()}}, nil)
			},
			"valkey-go": func(*testing.T) (*holdfast.Client, error) {
				return holdfastvalkey.New(valkey.ClientOption{InitAddress: []string{b.Server.Addr()}}, nil)
			},
		} {
			t.Run(name, func(t *testing.T) {
				c, err := connect(t)
				if err != nil {
					t.Fatal(err)
				}
				backend.CloseWith(t, c)
				l := c.Mutex("a")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				cycle := func() {
					lease, err := l.Acquire(ctx)
					if err == nil {
						err = lease.Release(ctx)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				// Something else may allocate, in go-redis or the runtime, and the first cycles make connections.
				backend.Eventually(t, "a lone cycle allocates little", func() bool { return testing.AllocsPerRun(100, cycle) <= most })
			})
		}
	})
}
