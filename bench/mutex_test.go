// Package bench measures locks with the bare two commands of the canonical lock (SET
// NX PX, and a script that compares and deletes) beside them, on one server in one run.
// Figures are worth comparing within a run only.
package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/child"
	"github.com/holdfast-go/holdfast/tests/server"
)

const ttl = 10 * time.Second

var compareAndDelete = redis.NewScript(`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`)

func open(b *testing.B, s *server.Server) (*redis.Client, *holdfast.Client) {
	b.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), PoolSize: 128})
	b.Cleanup(func() { _ = rdb.Close() })
	c, err := holdfast.New(holdfastgoredis.New(rdb), &holdfast.Config{TTL: ttl})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close(context.Background()) })
	return rdb, c
}

func cycle(b *testing.B, l *holdfast.Lock) {
	lease, err := l.Acquire(context.Background())
	if err == nil {
		err = lease.Release(context.Background())
	}
	if err != nil {
		b.Error(err)
	}
}

// bare is the lock that everybody takes for the floor. It polls where it has to wait.
func bare(b *testing.B, rdb *redis.Client, key, token string) {
	ctx := context.Background()
	for {
		ok, err := rdb.SetNX(ctx, key, token, ttl).Result()
		if err != nil {
			b.Error(err)
			return
		}
		if ok {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	if err := compareAndDelete.Run(ctx, rdb, []string{key}, token).Err(); err != nil {
		b.Error(err)
	}
}

// spread runs f on so many goroutines, b.N times in all.
func spread(b *testing.B, goroutines int, f func(goroutine int)) {
	b.Helper()
	var left, ended atomic.Int64
	left.Store(int64(b.N))
	done := make(chan struct{})
	b.ReportAllocs()
	b.ResetTimer()
	for g := range goroutines {
		go func() {
			for left.Add(-1) >= 0 {
				f(g)
			}
			if ended.Add(1) == int64(goroutines) {
				close(done)
			}
		}()
	}
	<-done
}

// BenchmarkFree has each goroutine take and release a lock of its own.
func BenchmarkFree(b *testing.B) {
	s := server.Start(b, server.One(b))
	rdb, c := open(b, s)
	for _, goroutines := range []int{1, 8, 64} {
		names := make([]string, goroutines)
		locks := make([]*holdfast.Lock, goroutines)
		for g := range goroutines {
			names[g] = "free-" + strconv.Itoa(g)
			locks[g] = c.Mutex(names[g])
		}
		b.Run(fmt.Sprintf("bare/%d", goroutines), func(b *testing.B) {
			spread(b, goroutines, func(g int) { bare(b, rdb, names[g], names[g]) })
		})
		b.Run(fmt.Sprintf("holdfast/%d", goroutines), func(b *testing.B) {
			spread(b, goroutines, func(g int) { cycle(b, locks[g]) })
		})
	}
}

// BenchmarkLocal has goroutines of one process want one lock.
func BenchmarkLocal(b *testing.B) {
	s := server.Start(b, server.One(b))
	rdb, c := open(b, s)
	const goroutines = 64
	b.Run("bare", func(b *testing.B) {
		spread(b, goroutines, func(g int) { bare(b, rdb, "local-bare", strconv.Itoa(g)) })
	})
	b.Run("holdfast", func(b *testing.B) {
		l := c.Mutex("local")
		spread(b, goroutines, func(int) { cycle(b, l) })
	})
}

// rivalVariable makes the test binary a rival for BenchmarkContended.
const rivalVariable = "HOLDFAST_BENCH_RIVAL"

func TestMain(m *testing.M) {
	if addr := os.Getenv(rivalVariable); addr != "" {
		rival(addr, os.Args[1])
		return
	}
	os.Exit(m.Run())
}

// rival wants the contended lock until its standard input ends.
func rival(addr, kind string) {
	ctx := context.Background()
	var stop atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop.Store(true)
	}()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	c, err := holdfast.New(holdfastgoredis.New(rdb), &holdfast.Config{TTL: ttl})
	for n := 0; err == nil && !stop.Load(); n++ {
		if kind == "bare" {
			token := fmt.Sprint(os.Getpid(), n)
			var ok bool
			if ok, err = rdb.SetNX(ctx, "contended-bare", token, ttl).Result(); ok {
				err = compareAndDelete.Run(ctx, rdb, []string{"contended-bare"}, token).Err()
			} else {
				time.Sleep(2 * time.Millisecond)
			}
			continue
		}
		var lease *holdfast.Lease
		if lease, err = c.Mutex("contended").Acquire(ctx); err == nil {
			err = lease.Release(ctx)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// BenchmarkContended has this process and three others want one lock.
func BenchmarkContended(b *testing.B) {
	s := server.Start(b, server.One(b))
	rdb, c := open(b, s)
	for _, kind := range []string{"bare", "holdfast"} {
		b.Run(kind, func(b *testing.B) {
			for range 3 {
				cmd := exec.Command(os.Args[0], kind)
				cmd.Env = append(os.Environ(), rivalVariable+"="+s.Addr())
				cmd.Stderr = os.Stderr
				in, err := cmd.StdinPipe()
				if err == nil {
					err = child.Start(cmd)
				}
				if err != nil {
					b.Fatal(err)
				}
				// Killed, it might leave the lock to expire.
				defer func() {
					_ = in.Close()
					_ = cmd.Wait()
				}()
			}
			l := c.Mutex("contended")
			spread(b, 1, func(g int) {
				if kind == "bare" {
					bare(b, rdb, "contended-bare", "this process")
				} else {
					cycle(b, l)
				}
			})
		})
	}
}
