package behaviour

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Fault: Goroutines of clients give up, or lose their locks, and the clients are closed. No goroutine, key, channel
// or connection is left.
func TestNothingIsLeftBehind(t *testing.T) {
	inTurn := backend.EachInTurn
	if testing.Short() { // on real servers it waits for long, and nothing else can run meanwhile
		inTurn = func(t *testing.T, f func(t *testing.T, b *backend.Backend)) {
			t.Run("embedded", func(t *testing.T) { backend.Virtual(t, f) })
		}
	}
	inTurn(t, func(t *testing.T, b *backend.Backend) {
		observer := b.Redis(t, func(o *redis.Options) { o.PoolSize = 1 })
		observer.Ping(t.Context())
		var observing sync.Mutex // who waits for a connection uses a timer that go-redis shares with other bubbles
		// What starts once in a process, here or in go-redis, has started when goroutines are first counted.
		warm := b.Redis(t)
		c := expect.Of(holdfastgoredis.New(warm, nil)).OK(t)
		backend.Release(t, backend.Acquire(t, c.Mutex("first")))
		expect.OK(t, errors.Join(c.Close(t.Context()), warm.Close()))
		before := backend.Goroutines()
		t.Cleanup(func() {
			if backend.Goroutines() > before && t.Failed() {
				_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
			}
		})
		for range 3 {
			var rdbs []*redis.Client
			var clients []*holdfast.Client
			for range 3 {
				rdb := b.Redis(t)
				c, err := holdfastgoredis.New(rdb, &holdfast.Config{CommandTimeout: 4 * time.Second, RetryTimeout: 500 * time.Millisecond}) // tombstones last for 5.5 s
				expect.OK(t, err)
				rdbs, clients = append(rdbs, rdb), append(clients, c)
			}
			var wg sync.WaitGroup
			for g := range 60 {
				wg.Go(func() {
					dice := rand.New(rand.NewPCG(uint64(g), 0))
					for n := range 5 {
						l := clients[g%3].Mutex(fmt.Sprint("m", n%3), holdfast.TTL(time.Minute))
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(dice.Int64N(int64(15*time.Millisecond))))
						lease, err := l.Acquire(ctx)
						cancel()
						if err != nil {
							expect.Err(t, "the error", err, context.DeadlineExceeded)
							continue
						}
						if n == 4 {
							observing.Lock()
							observer.Del(t.Context(), "holdfast:{"+l.Name()+"}")
							observing.Unlock()
						}
						if err := lease.Release(t.Context()); err != nil && !errors.Is(err, holdfast.ErrLost) {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			for _, c := range clients {
				expect.Err(t, "Close", c.Close(t.Context()), nil)
			}
			for _, rdb := range rdbs {
				noError(t, rdb.Close())
			}
		}
		backend.Eventually(t, "the goroutines are gone", func() bool {
			return backend.Goroutines() <= before
		})
		backend.Eventually(t, "the keys are gone", func() bool { return len(b.Keys(t)) == 0 })
		expect.Same(t, "subscriptions left behind", observer.PubSubChannels(t.Context(), "*").Val(), nil)
	})
}

// givenUp makes a client wait for a held lock, and give up. It returns the token under which it waited, and its
// channel.
func givenUp(t testing.TB, b *backend.Backend, holder, waiter *holdfast.Lock, queue string) (token, channel string) {
	t.Helper()
	rdb := b.Redis(t)
	lease := backend.Acquire(t, holder)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = waiter.Acquire(ctx)
	}()
	backend.Eventually(t, "the waiter is queued", func() bool {
		members := rdb.ZRangeArgs(t.Context(), redis.ZRangeArgs{Key: queue, Start: "0", Stop: "+inf", ByScore: true}).Val()
		if len(members) != 1 {
			return false
		}
		fields := strings.Split(members[0], "\n")
		token, channel = fields[0], fields[2]
		return true
	})
	cancel()
	<-over
	backend.Eventually(t, "the waiter has left", func() bool {
		return rdb.ZCount(t.Context(), queue, "0", "+inf").Val() == 0
	})
	backend.Release(t, lease)
	return token, channel
}

// A client gives back a grant that reaches it after it has given up waiting. It does not give back a lock that
// it never waited for, whoever holds it.
func TestAGrantThatNobodyWantsIsGivenBack(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		rdb, c, other := b.Redis(t), b.Client(t, nil), b.Client(t, nil)
		token, channel := givenUp(t, b, other.Mutex("m"), c.Mutex("m"), "holdfast:{m}:q")
		for _, malformed := range []string{"", "hf2", "hf2 grant", "hf2 grant " + token + " x y z", "hf1 grant " + token + " 1 1 1 k", "hf2 standby " + token + " 1 2"} {
			rdb.Publish(t.Context(), channel, malformed)
		}
		theirs, ours := backend.Acquire(t, other.Mutex("theirs")), backend.Acquire(t, c.Mutex("ours"))
		value := func(token string) string { return `hf2:` + token + `:7:1:0:{"o":"x"}` }
		tokenOf := func(key string) string { return strings.Split(rdb.Get(t.Context(), key).Val(), ":")[1] }
		rdb.Set(t.Context(), "holdfast:{n}", value(token), time.Hour)
		rdb.Set(t.Context(), "holdfast:{made up}", value("stray"), time.Hour)
		never := []string{"holdfast:{n}", "holdfast:{made up}", "holdfast:{theirs}", "holdfast:{ours}"}
		rdb.Set(t.Context(), "holdfast:{m}", value(token), time.Hour)
		// The client ignores the grant while its own earlier release is unanswered, so the messages are
		// repeated.
		backend.Eventually(t, "the stray lock is released", func() bool {
			for _, key := range never {
				rdb.Publish(t.Context(), channel, "hf2 grant "+tokenOf(key)+" 1 3600000 7 "+key)
			}
			rdb.Publish(t.Context(), channel, "hf2 grant "+token+" 1 3600000 7 holdfast:{m}")
			return rdb.Exists(t.Context(), "holdfast:{m}").Val() == 0
		})
		for _, key := range never {
			expect.Equal(t, key+" exists", rdb.Exists(t.Context(), key).Val(), 1)
		}
		backend.Release(t, theirs)
		backend.Release(t, ours)

		token, channel = givenUp(t, b, other.RedissonMutex("orders"), c.RedissonMutex("orders"), "holdfast:{orders}:key:redisson")
		rdb.HSet(t.Context(), "orders", token+":1", 1, "holdfast", value(token))
		backend.Eventually(t, "the stray lock of Redisson's form is released", func() bool {
			rdb.Publish(t.Context(), channel, "hf2 redisson "+token+" 1 3600000 7 orders")
			return rdb.Exists(t.Context(), "orders").Val() == 0
		})
	})
}

// A waiter that is told of a grant with an impossible fence asks the server, and goes on waiting.
func TestAForgedFenceIsNotBelieved(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		rdb := b.Redis(t)
		held := backend.Acquire(t, b.Client(t, nil).Mutex("m"))
		waiter := backend.Start(t, b.Client(t, nil).Mutex("m"))
		var member string
		backend.Eventually(t, "the waiter is queued", func() bool {
			members := rdb.ZRangeArgs(t.Context(), redis.ZRangeArgs{Key: "holdfast:{m}:q", Start: "0", Stop: "+inf", ByScore: true}).Val()
			if len(members) == 1 {
				member = members[0]
			}
			return member != ""
		})
		token, channel := strings.Split(member, "\n")[0], strings.Split(member, "\n")[2]
		now := rdb.Time(t.Context()).Val().UnixMicro()
		for _, fence := range []int64{1<<63 - 1, 8_999_999_999_999_000, now + time.Minute.Microseconds(), 1} {
			rdb.Publish(t.Context(), channel, fmt.Sprintf("hf2 grant %s %d 1500 %d holdfast:{m}", token, now, fence))
		}
		// A later message still finds it waiting.
		rdb.Publish(t.Context(), channel, "hf2 standby "+token+fmt.Sprintf(" %d %d", now, now))
		backend.Release(t, held)
		lease := <-waiter
		expect.Between(t, "the fence", int64(lease.Fence()), now, now+time.Minute.Microseconds())
		backend.Release(t, lease)
	})
}

// While another process waits, a lock is passed on within a process only a bounded number of times.
func TestLocalHandoversAreFewWhileOthersWait(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		const limit = 4
		ours, theirs := b.Client(t, &holdfast.Config{MaxLocalHandovers: limit}), b.Client(t, nil)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		var mu sync.Mutex
		inARow, longest, turns := 0, 0, 0
		done := make(chan struct{})
		finish := sync.OnceFunc(func() { close(done) })
		// turn holds the lock. Meanwhile it waits until both processes are in the queue, so that the next
		// holder knows of the other process.
		turn := func(c *holdfast.Client, queued int) bool {
			lease, err := c.Mutex("m").Acquire(ctx)
			if err != nil {
				return false
			}
			backend.Eventually(t, "the other process queues", func() bool {
				waiting, err := backend.Waiting(context.Background(), c.Mutex("m"))
				return err != nil || waiting >= queued || ctx.Err() != nil
			})
			mu.Lock()
			if c == ours {
				inARow++
				longest = max(longest, inARow)
				if turns++; turns >= 200 && longest > 1 || turns >= 2000 { // the scheduler decides how many of ours wait at a time
					finish()
				}
			} else {
				inARow = 0
			}
			mu.Unlock()
			backend.Release(t, lease)
			return true
		}
		for range 3 {
			wg.Go(func() {
				for turn(theirs, 2) {
				}
			})
		}
		backend.Eventually(t, "they have the lock first", func() bool {
			held, err := backend.IsHeld(ctx, theirs.Mutex("m"))
			return held && err == nil
		})
		for range 16 {
			wg.Go(func() {
				for turn(ours, 1) {
				}
			})
		}
		<-done
		mu.Lock()
		defer mu.Unlock()
		expect.Between(t, "leases in a row", longest, 2, 1+limit)
	})
}
