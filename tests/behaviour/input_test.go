package behaviour

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// unreachable is a client whose server cannot be reached: what it refuses, it
// refuses before any I/O.
func unreachable(t testing.TB) *holdfast.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := holdfastgoredis.New(rdb, nil)
	if err != nil {
		t.Fatal(err)
	}
	backend.CloseWith(t, c)
	return c
}

func TestBadInputIsRefusedBeforeIO(t *testing.T) {
	c := unreachable(t)
	long := strings.Repeat("x", 2000)
	for what, l := range map[string]*holdfast.Lock{
		"an empty name":              c.Mutex(""),
		"a megabyte name":            c.Mutex(strings.Repeat("x", 1<<20)),
		"a newline":                  c.Mutex("a\nb"),
		"invalid UTF-8":              c.Mutex("a\xff"),
		"a closing brace first":      c.Mutex("}a"),
		"an empty key":               c.Mutex("a", holdfast.Key("")),
		"a key with odd braces":      c.Mutex("a", holdfast.Key("a}b")),
		"Redisson without a name":    c.Mutex("a", holdfast.Redisson("")),
		"a name with a brace":        c.Mutex("a", holdfast.Redisson("a{b")),
		"a name with odd braces":     c.Mutex("a", holdfast.Redisson("a}b")),
		"Redisson's semaphore":       c.Semaphore("a", 5, holdfast.Redisson("a")).Lock,
		"Redisson's reader":          c.RWMutex("a", holdfast.Redisson("a")).Reader(),
		"several of Redisson's":      c.Multi([]string{"a", "b"}, holdfast.Redisson("a")),
		"a TTL of 0":                 c.Mutex("a", holdfast.TTL(0)),
		"a negative TTL":             c.Mutex("a", holdfast.TTL(-time.Second)),
		"a TTL that drift uses up":   c.Mutex("a", holdfast.TTL(2*time.Millisecond)),
		"a TTL below 1ms":            c.Mutex("a", holdfast.TTL(time.Millisecond-1)),
		"a TTL beyond MaxTTL":        c.Mutex("a", holdfast.TTL(25*time.Hour)),
		"the longest TTL":            c.Mutex("a", holdfast.TTL(math.MaxInt64)),
		"MaxHold of 0":               c.Mutex("a", holdfast.MaxHold(0)),
		"an empty owner":             c.Mutex("a", holdfast.Owner("")),
		"long meta":                  c.Mutex("a", holdfast.Meta("k", long)),
		"a polling interval of 0":    c.Mutex("a", holdfast.Poll(0, 3)),
		"a negative number of tries": c.Mutex("a", holdfast.Poll(time.Second, -1)),
		"a reentrant semaphore":      c.Semaphore("a", 5, holdfast.Reentrant(true)).Lock,
		"a depth of 0":               c.Mutex("a", holdfast.Reentrant(true), holdfast.MaxDepth(0)),
		"a depth without need":       c.Mutex("a", holdfast.MaxDepth(3)),
		"an owner with a newline":    c.Mutex("a", holdfast.Reentrant(true), holdfast.Owner("a\nb")),
		"a long owner":               c.Mutex("a", holdfast.Reentrant(true), holdfast.Owner(long[:513])),
		"an owner's exact key":       c.Mutex("a", holdfast.Reentrant(true), holdfast.Owner("me"), holdfast.Key("a")),
		"an owner's weight":          c.Mutex("a", holdfast.Reentrant(true), holdfast.Owner("me"), holdfast.Weight(1)),
		"a mutex with a weight":      c.Mutex("a", holdfast.Weight(1)),
		"a semaphore of 0":           c.Semaphore("a", 0).Lock,
		"a semaphore of -1":          c.Semaphore("a", -1).Lock,
		"a semaphore of a million 1": c.Semaphore("a", 1_000_001).Lock,
		"a weight of 0":              c.Semaphore("a", 5, holdfast.Weight(0)).Lock,
		"a negative weight":          c.Semaphore("a", 5, holdfast.Weight(-3)).Lock,
		"a weight above all permits": c.Semaphore("a", 5, holdfast.Weight(1_000_001)).Lock,
		"a semaphore's exact key":    c.Semaphore("a", 5, holdfast.Key("a")).Lock,
		"a reader with a weight":     c.RWMutex("a", holdfast.Weight(2)).Reader(),
		"a writer with a weight":     c.RWMutex("a").Writer(holdfast.Weight(2)),
		"a writer of a reader's":     c.RWMutex("a").Writer(holdfast.Weight(1)),
		"a reader of a writer's":     c.RWMutex("a").Reader(holdfast.Weight(1_000_000_000)),
		"a reader's exact key":       c.RWMutex("a").Reader(holdfast.Key("a")),
		"a reader with a TTL of 0":   c.RWMutex("a").Reader(holdfast.TTL(0)),
	} {
		_, err := l.TryAcquire(t.Context())
		_, err2 := l.Acquire(t.Context())
		_, err3 := l.Holder(t.Context())
		err4 := l.Do(t.Context(), func(context.Context, *holdfast.Lease) error { return nil })
		for _, err := range []error{err, err2, err3, err4} {
			if !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			} else if len(err.Error()) > 1500 {
				t.Errorf("%s: the error is %d bytes long", what, len(err.Error()))
			}
		}
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	d := drivertest.Of(holdfastgoredis.NewDriver(redis.NewClient(&redis.Options{})))
	for what, cfg := range map[string]holdfast.Config{
		"a prefix with a brace": {Prefix: "a{b}"},
		"a negative TTL":        {TTL: -1},
		"a TTL beyond MaxTTL":   {TTL: time.Hour, MaxTTL: time.Minute},
		"an absurd MaxTTL":      {MaxTTL: math.MaxInt64},
		"a tiny timeout":        {CommandTimeout: 1},
		"an absurd timeout":     {CommandTimeout: math.MaxInt64},
		"tries without end":     {RetryTimeout: math.MaxInt64},
	} {
		if _, err := holdfast.New(d, &cfg); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var none *redis.Client
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	if _, err := holdfast.New(nil, nil); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("no driver: %v", err)
	}
	for what, rdb := range map[string]redis.UniversalClient{"no client": nil, "a nil client": none, "a Ring": ring} {
		_, err := holdfastgoredis.New(rdb, nil)
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
		if what == "a Ring" && !strings.Contains(err.Error(), "Ring") {
			t.Errorf("a Ring is refused without a reason: %v", err)
		}
	}
}

func TestEndedContextsAreRefusedBeforeIO(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := unreachable(t).Mutex("a")
	if _, err := l.Acquire(ctx); err != context.Canceled {
		t.Errorf("Acquire: %v", err)
	}
	if _, err := l.TryAcquire(ctx); err != context.Canceled {
		t.Errorf("TryAcquire: %v", err)
	}
	if _, err := l.Holder(ctx); err != context.Canceled {
		t.Errorf("Holder: %v", err)
	}
}

func TestOddNamesAreFine(t *testing.T) {
	t.Parallel()
	backend.EachUndisturbed(t, func(t testing.TB, b *backend.Backend) {
		c := b.Client(t, nil)
		for _, name := range []string{"a b", "a{b}c", "{", "日本", "a:b", `"quoted"`, "%s", strings.Repeat("x", 512)} {
			lease := backend.Acquire(t, c.Mutex(name))
			leases := queue(t, b.Client(t, nil).Mutex(name), 1)
			backend.Release(t, lease)
			backend.Release(t, backend.Receive(t, leases))
		}
		if keys := b.Keys(t); len(keys) != 0 {
			t.Errorf("keys left behind: %q", keys)
		}
	})
}
