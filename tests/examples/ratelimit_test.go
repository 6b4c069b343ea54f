//go:build unix

package examples

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Three calls of one process are under way when it dies. The other process calls when the permits have come back, and no sooner.
func TestPermitsOfADeadProcessComeBack(t *testing.T) {
	t.Parallel()
	b := &backend.Backend{Server: server.Start(t, server.One(t))}
	calls := make(chan string, 1000) // the path of each, as it comes
	answer := make(chan struct{})
	var mu sync.Mutex
	var now, most int
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		defer func() {
			mu.Lock()
			now--
			mu.Unlock()
		}()
		select {
		case calls <- r.URL.Path:
		default: // enough of them
		}
		select {
		case <-answer:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(api.Close)
	come := func(path string) {
		t.Helper()
		for range 3 {
			select {
			case got := <-calls:
				if got != path {
					t.Fatalf("a call of %s, not of %s", got, path)
				}
			case <-time.After(time.Minute):
				t.Fatalf("no call of %s", path)
			}
		}
	}

	first := start(t, "ratelimit", "-addr", b.Server.Addr(), "-api", api.URL+"/first")
	come("/first")
	second := start(t, "ratelimit", "-addr", b.Server.Addr(), "-api", api.URL+"/second")
	permit := b.Client(t, nil).Semaphore("ratelimit", 3).Permits(1)
	backend.Waiters(t, permit, 2) // both processes have callers without a permit
	select {
	case path := <-calls:
		t.Errorf("a call too many, of %s", path)
	default:
	}
	first.kill()
	come("/second")
	close(answer)
	second.says("/second: 200 OK")
	second.interrupt()
	mu.Lock()
	defer mu.Unlock()
	expect.Equal(t, "calls at a time", most, 3)
}
