// Walk does one thing with a lock, so that the functions that it passes can be counted: tests/walks.sh builds
// it with coverage and runs it once for each walk. Counting begins when everything is set up, and ends with the
// walk.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"runtime/coverage"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/redis/go-redis/v9"
)

// walker is what walks use.
type walker struct {
	addr         string
	mine, theirs *holdfast.Client // two processes
}

// walks prepare a walk, and return the part that is counted.
var walks = map[string]func(w *walker) (walk func()){
	"acquire": func(w *walker) func() {
		w.release(w.acquire(w.mine, "warm"))
		return func() { w.acquire(w.mine, "a") }
	},
	"release": func(w *walker) func() {
		w.release(w.acquire(w.mine, "warm"))
		lease := w.acquire(w.mine, "a")
		return func() { w.release(lease) }
	},
	"release on a cancelled context": func(w *walker) func() {
		lease := w.acquire(w.mine, "a")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return func() { check(lease.Release(ctx)) }
	},
	"hand-over": func(w *walker) func() {
		lease := w.acquire(w.theirs, "a")
		return func() {
			got := make(chan struct{})
			go func() {
				w.acquire(w.mine, "a")
				close(got)
			}()
			time.Sleep(300 * time.Millisecond) // until it is queued
			w.release(lease)
			<-got
		}
	},
	"renewal": func(w *walker) func() {
		lease := w.acquire(w.mine, "a")
		end := lease.Deadline()
		return func() {
			for lease.Deadline().Equal(end) {
				time.Sleep(10 * time.Millisecond)
			}
		}
	},
	"loss": func(w *walker) func() {
		lease := w.acquire(w.mine, "a")
		rdb := redis.NewClient(&redis.Options{Addr: w.addr})
		defer rdb.Close()
		check(rdb.Set(context.Background(), "holdfast:{a}", "somebody else's", 0).Err())
		return func() {
			for lease.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond) // the remains on the server are given back
		}
	},
}

func (w *walker) acquire(c *holdfast.Client, name string) *holdfast.Lease {
	lease, err := c.Mutex(name, holdfast.TTL(time.Second)).Acquire(context.Background())
	check(err)
	return lease
}

func (w *walker) release(lease *holdfast.Lease) { check(lease.Release(context.Background())) }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	if len(os.Args) != 2 || walks[os.Args[1]] == nil {
		for name := range walks {
			fmt.Println(name)
		}
		return
	}
	server, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: "127.0.0.1:0"})
	check(err)
	w := &walker{addr: server.Addr()}
	for _, c := range []**holdfast.Client{&w.mine, &w.theirs} {
		*c, err = holdfastgoredis.New(redis.NewClient(&redis.Options{Addr: w.addr}), nil)
		check(err)
	}
	walk := walks[os.Args[1]](w)
	time.Sleep(50 * time.Millisecond)
	check(coverage.ClearCounters())
	walk()
	check(coverage.WriteMetaDir(os.Getenv("WALK_DIR")))
	check(coverage.WriteCountersDir(os.Getenv("WALK_DIR")))
}
