package adapters

import (
	"context"
	"net"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A master that Sentinel names stands still, and does not greet new connections. They do not stay open: go-redis
// before 9.23 does not close them, and leaves that to the garbage collector.
func TestConnectionsThatAreNotGreetedDoNotStayOpen(t *testing.T) {
	long(t) // the garbage collector decides when they are closed
	t.Parallel()
	for name, addr := range map[string]string{"one server": "", "through Sentinel": "FailoverClient"} { // as go-redis's NewFailoverClient has it
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, server.One(t))
			if addr == "" {
				addr = s.Addr()
			}
			d := goRedis(t, redis.NewClient(&redis.Options{Addr: addr, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, s.Addr())
			}}))
			t.Cleanup(func() { _ = d.Close() })
			call := driver.Call{Script: driver.Script{Name: "echo", Command: "echo"}, Args: []string{"a"}, Urgent: true}
			s.Pause()
			const attempts = 20
			for range attempts {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				if reply, err := d.Run(ctx, call); err == nil {
					t.Errorf("a server that stands still answers %q", reply)
				}
				cancel()
			}
			s.Resume()
			backend.Eventually(t, "most connections are closed", func() bool {
				runtime.GC()
				open, err := strconv.Atoi(s.Info("clients")["connected_clients"])
				if err != nil {
					t.Fatal(err)
				}
				return open < attempts/2
			})
		})
	}
}
