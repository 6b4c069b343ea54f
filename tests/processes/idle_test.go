//go:build unix

package processes

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// processorTime returns how much processor time this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	expect.OK(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A waiter sleeps, and so does the server.
//
// Bug: Waiting takes processor time.
func TestWaitingTakesNoProcessorTime(t *testing.T) {
	const clients, goroutines = 5, 10
	ctx, cancel := context.WithCancel(t.Context())
	var all []*backend.Backend
	var holders []*holdfast.Lease
	var waiting sync.WaitGroup
	for _, bin := range server.Binaries(t) {
		b := backend.Real(t, bin)
		holders = append(holders, backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(time.Minute))))
		for n := range clients {
			l := b.Client(t, nil).Mutex("a")
			for range goroutines {
				waiting.Go(func() {
					if _, err := l.Acquire(ctx); err != context.Canceled {
						t.Errorf("a waiter: %v", err)
					}
				})
			}
			backend.Waiters(t, l, n+1)
		}
		all = append(all, b)
	}
	// A poller would use processor time in every second; a garbage collection, say, falls into one.
	for second := 1; ; second++ {
		var servers, before []time.Duration
		var scripts, sent []int64
		for _, b := range all {
			before, sent = append(before, b.Server.CPU()), append(sent, b.Server.CommandStats()["evalsha"])
		}
		begun, used := time.Now(), processorTime(t)
		time.Sleep(time.Second)
		used = processorTime(t) - used
		for i, b := range all {
			servers, scripts = append(servers, b.Server.CPU()-before[i]), append(scripts, b.Server.CommandStats()["evalsha"]-sent[i])
		}
		d := time.Since(begun)
		t.Logf("%d goroutines of %d clients on each server that wait for %s take %s, the servers %v, for scripts: %v", clients*goroutines, clients, d, used, servers, scripts)
		if used <= d/10*time.Duration(len(all)) && slices.Max(servers) <= d/10 && slices.Max(scripts) <= 10*int64(d/time.Second) {
			break
		}
		if second == 5 {
			t.Errorf("waiting for %s takes %s, the servers %v, for scripts: %v; and as much in the %d seconds before\n%s", d, used, servers, scripts, second-1, machine.Report(begun))
			break
		}
	}
	cancel()
	waiting.Wait()
	for _, holder := range holders {
		expect.Err(t, "Err", holder.Err(), nil)
		backend.Release(t, holder)
	}
}
