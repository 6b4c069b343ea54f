//go:build unix

package processes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// guestTTL is how long what a guest holds is in the way of others when it dies.
const guestTTL = time.Second

// guestGoroutines is how many goroutines of a guest take turns.
const guestGoroutines = 2

// guest is a worker of the storms in which processes die. It takes turns with a kind of lock,
// and writes its history to a file, and the runs of jobs that it completed to another. It
// ends with its input, and fails if goroutines are left then.
//
//	guest FILE KIND ADDR...
func guest(args []string) {
	before := runtime.NumGoroutine()
	out, err := os.Create(args[0])
	must(err)
	completed, err := os.Create(args[0] + ".completed")
	must(err)
	g := &table{record: history.NewRecorder(out), completed: json.NewEncoder(completed)}
	k := kindOf(args[1])
	var servers []*redis.Client
	for _, addr := range args[2:] {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		c, err := k.client(rdb)
		must(err)
		servers, g.clients = append(servers, rdb), append(g.clients, c)
	}
	g.ctx = untilDismissed(&g.doomed)
	for n := range guestGoroutines {
		turn := k.turns(g, n)
		g.running.Go(func() {
			for g.ctx.Err() == nil {
				turn()
				time.Sleep(rand.N(30 * time.Millisecond))
			}
		})
	}
	g.running.Wait()
	_, err = g.record.Events()
	must(err)
	for i, c := range g.clients {
		must(c.Close(context.Background()))
		must(servers[i].Close())
	}
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			must(fmt.Errorf("%d goroutines are left of %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)]))
		}
	}
	must(errors.Join(out.Close(), completed.Close()))
}

// table is what the goroutines of a guest share.
type table struct {
	clients []*holdfast.Client
	record  *history.Recorder
	ctx     context.Context // until the guest is dismissed
	doomed  atomic.Bool     // it must die while it holds something
	running sync.WaitGroup

	mu        sync.Mutex
	completed *json.Encoder
}

// completion is a run of a job that was completed in a window.
type completion struct {
	Job   string
	Slot  string // the window's, if it has a name
	At    int64  // by the server's clock, in microseconds
	Fence uint64
}

func (g *table) complete(c completion) {
	g.mu.Lock()
	defer g.mu.Unlock()
	must(g.completed.Encode(c))
}

// tolerable ends the guest, unless a stall of the machine explains the error.
func tolerable(err error) {
	if errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrAmbiguous) {
		return
	}
	must(err)
}

// work is what a holder does.
func (g *table) work() {
	time.Sleep(rand.N(4 * time.Millisecond))
	if g.doomed.Load() {
		must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
		select {}
	}
}

// hold acquires a lock, or a share of it, once.
func (g *table) hold(goroutine int, l *holdfast.Lock, share int, during func(*holdfast.Lease)) {
	a := g.record.Ask(goroutine, l.Name())
	a.Share(share)
	lease, err := l.Acquire(context.Background())
	if err != nil {
		a.GaveUp()
		tolerable(err)
		return
	}
	a.Granted(lease.Fence(), lease.Deadline(), 0)
	during(lease)
	a.Released(lease.Deadline())
	tolerable(lease.Release(context.Background()))
}

// mutexTurns acquires the mutex again within itself in every other turn.
func mutexTurns(g *table, n int) func() {
	l := g.clients[0].Mutex("a", holdfast.TTL(guestTTL), holdfast.Reentrant())
	return func() {
		g.hold(n, l, 0, func(outer *holdfast.Lease) {
			g.work()
			if rand.IntN(2) > 0 {
				return
			}
			inner, err := l.Acquire(outer.Context(context.Background()))
			if err != nil {
				if lost := outer.Err(); lost != nil && errors.Is(err, context.Canceled) {
					err = lost // it ended the context
				}
				tolerable(err)
				return
			}
			if inner.Fence() != outer.Fence() {
				must(fmt.Errorf("acquired again, the fence is %d, not %d", inner.Fence(), outer.Fence()))
			}
			g.work()
			tolerable(inner.Release(context.Background()))
		})
	}
}

func redissons(c *holdfast.Client) *holdfast.Lock {
	return c.RedissonMutex("orders", holdfast.TTL(guestTTL))
}

func redissonTurns(g *table, n int) func() {
	l := redissons(g.clients[0])
	return func() { g.hold(n, l, 0, func(*holdfast.Lease) { g.work() }) }
}

func rwmutexTurns(g *table, n int) func() {
	rw := g.clients[0].RWMutex("a", holdfast.TTL(guestTTL))
	return func() {
		l, share := rw.Reader(holdfast.TTL(guestTTL*3/4)), 1
		if rand.IntN(3) == 0 {
			l, share = rw.Writer(), 0
		}
		g.hold(n, l, share, func(*holdfast.Lease) { g.work() })
	}
}

// permits are those of the semaphore.
const permits = 4

func semaphoreTurns(g *table, n int) func() {
	return func() {
		weight := 1 + rand.IntN(permits)
		s := g.clients[0].Semaphore("a", permits, holdfast.TTL(guestTTL))
		g.hold(n, s.Permits(weight), weight, func(*holdfast.Lease) { g.work() })
	}
}

// owners is the number of processes that own a lock together, each as one of several owners.
const owners = 3

func ownerTurns(g *table, n int) func() {
	who := 1 + os.Getpid()%owners
	l := owned(g.clients[0], who)
	return func() { g.hold(n, l, who, func(*holdfast.Lease) { g.work() }) }
}

func owned(c *holdfast.Client, who int) *holdfast.Lock {
	return c.OwnerMutex("a", fmt.Sprint("owner-", who), holdfast.TTL(guestTTL))
}

// multiNames are the locks of which guests want some, in any order.
var multiNames = []string{"a", "b", "c", "d", "e"}

func multiTurns(g *table, n int) func() {
	return func() {
		var names []string
		for _, i := range rand.Perm(len(multiNames))[:1+rand.IntN(3)] {
			names = append(names, multiNames[i])
		}
		if len(names) == 1 {
			g.hold(n, g.clients[0].Mutex(names[0], holdfast.TTL(guestTTL)), 0, func(*holdfast.Lease) { g.work() })
			return
		}
		var attempts []*history.Attempt
		for _, name := range names {
			attempts = append(attempts, g.record.Ask(n, name))
		}
		lease, err := g.clients[0].Multi(names, holdfast.TTL(guestTTL)).Acquire(context.Background())
		if err != nil {
			for _, a := range attempts {
				a.GaveUp()
			}
			tolerable(err)
			return
		}
		tokens := lease.Fences()
		for i, a := range attempts {
			a.Granted(tokens[names[i]], lease.Deadline(), 0)
		}
		g.work()
		for _, a := range attempts {
			a.Released(lease.Deadline())
		}
		tolerable(lease.Release(context.Background()))
	}
}

// window is how long a completed job counts.
const window = 40 * time.Millisecond

var errFails = errors.New("the run fails")

// onceTurns runs one job in windows that begin with its runs, and one in named windows, by clocks that differ.
func onceTurns(g *table, n int) func() {
	skew := time.Duration(os.Getpid()%3) * window / 3
	return func() {
		job, slot := "every", ""
		w := holdfast.Every(window)
		if n%2 == 1 {
			job, slot = "slots", strconv.FormatInt(time.Now().Add(skew).UnixNano()/int64(window), 10)
			w = holdfast.Slot(slot, time.Minute)
		}
		a, runs := g.record.Ask(n, job), false
		run, err := g.clients[0].Once(job, w, holdfast.TTL(guestTTL)).Do(context.Background(), func(_ context.Context, lease *holdfast.Lease) (string, error) {
			runs = true
			a.Granted(lease.Fence(), lease.Deadline(), 0)
			g.work()
			a.Released(lease.Deadline())
			if rand.IntN(4) == 0 {
				return "", errFails
			}
			return slot, nil
		})
		if !runs {
			a.GaveUp()
		}
		if !errors.Is(err, errFails) {
			tolerable(err)
		}
		if err == nil && run.Here {
			g.complete(completion{job, slot, run.Time.UnixMicro(), run.Fence})
		}
		if err == nil && run.Result != slot {
			must(fmt.Errorf("the run for slot %q is that for %q", slot, run.Result))
		}
	}
}

// electionTurns has one candidate for each goroutine, and one observer.
func electionTurns(g *table, n int) func() {
	e := g.clients[0].Election("a", holdfast.TTL(guestTTL))
	if n == 0 {
		g.running.Go(func() {
			var last uint64
			for status, err := range e.Watch(g.ctx) {
				must(err)
				leader, leads := status.Holder()
				if !leads {
					continue
				}
				if leader.Fence <= last {
					must(fmt.Errorf("the leader with fence %d is seen after the one with %d", leader.Fence, last))
				}
				last = leader.Fence
			}
		})
	}
	return func() {
		a := g.record.Ask(n, "a")
		err := e.Run(context.Background(), func(_ context.Context, term *holdfast.Lease) error {
			a.Granted(term.Fence(), term.Deadline(), 0)
			g.work()
			a.Released(term.Deadline())
			if rand.IntN(2) == 0 {
				a = g.record.Ask(n, "a")
				return holdfast.ErrResign
			}
			return nil
		})
		tolerable(err)
	}
}

// longest is the longest lease that the quorum's nodes grant.
const longest = 6 * guestTTL

func quorumTurns(g *table, n int) func() {
	q, err := holdfast.NewQuorum(g.clients, &holdfast.QuorumConfig{NodeTimeout: guestTTL / 4})
	must(err)
	l := q.Mutex("a", holdfast.TTL(guestTTL))
	return func() { g.hold(n, l, 0, func(*holdfast.Lease) { g.work() }) }
}
