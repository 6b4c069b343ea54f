//go:build !race

package engine

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/kind"
)

// generous is a server that grants every lock, and remembers none.
type generous struct{ fake }

func (g *generous) Run(_ context.Context, call driver.Call) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch call.Script.Name {
	case "acquire":
		g.fence++
		return fmt.Sprintf("granted %d %s %d 1", time.Now().UnixMicro(), call.Args[2], g.fence), nil
	case "batch_renew":
		return fmt.Sprintf("kept %d", time.Now().UnixMicro()), nil
	case "release":
		return fmt.Sprintf("released %d", time.Now().UnixMicro()), nil
	}
	return "", fmt.Errorf("%s is not for a free lock", call.Script.Name)
}

// A lease takes few bytes of the heap, with its lock and everything that the client has for it: a process may hold 100,000.
// The bounds are some 7% above what is reached. Notes are the caller's, and do not count; a name that the caller forgets is not
// kept.
func TestALeaseIsSmall(t *testing.T) {
	const n = 10_000
	notes := make([]string, n)
	for i := range n {
		notes[i] = "request-" + strconv.Itoa(100_000+i)
	}
	for _, c := range []struct {
		what    string
		most    int
		options func(i int) []kind.Option
	}{
		{"without options", 650, func(int) []kind.Option { return nil }},
		{"with options that are the same for all", 650, func(int) []kind.Option {
			return []kind.Option{kind.Owner("shipping"), kind.TTL(time.Minute), kind.Meta("version", "1.2")}
		}},
		{"with notes of its own", 850, func(i int) []kind.Option {
			return []kind.Option{kind.Owner("shipping"), kind.TTL(time.Minute), kind.Meta("request", notes[i])}
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			client := open(t, &generous{}, nil)
			locks, leases := make([]Lock, n), make([]Lease, n)
			take := func(i int) Lease {
				locks[i] = client.Mutex("orders-"+strconv.Itoa(100_000+i), c.options(i)...)
				lease, err := locks[i].AcquireBy(context.Background(), time.Time{})
				must(t, err)
				return lease
			}
			_ = take(0).Release(t.Context()) // what the client makes once does not count
			before := heapBytes()
			for i := range n {
				leases[i] = take(i)
			}
			bytes := (heapBytes() - before) / n
			t.Logf("a lease takes %d bytes", bytes)
			if bytes > c.most {
				t.Errorf("a lease takes %d bytes; want %d at most", bytes, c.most)
			}
			for i := range n {
				must(t, leases[i].Release(t.Context()))
			}
			wantErr(t, "Close", client.Close(t.Context()), nil)
			runtime.KeepAlive(locks)
		})
	}
}

// heapBytes returns how many bytes of the heap are in use after a collection.
func heapBytes() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // of what finalizers and pools have let go
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
