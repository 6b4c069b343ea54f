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

// unreachable returns a client whose server cannot be reached, to show that it refuses invalid input before any
// I/O.
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

// Fault: Absurd TTLs, names and keys. ErrInvalid, before anything is sent.
func TestBadInputIsRefusedBeforeIO(t *testing.T) {
	c := unreachable(t)
	long := strings.Repeat("x", 2000)
	for what, l := range map[string]*holdfast.Lock{
		"an empty name":              c.Mutex(""),
		"a megabyte name":            c.Mutex(strings.Repeat("x", 1<<20)),
		"a newline":                  c.Mutex("a\nb"),
		"invalid UTF-8":              c.Mutex("a\xff"),
		"a closing brace first":      c.Mutex("}a"),
		"an empty key":               c.MutexKey(""),
		"a key with odd braces":      c.MutexKey("a}b"),
		"Redisson without a name":    c.RedissonMutex(""),
		"a name with a brace":        c.RedissonMutex("a{b"),
		"a name with odd braces":     c.RedissonMutex("a}b"),
		"a TTL of 0":                 c.Mutex("a", holdfast.TTL(0)),
		"a negative TTL":             c.Mutex("a", holdfast.TTL(-time.Second)),
		"a TTL that drift uses up":   c.Mutex("a", holdfast.TTL(2*time.Millisecond)),
		"no option":                  c.Mutex("a", nil),
		"no option among options":    c.Mutex("a", holdfast.Options(nil)),
		"a TTL below 1ms":            c.Mutex("a", holdfast.TTL(time.Millisecond-1)),
		"a TTL beyond MaxTTL":        c.Mutex("a", holdfast.TTL(25*time.Hour)),
		"the longest TTL":            c.Mutex("a", holdfast.TTL(math.MaxInt64)),
		"MaxHold of 0":               c.Mutex("a", holdfast.MaxHold(0)),
		"MaxRenewals of 0":           c.Mutex("a", holdfast.MaxRenewals(0)),
		"negative MaxRenewals":       c.Mutex("a", holdfast.MaxRenewals(-1)),
		"an empty owner":             c.Mutex("a", holdfast.Owner("")),
		"long meta":                  c.Mutex("a", holdfast.Meta("k", long)),
		"a polling interval of 0":    c.Mutex("a", holdfast.Poll(0)),
		"a negative interval":        c.Mutex("a", holdfast.Poll(-time.Second)),
		"a negative Wait":            c.Mutex("a", holdfast.Wait(-1)),
		"a depth of 0":               c.Mutex("a", holdfast.Reentrant(), holdfast.MaxDepth(0)),
		"a depth without need":       c.Mutex("a", holdfast.MaxDepth(3)),
		"an owner with a newline":    c.OwnerMutex("a", "a\nb"),
		"a long owner":               c.OwnerMutex("a", long[:513]),
		"no owner":                   c.OwnerMutex("a", ""),
		"an owner with another name": c.OwnerMutex("a", "me", holdfast.Owner("you")),
		"a semaphore of 0":           c.Semaphore("a", 0).Permits(1),
		"a semaphore of -1":          c.Semaphore("a", -1).Permits(1),
		"a semaphore of a million 1": c.Semaphore("a", 1_000_001).Permits(1),
		"a weight of 0":              c.Semaphore("a", 5).Permits(0),
		"a negative weight":          c.Semaphore("a", 5).Permits(-3),
		"a weight above all permits": c.Semaphore("a", 5).Permits(1_000_001),
		"a reader with a TTL of 0":   c.RWMutex("a").Reader(holdfast.TTL(0)),
	} {
		_, err := l.TryAcquire(t.Context())
		_, err2 := l.Acquire(t.Context())
		_, err3 := backend.HolderOf(t.Context(), l)
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

// Fault: An absurd Config. ErrInvalid, before anything is sent.
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
		"less than no replicas": {MinReplicas: -1},
		"a hasty confirmation":  {MinReplicas: 1, ReplicaTimeout: 1},
		"a long confirmation":   {MinReplicas: 1, ReplicaTimeout: time.Hour},
		"a hasty poller":        {PollInterval: 1},
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
	if _, err := backend.HolderOf(ctx, l); err != context.Canceled {
		t.Errorf("Holder: %v", err)
	}
}

func TestOddNamesAreFine(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
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
