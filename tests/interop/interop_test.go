//go:build linux

// Package interop tests locks that programs in other languages share with ours: Java with Redisson, and Python with Redis's own
// client, whose lock is the string that most programs use. They run in processes of their own: see rival_test.go. Linux only, where
// all programs can read one clock.
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
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "hold" {
		hold(os.Args[1:])
		return
	}
	backend.AtOnce(6) // programs take a while to start, and wait for each other
	os.Exit(m.Run())
}

// form is how a program stores a lock.
type form struct {
	name     string // the program's name for it
	language string
	poll     time.Duration // how often the program asks for a held lock, if it polls
	ours     func(c *holdfast.Client, key string, opts ...holdfast.MutexOption) *holdfast.Lock
}

// told reports whether both sides tell each other of releases.
func (f form) told() bool { return f.poll == 0 }

var forms = []form{
	{"redis-py", "python", 100 * time.Millisecond, (*holdfast.Client).MutexKey},
	{"redisson", "java", 0, (*holdfast.Client).RedissonMutex},
}

// key is the lock, and channel is where Redisson's clients announce its release.
const (
	key     = "orders"
	channel = "redisson_lock__channel:{" + key + "}"
)

// table is where a rival and our clients meet.
type table struct {
	form
	nodes []*server.Server
	open  func(t *testing.T) redis.UniversalClient // for another process of ours
	rdb   redis.UniversalClient
	them  *rival
}

// lock returns the lock as another process of ours would have it.
func (on *table) lock(t *testing.T, opts ...holdfast.MutexOption) *holdfast.Lock {
	t.Helper()
	l, _ := on.hearing(t, opts...)
	return l
}

// hearing returns that lock, and its driver, which records what comes on the channel of Redisson's clients.
func (on *table) hearing(t *testing.T, opts ...holdfast.MutexOption) (*holdfast.Lock, *backend.Hearing) {
	t.Helper()
	d := backend.Hear(drivertest.Of(holdfastgoredis.NewDriver(on.open(t))), channel)
	return on.ours(backend.New(t, nil, d), key, opts...), d
}

func (on *table) free(t *testing.T) bool {
	t.Helper()
	return on.rdb.Exists(t.Context(), key).Val() == 0
}

// claims are the properties that the tests prove of each form.
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
	{"crashes", false, crashes}, // it comes last: it starts other programs, which end with it
}

// Fault: Redisson and redis-py hold, release, crash and poll shared keys. Each side keeps the other out, and nobody starves.
func TestSharing(t *testing.T) {
	t.Parallel()
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
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
						return // the program may be in any state
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

// In a Cluster, Redisson's clients use sharded channels, unless they are told to use ordinary ones.
func TestSharingInACluster(t *testing.T) {
	t.Parallel()
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
				f := form{name, "java", 0, (*holdfast.Client).RedissonMutex}
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
	expect.Err(t, "our lock, after they tried to release it", lease.Extend(t.Context(), time.Minute), nil)
	backend.Release(t, lease)

	// Our lock expires, and they get it.
	late := backend.Acquire(t, on.lock(t, holdfast.NoRenew(), holdfast.TTL(500*time.Millisecond)))
	on.them.expect(t, "granted", "acquire 60000")
	expect.Err(t, "Release of a lock that is theirs", late.Release(t.Context()), holdfast.ErrLost)
	l := on.lock(t)
	_, err := l.TryAcquire(t.Context())
	var held *holdfast.HeldError
	if !errors.As(err, &held) || !held.Holder.Foreign {
		t.Errorf("TryAcquire of their lock: %v", err)
	}
	on.them.expect(t, "released", "release")
	backend.Release(t, backend.Acquire(t, l))
	expect.Equal(t, "the lock is free", on.free(t), true)
}

// A Redisson thread that locks its lock twice must unlock it twice.
func entersAgain(t *testing.T, on *table) {
	l := on.lock(t)
	on.them.expect(t, "granted", "acquire 60000")
	on.them.expect(t, "granted", "acquire 60000")
	leases := backend.Start(t, l)
	backend.Waiters(t, l, 1)
	on.them.expect(t, "released", "release")
	if h, err := backend.HolderOf(t.Context(), l); err != nil || !h.Foreign {
		t.Errorf("entered twice and left once, the lock has the holder %+v, %v", h, err)
	}
	on.them.expect(t, "released", "release")
	backend.Release(t, backend.Receive(t, leases))
	expect.Err(t, "released by all", expect.ErrOf(backend.HolderOf(t.Context(), l)), holdfast.ErrNotHeld)
}

// turns is how often each waits for the other.
const turns = 9

// Our client sleeps until they release. What it hears shows that Redisson's clients announce that. Tests in
// tests/behaviour show, in virtual time, that it then wakes up at once, and that it looks often if nobody
// announces releases.
func ourWaiterIsWoken(t *testing.T, on *table) {
	ours := int64(1) // subscriptions
	if len(on.nodes) > 1 {
		ours = 2
	}
	for range turns {
		l, d := on.hearing(t)
		on.them.expect(t, "granted", "acquire 300000")
		if on.told() {
			backend.Eventually(t, "nobody hears Redisson's channel since the last turn", func() bool { return on.listening(t) == 0 })
		}
		leases := backend.Start(t, l)
		backend.Waiters(t, l, 1)
		if on.told() {
			on.listeners(t, ours)
		}
		expect.Equal(t, "a release is told of that has not been", d.Heard("0"), false)
		on.them.expect(t, "released", "release")
		lease := backend.Receive(t, leases) // long before their lock would expire
		if on.told() {
			backend.Eventually(t, "ours is told of their release", func() bool { return d.Heard("0") })
		}
		backend.Release(t, lease)
	}
}

// listeners waits until n clients are subscribed to releases.
func (on *table) listeners(t *testing.T, n int64) {
	t.Helper()
	backend.Eventually(t, "those who wait hear Redisson's channel", func() bool { return on.listening(t) >= n })
}

// listening returns how many clients are subscribed to releases, in a Cluster on any node.
func (on *table) listening(t *testing.T) (heard int64) {
	t.Helper()
	for _, node := range on.nodes {
		for _, count := range []string{"NUMSUB", "SHARDNUMSUB"} {
			reply := expect.Of(node.Do("PUBSUB", count, channel)).OK(t)
			heard += reply.([]any)[1].(int64)
		}
	}
	return heard
}

// They sleep until our client releases, or poll. If Redisson were not told, it would wait for the rest of five
// minutes, far longer than the test waits for an answer.
func theirWaiterIsWoken(t *testing.T, on *table) {
	l := on.lock(t, holdfast.TTL(5*time.Minute))
	for range turns {
		lease := backend.Acquire(t, l)
		on.them.Say(t, "acquire 60000")
		if on.told() {
			on.listeners(t, 1)
		}
		backend.Release(t, lease)
		on.them.answer(t, "granted")
		on.them.expect(t, "released", "release")
	}
}

// mostPassed is how often our clients may hold the lock while they wait. Their wait is measured in turns of
// ours, which take longer on a slow machine, too: if nothing is slow, they get the lock after two seconds at
// most.
const mostPassed = 500

// While our clients hand the lock over to each other without end, they get their turn.
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
	var passed []int64 // how often our clients handed it over while they waited
	for range turns {
		before := handed.Load()
		backend.Eventually(t, "ours hand over to each other again", func() bool { return handed.Load() > before+20 })
		before = handed.Load()
		on.them.expect(t, "granted", "acquire 60000")
		passed = append(passed, handed.Load()-before)
		on.them.expect(t, "released", "release")
	}
	slices.Sort(passed)
	expect.AtMost(t, "turns of ours before their first", passed[turns/2], mostPassed)
}

// Both sides add to a counter that only the lock guards, until both had turns. A hold during which the machine stood still may have
// ended before it was used.
func bothCountToTheSame(t *testing.T, on *table) {
	for last := soak.Duration(t) / 3; ; last *= 2 {
		few := ""
		machine.Undisturbed(t, func() (err error) {
			few, err = countTogether(t, on, last)
			return err
		})
		if few == "" {
			return
		}
		if last > time.Minute {
			t.Fatalf("in %s %s", last, few)
		}
		t.Logf("again, for longer: in %s %s", last, few)
	}
}

// countTogether returns an error if the lock did not keep them apart, and says who had few turns.
func countTogether(t *testing.T, on *table, last time.Duration) (few string, err error) {
	const counter = "counter"
	on.rdb.Del(t.Context(), counter)
	ours := on.hammer(t, last, counter)
	on.them.hammer(t, 2, last, counter)
	theirs := on.them.turns(t, last)
	mine, err := ours()
	if len(theirs) < 2 || len(mine) < 2 {
		few = fmt.Sprintf("they had %d turns, ours %d", len(theirs), len(mine))
	}
	all := slices.Concat(theirs, mine)
	for _, v := range slices.Concat(history.Crowding(all, 1), history.Check(mine)) {
		err = errors.Join(err, fmt.Errorf("%v", v))
	}
	got, failed := on.rdb.Get(t.Context(), counter).Int()
	if failed != nil || got != len(all) {
		err = errors.Join(err, fmt.Errorf("the counter shows %d (%v) after %d increments, %d of them ours", got, failed, len(all), len(mine)))
	}
	if !on.free(t) {
		err = errors.Join(err, errors.New("the lock is left behind"))
	}
	return few, err
}

// hammer makes goroutines of two clients add to the counter. The returned function waits until they have ended,
// and returns what they did, and what failed.
func (on *table) hammer(t *testing.T, last time.Duration, counter string) func() ([]history.Event, error) {
	recorder := history.NewRecorder(nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	end := time.Now().Add(last)
	for client := range 2 {
		l := on.lock(t)
		for n := range 2 {
			wg.Go(func() {
				for time.Now().Before(end) {
					a := recorder.Ask(client*10+n, key)
					lease, err := l.Acquire(t.Context())
					if err == nil {
						a.Granted(lease.Fence(), lease.Deadline())
						err = count(t.Context(), on.rdb, counter)
						a.Released(lease.Deadline())
						err = errors.Join(err, lease.Release(t.Context()))
					}
					if err != nil {
						mu.Lock()
						failed = errors.Join(failed, err)
						mu.Unlock()
						return
					}
				}
			})
		}
	}
	return func() ([]history.Event, error) {
		wg.Wait()
		events, err := recorder.Events()
		return events, errors.Join(failed, err)
	}
}

// count adds 1 like a program that relies on a lock.
func count(ctx context.Context, rdb redis.UniversalClient, counter string) error {
	n, err := rdb.Get(ctx, counter).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	time.Sleep(time.Millisecond)
	return rdb.Set(ctx, counter, strconv.Itoa(n+1), 0).Err()
}

// A holder that is killed keeps the lock for the rest of its TTL, no longer.
func crashes(t *testing.T, on *table) {
	theirsDies := func(renewed bool) func(unit time.Duration) error {
		return func(unit time.Duration) error {
			ttl := unit.Milliseconds()
			if renewed {
				ttl = 0 // by Redisson's watchdog, for 1.5 s each time
			}
			began := time.Now()
			on.them.expect(t, "granted", fmt.Sprint("acquire ", ttl))
			leases := backend.Start(t, on.lock(t))
			early := on.waiting(t, leases)
			on.them.Kill()
			expiry := on.expiry(t)
			lease := early
			if early == nil {
				lease = backend.Receive(t, leases)
			}
			granted := history.Now()
			backend.ReleaseSince(t, began, lease)
			on.them = run(t, on.them.command)
			if early != nil {
				return errors.New("ours had their lock before they were killed")
			}
			return on.early(t, "ours", began, granted, expiry)
		}
	}
	machine.Unhurried(t, time.Second, theirsDies(false))
	if on.told() {
		machine.Unhurried(t, time.Second, theirsDies(true))
	}
	machine.Unhurried(t, time.Second, func(unit time.Duration) error {
		began := time.Now()
		holder := startHolder(t, on, unit)
		on.them.Say(t, fmt.Sprint("acquire ", unit.Milliseconds()))
		if on.told() {
			backend.Eventually(t, "they wait", func() bool { return on.listening(t) >= 1 || len(on.them.Lines) > 0 })
		}
		holder.Kill()
		expiry := on.expiry(t)
		granted := on.them.answer(t, "granted")
		on.them.Say(t, "release")
		on.them.line(t, "released or refused", hanging) // it may be over
		return on.early(t, "they", began, granted, expiry)
	})
}

// waiting waits until our client is queued for the lock. It returns the lease if that was granted already.
func (on *table) waiting(t *testing.T, leases <-chan *holdfast.Lease) (early *holdfast.Lease) {
	l := on.lock(t)
	backend.Eventually(t, "ours waits", func() bool {
		select {
		case early = <-leases:
			return true
		default:
		}
		waiting, err := backend.Waiting(t.Context(), l)
		return err == nil && waiting == 1
	})
	return early
}

// expiry returns when the lock will be free unless it is renewed, or the present time if it is free.
func (on *table) expiry(t *testing.T) int64 {
	t.Helper()
	now := history.Now() // before the request: a machine may stall
	left := on.rdb.PTTL(t.Context(), key).Val()
	return now + max(left, 0).Nanoseconds()
}

// early judges when somebody got the lock of a holder that was killed.
func (on *table) early(t *testing.T, who string, began time.Time, granted, expiry int64) error {
	t.Helper()
	late := time.Duration(granted - expiry)
	if late < -5*time.Millisecond { // a server counts whole ms
		return fmt.Errorf("%s had the lock %s before it was over", who, -late)
	}
	if heldUp := machine.HeldUp(began); late > 10*time.Second+heldUp {
		return fmt.Errorf("%s had the lock %s after it was over; this process was held up for %s", who, late, heldUp)
	}
	return nil
}
