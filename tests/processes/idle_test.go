//go:build unix

package processes

import (
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// processorTime is what this process has used so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Who waits sleeps, and so does the server.
func TestWaitingTakesNoProcessorTime(t *testing.T) {
	backend.EachRealInTurn(t, func(t *testing.T, b *backend.Backend) {
		holder := backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(time.Minute)))
		const clients, goroutines = 5, 10
		for n := range clients {
			c := b.Client(t, nil)
			for range goroutines {
				backend.Start(t, c.Mutex("a"))
			}
			backend.Waiters(t, c.Mutex("a"), n+1)
		}
		const d = time.Second
		before, serverBefore := processorTime(t), b.Server.CPU()
		time.Sleep(d)
		used, server := processorTime(t)-before, b.Server.CPU()-serverBefore
		t.Logf("%d goroutines of %d clients that wait for %s take %s, the server %s", clients*goroutines, clients, d, used, server)
		if used > d/10 || server > d/10 {
			t.Errorf("waiting for %s takes %s, the server %s", d, used, server)
		}
		if err := holder.Err(); err != nil {
			t.Error(err)
		}
	})
}
