//go:build !race

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A goroutine begins with a stack of 2 KiB, which is doubled and copied when it is full. An acquire makes it 4 KiB. When it
// made it 8 KiB, because replies were handed on by value, 4096 goroutines did 0.83 of the cycles. About 700 bytes are left: if
// this fails, look for large arguments, results and local variables. Code under the race detector needs more. The test measures in
// a process of its own, where no earlier test has left stacks behind.
func TestAnAcquireNeedsASmallStack(t *testing.T) {
	const alone = "HOLDFAST_TEST_STACKS"
	if os.Getenv(alone) == "" {
		measuring := osexec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		measuring.Env = append(os.Environ(), alone+"=1")
		out, err := measuring.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "stacks of ") {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	const (
		each = 4000 // goroutines that are measured together, so that others do not matter
		// 4 KiB, and at most the 2 KiB that a stack leaves behind when it grows, but not 8 KiB.
		most = 7 << 10
	)
	c := open(t, redistest.Shared(t).Driver(), &lock.Config{CommandTimeout: time.Minute}) // the test measures memory, not time
	ctx, cancel := context.WithCancel(t.Context())
	stay := make(chan struct{})
	var all sync.WaitGroup
	defer func() {
		cancel()
		close(stay)
		all.Wait()
		_ = c.Close(ctx) // the leases are not released
	}()
	// measure returns how much stack goroutines have when wait returns, each of which calls f.
	measure := func(f func(i int), wait func()) (bytes int) {
		before := stackBytes()
		for i := range each {
			all.Go(func() { f(i) })
		}
		wait()
		return (stackBytes() - before) / each
	}
	// A collection shrinks stacks, and lets goroutines begin with as much as those that it sees use on average.
	nothing := func(int) { <-stay }
	measure(nothing, func() {})
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	if bytes := measure(nothing, func() {}); bytes > 3<<10 {
		t.Fatalf("goroutines begin with %d bytes; this test takes it for granted that they begin with 2 KiB", bytes)
	}

	var granted sync.WaitGroup
	granted.Add(each)
	free := measure(func(i int) {
		wantErr(t, "Acquire", errOf(c.Mutex(fmt.Sprint(i)).AcquireBy(ctx, time.Time{})), nil)
		granted.Done()
		<-stay
	}, granted.Wait)
	if free > most {
		t.Errorf("an acquire of a free lock takes a stack of %d bytes; want 4 KiB", free)
	}

	held := c.Mutex("held")
	must(t, errOf(held.AcquireBy(ctx, time.Time{})))
	wq := held.queue()
	defer wq.unref()
	waiting := measure(func(int) {
		if _, err := held.AcquireBy(ctx, time.Time{}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}, func() {
		for wq.waiting.Load() < each {
			time.Sleep(time.Millisecond)
		}
	})
	if waiting > most {
		t.Errorf("a waiter takes a stack of %d bytes; want 4 KiB", waiting)
	}
	t.Logf("stacks of %d bytes, and of %d while they wait", free, waiting)
}

// stackBytes returns how many bytes the stacks of all goroutines take.
func stackBytes() int {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}
