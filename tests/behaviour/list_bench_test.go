package behaviour

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// samples acquires locks of several kinds, of which two are waited for. It returns their kinds, by name.
func samples(tb testing.TB, b *backend.Backend) (kinds map[string]holdfast.Kind, release func()) {
	tb.Helper()
	const hour = time.Hour
	c, other := b.Client(tb, &holdfast.Config{Identity: "worker-7"}), b.Client(tb, &holdfast.Config{Identity: "worker-8"})
	kinds = map[string]holdfast.Kind{}
	var leases []*holdfast.Lease
	hold := func(kind holdfast.Kind, l *holdfast.Lock) {
		tb.Helper()
		leases = append(leases, backend.Acquire(tb, l))
		kinds[l.Name()] = kind
	}
	hold(holdfast.KindMutex, c.Mutex("plain", holdfast.TTL(hour), holdfast.Meta("build", "17")))
	hold(holdfast.KindMutex, c.Mutex("awaited", holdfast.TTL(hour)))
	hold(holdfast.KindRWMutex, c.RWMutex("read", holdfast.TTL(hour)).Reader())
	hold(holdfast.KindRWMutex, other.RWMutex("read", holdfast.TTL(hour)).Reader())
	hold(holdfast.KindSemaphore, c.Semaphore("permits", 5, holdfast.TTL(hour)).Permits(2))
	hold(holdfast.KindOwner, c.OwnerMutex("owned", "worker-7", holdfast.TTL(hour)))
	hold(holdfast.KindRedisson, c.RedissonMutex("java", holdfast.TTL(hour)))
	waiters := []<-chan *holdfast.Lease{
		backend.Start(tb, other.Mutex("awaited", holdfast.TTL(hour))), backend.Start(tb, other.RedissonMutex("java", holdfast.TTL(hour))),
	}
	backend.Waiters(tb, c.Mutex("awaited"), 1)
	backend.Waiters(tb, c.RedissonMutex("java"), 1)
	return kinds, func() {
		tb.Helper()
		for _, l := range leases {
			backend.Release(tb, l)
		}
		for _, w := range waiters {
			backend.Release(tb, backend.Receive(tb, w))
		}
	}
}

// fill puts n locks on a server that is empty, each a copy of one of the samples, and twice as many keys that are none. Nobody
// renews the copies, which expire in an hour. It returns the kind of each lock, by its name.
func fill(tb testing.TB, b *backend.Backend, n int) map[string]holdfast.Kind {
	tb.Helper()
	ctx, rdb := tb.Context(), b.Redis(tb)
	kinds, release := samples(tb, b)
	keysOf := map[string][]string{}
	for _, key := range b.Keys(tb) {
		for name := range kinds {
			if key == name || strings.HasPrefix(key, "holdfast:{"+name+"}") {
				keysOf[name] = append(keysOf[name], key)
			}
		}
	}
	all, pipe, names := map[string]holdfast.Kind{}, rdb.Pipeline(), slices.Sorted(maps.Keys(kinds))
	for i := range n {
		name := names[i%len(names)]
		own := name + "/" + strconv.Itoa(i)
		all[own] = kinds[name]
		for _, key := range keysOf[name] {
			copied := strings.Replace(key, name, own, 1)
			pipe.Copy(ctx, key, copied, 0, false)
			pipe.Expire(ctx, copied, time.Hour) // the queue, too
		}
		pipe.Set(ctx, "session:"+strconv.Itoa(i), "x", time.Hour)
		pipe.Set(ctx, "holdfast-app:"+strconv.Itoa(i), "x", time.Hour)
		if i%1000 == 999 || i == n-1 {
			expect.OK(tb, expect.ErrOf(pipe.Exec(ctx)))
		}
	}
	release()
	return all
}

// listsThese lists all locks of a server, and requires that these are there, each once and as it is, and no others but new ones.
// It calls meanwhile after each.
func listsThese(tb testing.TB, in *inspect.Inspector, want map[string]holdfast.Kind, meanwhile func(listed int)) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	defer cancel()
	listed := make(map[string]bool, len(want))
	for s, err := range in.List(ctx, "") {
		expect.OK(tb, err)
		base, _, _ := strings.Cut(s.Name, "/")
		if base == "new" {
			continue
		}
		if s.Kind != want[s.Name] || !s.Held() || listed[s.Name] || (s.Waiting > 0) != (base == "awaited" || base == "java") {
			tb.Fatalf("listed is %+v", s)
		}
		listed[s.Name] = true
		meanwhile(len(listed))
	}
	if len(listed) != len(want) {
		tb.Fatalf("%d are listed of %d", len(listed), len(want))
	}
}

// Thousands of locks of all kinds, among as many keys of others, are listed once each, whoever comes and goes meanwhile.
func TestInspectorListsThousands(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		all := fill(t, b, 2000)
		c, pipe := b.Client(t, nil), b.Redis(t).Pipeline()
		listsThese(t, inspect.New(c), all, func(listed int) {
			if listed%500 != 0 {
				return
			}
			backend.Acquire(t, c.Mutex("new/"+strconv.Itoa(listed), holdfast.NoRenew(), holdfast.TTL(time.Minute)))
			for i := range 2000 { // the keys are moved about
				pipe.Set(t.Context(), fmt.Sprint("noise:", listed, "-", i), "x", 0)
			}
			expect.OK(t, expect.ErrOf(pipe.Exec(t.Context())))
		})
	})
}

// load is what a server's other clients notice while something happens.
type load struct {
	pings   []time.Duration // how long the answers to PING took, sorted
	slowest time.Duration   // command of the server; shortestLogged if none took longer
}

const shortestLogged = 500 * time.Microsecond

// while returns what others notice while f runs. Another client sends PING, again a millisecond after each answer.
func while(tb testing.TB, s *server.Server, f func()) (l load) {
	tb.Helper()
	do := func(args ...any) any {
		tb.Helper()
		return expect.Of(s.Do(args...)).OK(tb)
	}
	do("CONFIG", "SET", "slowlog-log-slower-than", shortestLogged.Microseconds(), "slowlog-max-len", 100_000)
	do("SLOWLOG", "RESET")
	conn := expect.Of(s.Dial()).OK(tb)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer conn.Close()
		for {
			began := time.Now()
			if _, err := conn.Do("PING"); err != nil {
				tb.Error(err)
				return
			}
			l.pings = append(l.pings, time.Since(began))
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	end := sync.OnceFunc(func() {
		close(over)
		<-ended
	})
	defer end() // also if f fails
	f()
	end()
	slices.Sort(l.pings)
	l.slowest = shortestLogged
	entries, _ := do("SLOWLOG", "GET", -1).([]any)
	for _, entry := range entries {
		if fields, ok := entry.([]any); ok && len(fields) > 2 {
			took, _ := fields[2].(int64)
			l.slowest = max(l.slowest, time.Duration(took)*time.Microsecond)
		}
	}
	return l
}

func (l *load) p99() time.Duration { return l.pings[len(l.pings)*99/100] }

// BenchmarkList100000 lists 100,000 locks of six kinds among 200,000 other keys, and measures what other clients of the server
// notice: docs/guides/on-call.md has the figures. They have to be compared with those of the same run for a server that has
// nothing to do, and for one that a client keeps busy with trivial scripts, 64 at a time: on a machine with other work, a
// command may take long because its server has no processor.
func BenchmarkList100000(b *testing.B) {
	const n = 100_000
	on := backend.One(b)
	all, rdb := fill(b, on, n), on.Redis(b)
	in := inspect.New(on.Client(b, nil))
	idle := while(b, on.Server, func() { time.Sleep(3 * time.Second) })
	trivial := while(b, on.Server, func() {
		for began := time.Now(); time.Since(began) < 3*time.Second; {
			pipe := rdb.Pipeline()
			for range 64 {
				pipe.Eval(b.Context(), "local x = 0 for i = 1, 300 do x = x + i end return x", nil)
			}
			if _, err := pipe.Exec(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	list := while(b, on.Server, func() {
		b.ReportAllocs()
		for b.Loop() {
			listsThese(b, in, all, func(int) {})
		}
	})
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "locks/s")
	ms := func(d time.Duration, unit string) { b.ReportMetric(float64(d.Microseconds())/1000, unit) }
	ms(idle.p99(), "ms-ping-p99-idle")
	ms(trivial.p99(), "ms-ping-p99-trivial")
	ms(list.p99(), "ms-ping-p99-list")
	ms(trivial.slowest, "ms-slowest-trivial")
	ms(list.slowest, "ms-slowest-list")
}
