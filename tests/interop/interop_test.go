//go:build linux

// Package interop tests locks that programs in other languages share with ours: Java with Jedis
// and with Redisson, Python with Redis' own client. They run as they would anywhere, in
// processes of their own: rival.go. Linux only: there one clock is read by all.
package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "hold" {
		hold(os.Args[1:])
		return
	}
	os.Exit(m.Run())
}

// form is how a program keeps a lock.
type form struct {
	name     string // as the programs call it
	language string
	poll     time.Duration // how often the program asks for a lock that is held, if it polls
	ours     func(key string) holdfast.Option
}

// told reports whether both sides tell each other of releases.
func (f form) told() bool { return f.poll == 0 }

var forms = []form{
	{"jedis-set", "java", 5 * time.Millisecond, holdfast.Key},
	{"jedis-setnx", "java", 5 * time.Millisecond, holdfast.Key},
	{"redis-py", "python", 100 * time.Millisecond, holdfast.Key},
	{"redisson", "java", 0, holdfast.Redisson},
}

// key is the lock's.
const key = "orders"

// table is where a rival and ours meet.
type table struct {
	form
	nodes []*server.Server
	open  func(t *testing.T) redis.UniversalClient // as another process of ours has it
	rdb   redis.UniversalClient
	them  *rival
}

// lock returns the lock as another process of ours has it.
func (on *table) lock(t *testing.T, opts ...holdfast.Option) *holdfast.Lock {
	t.Helper()
	c, err := holdfast.New(holdfastgoredis.New(on.open(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	backend.CloseWith(t, c)
	return c.Mutex("job", append(opts, on.ours(key))...)
}

func (on *table) free(t *testing.T) bool {
	t.Helper()
	return on.rdb.Exists(t.Context(), key).Val() == 0
}

// What is proven of each form.
var claims = []struct {
	name string
	told bool // only of Redisson
	f    func(t *testing.T, on *table)
}{
	{"neither side releases the other's lock", false, neitherReleasesTheOthers},
	{"a thread enters again", true, entersAgain},
	{"our waiter is woken", false, ourWaiterIsWoken},
	{"their waiter is woken", false, theirWaiterIsWoken},
	{"they get their turn", false, theyGetTheirTurn},
	{"both count to the same", false, bothCountToTheSame},
	{"crashes", false, crashes}, // the last: it starts other programs, which end with it
}

func TestSharing(t *testing.T) {
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			program := setUp(t, f.language)
			for _, bin := range binaries(t) {
				s := server.Start(t, bin)
				open := func(t *testing.T) redis.UniversalClient {
					rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
					t.Cleanup(func() { _ = rdb.Close() })
					return rdb
				}
				on := &table{f, []*server.Server{s}, open, open(t), start(t, program, f.name, s.Addr(), key, f.poll)}
				for _, c := range claims {
					if c.told && !f.told() {
						continue
					}
					if !t.Run(c.name, func(t *testing.T) { c.f(t, on) }) {
						return // the program may be anywhere
					}
				}
			}
		})
	}
}

// binaries returns a server; in a soak, all kinds.
func binaries(t *testing.T) []server.Binary {
	if soak.Long() {
		return server.Binaries(t)
	}
	return []server.Binary{server.One(t)}
}

// In a Cluster, Redisson's clients have sharded channels, unless they are told to have
// ordinary ones.
func TestSharingInACluster(t *testing.T) {
	program := setUp(t, "java")
	for _, bin := range binaries(t) {
		nodes := server.StartCluster(t, bin, 3)
		var addrs []string
		for _, n := range nodes {
			addrs = append(addrs, n.Addr())
		}
		open := func(t *testing.T) redis.UniversalClient {
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
			t.Cleanup(func() { _ = rdb.Close() })
			return rdb
		}
		for _, name := range []string{"redisson-cluster", "redisson-cluster-unsharded"} {
			t.Run(name, func(t *testing.T) {
				f := form{name, "java", 0, holdfast.Redisson}
				on := &table{f, nodes, open, open(t), start(t, program, name, addrs[0], key, 0)}
				ourWaiterIsWoken(t, on)
				theirWaiterIsWoken(t, on)
				bothCountToTheSame(t, on)
			})
		}
	}
}

func neitherReleasesTheOthers(t *testing.T, on *table) {
	lease := backend.Acquire(t, on.lock(t))
	on.them.expect(t, "held", "try 60000")
	on.them.expect(t, "refused", "release")
	if err := lease.Extend(t.Context(), time.Minute); err != nil {
		t.Errorf("our lock, after they tried to release it: %v", err)
	}
	backend.Release(t, lease)

	// Ours expires, and they get it.
	late := backend.Acquire(t, on.lock(t, holdfast.Renew(false), holdfast.TTL(100*time.Millisecond)))
	on.them.expect(t, "granted", "acquire 60000")
	if err := late.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Release of a lock that is theirs: %v", err)
	}
	l := on.lock(t)
	_, err := l.TryAcquire(t.Context())
	var held *holdfast.HeldError
	if !errors.As(err, &held) || !held.Holder.Foreign {
		t.Errorf("TryAcquire of their lock: %v", err)
	}
	on.them.expect(t, "released", "release")
	backend.Release(t, backend.Acquire(t, l))
	if !on.free(t) {
		t.Error("the lock is left behind")
	}
}

// A thread of Redisson's that enters its lock twice has to leave it twice.
func entersAgain(t *testing.T, on *table) {
	l := on.lock(t)
	on.them.expect(t, "granted", "acquire 60000")
	on.them.expect(t, "granted", "acquire 60000")
	leases := backend.Start(t, l)
	backend.Waiters(t, l, 1)
	on.them.expect(t, "released", "release")
	if h, err := l.Holder(t.Context()); err != nil || !h.Foreign {
		t.Errorf("entered twice and left once, the lock has the holder %+v, %v", h, err)
	}
	on.them.expect(t, "released", "release")
	backend.Release(t, backend.Receive(t, leases))
	if _, err := l.Holder(t.Context()); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("released by all: %v", err)
	}
}

// turns is how many waits a median is made of: a machine that stalls spoils a few.
const turns = 9

// Ours sleeps until they release.
func ourWaiterIsWoken(t *testing.T, on *table) {
	l := on.lock(t)
	ours := int64(1) // subscriptions
	if len(on.nodes) > 1 {
		ours = 2
	}
	var waits []time.Duration
	for range turns {
		on.them.expect(t, "granted", "acquire 60000")
		leases := backend.Start(t, l)
		backend.Waiters(t, l, 1)
		if on.told() {
			on.listeners(t, ours)
		}
		released := on.them.expect(t, "released", "release")
		lease := backend.Receive(t, leases)
		waits = append(waits, time.Duration(history.Now()-released))
		backend.Release(t, lease)
	}
	limit := time.Second // that ours polls at 250 ms, at most, is for waits that are longer
	if on.told() {
		limit = 250 * time.Millisecond // without a message it would be 800 ms at least
	}
	judge(t, on.name+": ours has the lock after their release", waits, limit)
}

// listeners waits until so many hear of releases, in a Cluster on any node.
func (on *table) listeners(t *testing.T, n int64) {
	t.Helper()
	const channel = "redisson_lock__channel:{" + key + "}"
	backend.Eventually(t, "those who wait hear Redisson's channel", func() bool {
		heard := int64(0)
		for _, node := range on.nodes {
			for _, count := range []string{"NUMSUB", "SHARDNUMSUB"} {
				reply, err := node.Do("PUBSUB", count, channel)
				if err != nil {
					t.Fatal(err)
				}
				heard += reply.([]any)[1].(int64)
			}
		}
		return heard >= n
	})
}

// They sleep until ours releases, or poll.
func theirWaiterIsWoken(t *testing.T, on *table) {
	l := on.lock(t)
	var waits []time.Duration
	for range turns {
		lease := backend.Acquire(t, l)
		on.them.send(t, "acquire 60000")
		if on.told() {
			on.listeners(t, 1)
		}
		released := history.Now()
		backend.Release(t, lease)
		waits = append(waits, time.Duration(on.them.answer(t, "granted")-released))
		on.them.expect(t, "released", "release")
	}
	// Redisson, if it were not told, would wait for what is left of 15 s.
	judge(t, on.name+": they have the lock after our release", waits, 500*time.Millisecond)
}

// judge prints waits, and compares their median with a limit that is generous for a machine
// that stalls.
func judge(t *testing.T, what string, waits []time.Duration, limit time.Duration) {
	t.Helper()
	slices.Sort(waits)
	median := waits[len(waits)/2]
	t.Logf("%s after %s, the median of %d; at most %s", what, median.Round(10*time.Microsecond), len(waits), waits[len(waits)-1].Round(10*time.Microsecond))
	if median > limit {
		t.Errorf("%s after %s; %s is too long", what, waits, limit)
	}
}

// While ours hand the lock over to each other without end, they get their turn.
func theyGetTheirTurn(t *testing.T, on *table) {
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var handed atomic.Int64
	for range 3 {
		l := on.lock(t)
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = l.Do(ctx, func(context.Context, *holdfast.Lease) error {
					handed.Add(1)
					time.Sleep(time.Millisecond)
					return nil
				})
			}
		})
	}
	defer wg.Wait()
	defer stop()
	var waits []time.Duration
	for range turns {
		before := handed.Load()
		backend.Eventually(t, "ours hand over to each other again", func() bool { return handed.Load() > before+20 })
		began := history.Now()
		waits = append(waits, time.Duration(on.them.expect(t, "granted", "acquire 60000")-began))
		on.them.expect(t, "released", "release")
	}
	judge(t, on.name+": they get their turn", waits, 2*time.Second)
}

// Both sides add to a counter that nothing but the lock guards.
func bothCountToTheSame(t *testing.T, on *table) { allCountToTheSame(t, on, on.them) }

// All programs that know the string, and ours, add to one counter together.
func TestAllCountToTheSame(t *testing.T) {
	for _, bin := range binaries(t) {
		s := server.Start(t, bin)
		open := func(t *testing.T) redis.UniversalClient {
			rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
			t.Cleanup(func() { _ = rdb.Close() })
			return rdb
		}
		on := &table{form: form{name: "all", ours: holdfast.Key}, nodes: []*server.Server{s}, open: open, rdb: open(t)}
		var rivals []*rival
		for _, f := range forms {
			if !f.told() {
				// As often as each other: who asks seldom would have it seldom.
				rivals = append(rivals, start(t, setUp(t, f.language), f.name, s.Addr(), key, 5*time.Millisecond))
			}
		}
		allCountToTheSame(t, on, rivals...)
	}
}

func allCountToTheSame(t *testing.T, on *table, rivals ...*rival) {
	last := soak.Duration(t) / 3
	const counter = "counter"
	on.rdb.Del(t.Context(), counter)
	ours := on.hammer(t, last, counter)
	for _, r := range rivals {
		r.hammer(t, 2, last, counter)
	}
	var all []history.Event
	for _, r := range rivals {
		theirs := r.turns(t, last)
		if len(theirs) < 2 {
			t.Errorf("%s has had %d turns", r.command, len(theirs))
		}
		t.Logf("%s has had %d turns", r.command, len(theirs))
		all = append(all, theirs...)
	}
	all = append(all, <-ours...)
	mine := slices.DeleteFunc(slices.Clone(all), func(e history.Event) bool { return e.Process != os.Getpid() })
	for _, v := range slices.Concat(history.Crowding(all, 1), history.Check(mine)) {
		t.Error(v)
	}
	got, err := on.rdb.Get(t.Context(), counter).Int()
	if err != nil || got != len(all) {
		t.Errorf("the counter shows %d (%v) after %d increments, %d of them ours", got, err, len(all), len(mine))
	}
	t.Logf("%s: counted to %d in %s, %d of it ours", on.name, got, last.Round(time.Millisecond), len(mine))
	if len(mine) < 2 {
		t.Errorf("ours has had %d turns of %d", len(mine), len(all))
	}
	if !on.free(t) {
		t.Error("the lock is left behind")
	}
}

// hammer has goroutines of two clients add to the counter, and returns what they did.
func (on *table) hammer(t *testing.T, last time.Duration, counter string) <-chan []history.Event {
	recorder := history.NewRecorder(nil)
	var wg sync.WaitGroup
	end := time.Now().Add(last)
	for client := range 2 {
		l := on.lock(t)
		for n := range 2 {
			wg.Go(func() {
				for time.Now().Before(end) {
					a := recorder.Ask(client*10+n, key)
					lease, err := l.Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					a.Granted(lease.Token(), lease.Deadline(), 0)
					err = count(t.Context(), on.rdb, counter)
					a.Released(lease.Deadline())
					if err := errors.Join(err, lease.Release(t.Context())); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	done := make(chan []history.Event, 1)
	go func() {
		wg.Wait()
		events, err := recorder.Events()
		if err != nil {
			t.Error(err)
		}
		done <- events
	}()
	return done
}

// count adds 1, as programs do that rely on a lock.
func count(ctx context.Context, rdb redis.UniversalClient, counter string) error {
	n, err := rdb.Get(ctx, counter).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	time.Sleep(time.Millisecond)
	return rdb.Set(ctx, counter, strconv.Itoa(n+1), 0).Err()
}

// A holder that is killed keeps the lock for what is left of its TTL, and no longer.
func crashes(t *testing.T, on *table) {
	ttls := []int{1000}
	if on.told() {
		ttls = append(ttls, 0) // renewed by Redisson's watchdog, for 1.5 s each time
	}
	for _, ttl := range ttls {
		on.them.expect(t, "granted", fmt.Sprint("acquire ", ttl))
		leases := backend.Start(t, on.lock(t))
		backend.Waiters(t, on.lock(t), 1)
		on.them.kill(t)
		expiry := on.expiry(t)
		lease := backend.Receive(t, leases)
		on.early(t, "ours", history.Now(), expiry)
		backend.Release(t, lease)
		on.them = on.them.again(t)
	}

	holder := startHolder(t, on, time.Second)
	on.them.send(t, "acquire 1000")
	if on.told() {
		on.listeners(t, 1)
	}
	holder.kill(t)
	expiry := on.expiry(t)
	on.early(t, "they", on.them.answer(t, "granted"), expiry)
	on.them.expect(t, "released", "release")
}

// expiry returns when the lock will be free if nobody renews it; now if it is.
func (on *table) expiry(t *testing.T) int64 {
	t.Helper()
	now := history.Now() // before it is asked: a machine may stall
	left := on.rdb.PTTL(t.Context(), key).Val()
	return now + max(left, 0).Nanoseconds()
}

// early judges when somebody got the lock of a holder that had been killed.
func (on *table) early(t *testing.T, who string, granted, expiry int64) {
	t.Helper()
	late := time.Duration(granted - expiry)
	t.Logf("%s: %s had the lock %s after its expiry", on.name, who, late.Round(10*time.Microsecond))
	if late < -5*time.Millisecond { // a server counts whole ms
		t.Errorf("%s had the lock %s before it was over", who, -late)
	}
	if late > 10*time.Second {
		t.Errorf("%s had the lock %s after it was over", who, late)
	}
}
