package behaviour

import (
	"context"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

func listed(t *testing.T, in *inspect.Inspector, pattern string) map[string]holdfast.Status {
	t.Helper()
	all := map[string]holdfast.Status{}
	for s, err := range in.List(t.Context(), pattern) {
		expect.OK(t, err)
		if _, twice := all[s.Name]; twice {
			t.Errorf("%q is listed twice", s.Name)
		}
		all[s.Name] = s
	}
	return all
}

// A lock of every kind is listed, held or only waited for, and as it is when its own kind is asked for.
func TestInspectorListsLocksOfEveryKind(t *testing.T) {
	const hour = time.Hour
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		ctx, cancel := context.WithCancel(t.Context())
		c, other := b.Client(t, &holdfast.Config{Identity: "holder"}), b.Client(t, &holdfast.Config{Identity: "waiter"})
		var leases []*holdfast.Lease
		var waiting []chan error
		seen := map[string]backend.Locked{}
		hold := func(l *holdfast.Lock) {
			leases = append(leases, backend.Acquire(t, l))
			seen[l.Name()] = l
		}
		wait := func(l *holdfast.Lock) {
			over := make(chan error, 1)
			waiting = append(waiting, over)
			go func() {
				_, err := l.Acquire(ctx)
				over <- err
			}()
			backend.Eventually(t, l.Name()+" is waited for", func() bool {
				s, err := l.Status(ctx)
				return err == nil && s.Waiting == 1
			})
		}
		hold(c.Mutex("held", holdfast.TTL(hour), holdfast.Meta("note", "x")))
		hold(c.Mutex("a b/{c}:q", holdfast.TTL(hour)))
		hold(c.Mutex("waited", holdfast.TTL(hour)))
		wait(other.Mutex("waited", holdfast.TTL(hour)))
		hold(c.MutexKey("{order}:1", holdfast.TTL(hour)))
		wait(other.MutexKey("{order}:1", holdfast.TTL(hour)))
		hold(c.RedissonMutex("java", holdfast.TTL(hour)))
		wait(other.RedissonMutex("java", holdfast.TTL(hour)))
		rw, rw2 := c.RWMutex("rw", holdfast.TTL(hour)), other.RWMutex("rw", holdfast.TTL(hour))
		hold(rw.Reader())
		hold(rw2.Reader())
		wait(rw2.Writer())
		hold(c.Semaphore("permits", 5, holdfast.TTL(hour)).Permits(3))
		wait(other.Semaphore("permits", 5, holdfast.TTL(hour)).Permits(4))
		hold(c.OwnerMutex("own", "holder", holdfast.TTL(hour)))
		wait(other.OwnerMutex("own", "waiter", holdfast.TTL(hour)))
		party := expect.Of(barrier.New(c, "barrier", 1, holdfast.TTL(hour)).Join(ctx)).OK(t)
		seen["barrier"] = barrier.New(c, "barrier", 1)
		leases = append(leases, party.Lease())
		expect.OK(t, c.Semaphore("sized", 4).Resize(ctx, 7))
		seen["sized"] = c.Semaphore("sized", 7)
		expect.OK(t, latch.New(c, "latch", 3).CountDown(ctx))
		seen["latch"] = latch.New(c, "latch", 3)
		expect.OK(t, latch.New(c, "open", 1).CountDown(ctx))
		backend.Release(t, backend.Acquire(t, c.Mutex("free")))
		// Not ours, or no lock at all.
		rdb := b.Redis(t)
		for _, key := range []string{"holdfast:{theirs}", "elsewhere:{held}", "holdfast:mark:held", "plain"} {
			rdb.Set(ctx, key, "theirs", hour)
		}
		seen["theirs"] = c.Mutex("theirs")
		rdb.ZAdd(ctx, "holdfast:{abandoned}:rw", redis.Z{Score: 17, Member: "token\n1\nnowhere\n1\n{\"o\":\"dead\"}"})
		seen["abandoned"] = c.RWMutex("abandoned").Reader()

		in := inspect.New(b.Client(t, nil))
		var all map[string]holdfast.Status
		backend.Eventually(t, "the server has been told all fences", func() bool {
			all = listed(t, in, "")
			for _, s := range all {
				if h, held := s.Holder(); held && h.Fence == 0 && !h.Foreign {
					return false
				}
			}
			return true
		})
		expect.Same(t, "listed", slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(seen)))
		for name, l := range seen {
			want := expect.Of(l.Status(ctx)).OK(t)
			got, err := in.Get(ctx, name)
			expect.Err(t, "Get of "+name, err, nil)
			for how, s := range map[string]holdfast.Status{"listed": all[name], "got": got} {
				if !alike(s, want) {
					t.Errorf("%s is %s as %+v, want %+v", name, how, s, want)
				}
			}
		}
		for _, pattern := range []string{"w*", "a b/*", "*", "{order}:?", "lat[^x]h", "held", `h\eld`, "{*", "nothing"} {
			var want []string
			for name := range seen {
				if matches, err := path.Match(pattern, name); matches && err == nil {
					want = append(want, name)
				}
			}
			slices.Sort(want)
			expect.Same(t, "List of "+pattern, slices.Sorted(maps.Keys(listed(t, in, pattern))), want)
		}
		for _, name := range []string{"free", "unheard of"} {
			if s, err := in.Get(ctx, name); err != nil || s.Held() || s.Kind != "" || s.Name != name {
				t.Errorf("Get of a free lock: %+v, %v", s, err)
			}
		}
		if s, err := in.Get(ctx, "open"); err != nil || s.Kind != holdfast.KindLatch || s.Count != 0 || s.Limit != 1 {
			t.Errorf("Get of an open latch: %+v, %v", s, err)
		}
		cancel()
		for _, over := range waiting {
			<-over
		}
		for _, l := range leases {
			backend.Release(t, l)
		}
	})
}

// A pattern that is a name finds the lock of that name and the one with that exact key, which nobody has to wait for. A watch of
// it sees the same.
func TestAPatternThatIsANameFindsExactKeys(t *testing.T) {
	const hour = time.Hour
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c, other := b.Client(t, &holdfast.Config{Identity: "me"}), b.Client(t, &holdfast.Config{Prefix: "other:", Identity: "other"})
		in := inspect.New(b.Client(t, nil))
		// wants requires that a pattern lists locks, as "KIND KEY OWNER", in any order.
		wants := func(pattern string, want ...string) {
			t.Helper()
			var got, seen []string
			text := func(s holdfast.Status) string {
				h, _ := s.Holder()
				return strings.TrimSpace(fmt.Sprintf("%s %s %s", s.Kind, s.Key, h.Identity))
			}
			for s, err := range in.List(t.Context(), pattern) {
				expect.OK(t, err)
				got = append(got, text(s))
			}
			slices.Sort(got)
			expect.Same(t, "List of "+pattern, got, want)
			if len(want) == 0 {
				return
			}
			for e, err := range in.Watch(t.Context(), pattern) {
				expect.OK(t, err)
				if seen = append(seen, text(e.Status)); len(seen) == len(want) {
					break
				}
			}
			slices.Sort(seen)
			expect.Same(t, "a watch of "+pattern, seen, want)
		}
		wants("orders")
		orders := backend.Acquire(t, c.MutexKey("orders", holdfast.TTL(hour)))
		leases := []*holdfast.Lease{
			backend.Acquire(t, other.MutexKey("{order}:1*", holdfast.TTL(hour))), // asked for by clients of another prefix
			backend.Acquire(t, c.RedissonMutex("java", holdfast.TTL(hour))),
		}
		wants("orders", "mutex orders me")
		wants(`o\rders`, "mutex orders me")
		wants(`{order}:1\*`, "mutex {order}:1* other")
		wants("java", "redisson java me")
		wants("holdfast:{orders}")
		wants("order?")
		wants("java*")
		b.Redis(t).Set(t.Context(), "app", "theirs", hour)
		wants("app", "foreign app")

		// The lock of that name is another one. If it is free, it hides nothing.
		expect.OK(t, latch.New(c, "orders", 1).CountDown(t.Context()))
		wants("orders", "mutex orders me")
		b.Redis(t).Del(t.Context(), "holdfast:{orders}")
		leases = append(leases, backend.Acquire(t, c.Mutex("orders", holdfast.TTL(hour))))
		wants("orders", "mutex holdfast:{orders} me", "mutex orders me")
		backend.Release(t, orders)
		wants("orders", "mutex holdfast:{orders} me")
		for _, l := range leases {
			backend.Release(t, l)
		}
		wants("orders")
		for _, err := range in.List(t.Context(), "}") {
			expect.Err(t, "of a name that no lock has", err, holdfast.ErrInvalid)
		}
	})
}

// Of a lock with a long queue, its status names the first 1000 waiters, and a list the first 100, however it is found.
func TestTheFirstOfManyWaitersAreNamed(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		const waiters = 1100
		pipe := b.Redis(t).Pipeline()
		for i := range waiters {
			pipe.ZAdd(t.Context(), "holdfast:{long}:q", redis.Z{Score: float64(1700000000000000 + i), Member: fmt.Sprintf("token%d\n1\nnowhere\n{\"o\":\"w%d\"}", i, i)})
		}
		expect.OK(t, expect.ErrOf(pipe.Exec(t.Context())))
		c := b.Client(t, nil)
		named := func(how string, s holdfast.Status, want int) {
			t.Helper()
			if s.Waiting != waiters || len(s.Waiters) != want {
				t.Errorf("%s: %d wait, %d are named", how, s.Waiting, len(s.Waiters))
			}
			for i, w := range s.Waiters {
				if w.Identity != fmt.Sprint("w", i) || w.Mode != holdfast.ModeExclusive {
					t.Fatalf("%s: waiter %d is %+v", how, i, w)
				}
			}
		}
		s := expect.Of(c.Mutex("long").Status(t.Context())).OK(t)
		named("Status", s, 1000)
		for _, pattern := range []string{"long", "l*"} {
			named(pattern, listed(t, inspect.New(c), pattern)["long"], 100)
		}
	})
}

// alike reports whether two statuses are the same but for the time that has passed.
func alike(a, b holdfast.Status) bool {
	settle := func(s holdfast.Status) holdfast.Status {
		s.Time, s.Holders = time.Time{}, slices.Clone(s.Holders)
		for i := range s.Holders {
			if s.Holders[i].TTL > 0 {
				s.Holders[i].TTL = 0
			}
		}
		slices.SortFunc(s.Holders, func(a, b holdfast.Holder) int { return strings.Compare(a.Identity, b.Identity) })
		return s
	}
	return reflect.DeepEqual(settle(a), settle(b))
}

// A list can be left at any point, and ends with its context and its client.
func TestInspectorListEnds(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c, other := b.Client(t, nil), b.Client(t, nil)
		for i := range 5 {
			backend.Acquire(t, other.Mutex(strconv.Itoa(i)))
		}
		in, n := inspect.New(c), 0
		for range in.List(t.Context(), "") {
			if n++; n == 2 {
				break
			}
		}
		expect.Equal(t, "listed", n, 2)
		last := func(ctx context.Context) (err error) {
			for _, err = range in.List(ctx, "") {
			}
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		expect.Err(t, "with a context that is over", last(ctx), context.Canceled)
		expect.OK(t, c.Close(t.Context()))
		expect.Err(t, "of a client that is closed", last(t.Context()), holdfast.ErrClosed)
	})
}
