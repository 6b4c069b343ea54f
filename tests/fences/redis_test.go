package fences

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// by returns the stamp of an owner's lease.
func by(owner string, number uint64) fence.Stamp {
	return fence.Stamp{Lock: "ledger", Fence: number, Owner: owner}
}

// refused requires that err is the refusal of s because of this mark.
func refused(t *testing.T, err error, s fence.Stamp, mark fence.Mark) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) || stale.Stamp != s || stale.Mark != mark {
		t.Errorf("fence %d of %s is answered %v; want a refusal by %v", s.Fence, s.Owner, err, mark)
	}
}

// taken requires that a write was accepted.
func taken(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// eachRedis runs f on every kind of server, with a client that knows nothing of fences.
func eachRedis(t *testing.T, f func(t *testing.T, d drivertest.Driver, rdb redis.UniversalClient)) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		f(t, driverOf(t, b.Redis(t)), b.Redis(t))
	})
}

func driverOf(t *testing.T, rdb redis.UniversalClient) drivertest.Driver {
	d := drivertest.Of(holdfastgoredis.NewDriver(rdb))
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func get(t *testing.T, rdb redis.UniversalClient, key string) string {
	t.Helper()
	v, err := rdb.Get(t.Context(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return v
}

func TestRedisSet(t *testing.T) {
	eachRedis(t, func(t *testing.T, d drivertest.Driver, rdb redis.UniversalClient) {
		ctx := t.Context()
		r := fence.NewRedis(d, nil)
		taken(t, r.Set(ctx, by("a", 9), "total", "one", 0))
		taken(t, r.Set(ctx, by("a", 9), "total", "two", 0))
		refused(t, r.Set(ctx, by("b", 9), "total", "three", 0), by("b", 9), fence.Mark{Fence: 9, Owner: "a"})
		refused(t, r.Set(ctx, by("a", 8), "total", "three", 0), by("a", 8), fence.Mark{Fence: 9, Owner: "a"})
		expect.Equal(t, "the value", get(t, rdb, "total"), "two")
		// 10 is more than 9: compared as numbers, though kept as text.
		taken(t, r.Set(ctx, by("b c", 10), "total", "four\r\n\x00", time.Minute))
		refused(t, r.Set(ctx, by("a", 9), "total", "five", 0), by("a", 9), fence.Mark{Fence: 10, Owner: "b c"})
		if v, ttl := get(t, rdb, "total"), rdb.PTTL(ctx, "total").Val(); v != "four\r\n\x00" || ttl <= 0 || ttl > time.Minute {
			t.Errorf("the value is %q for %v", v, ttl)
		}
		mark, err := r.MarkKey("total")
		if v := get(t, rdb, mark); err != nil || v != "10 b c" || rdb.PTTL(ctx, mark).Val() != -1 {
			t.Errorf("the mark %q is %q, %v", mark, v, err)
		}
		// Beyond 2^53 floating-point numbers cannot tell these apart.
		taken(t, r.Raise(ctx, by("a", math.MaxInt64-1), "total"))
		taken(t, r.Raise(ctx, by("a", math.MaxInt64), "total"))
		refused(t, r.Raise(ctx, by("a", math.MaxInt64-1), "total"), by("a", math.MaxInt64-1), fence.Mark{Fence: math.MaxInt64, Owner: "a"})
		taken(t, r.Set(ctx, by("a", 1), "another", "x", 0))
	})
}

func TestRedisScripts(t *testing.T) {
	eachRedis(t, func(t *testing.T, d drivertest.Driver, rdb redis.UniversalClient) {
		ctx := t.Context()
		r := fence.NewRedis(d, nil)
		for source, want := range map[string]string{
			"return redis.call('INCRBY', KEYS[1], ARGV[1])": "3",
			"return redis.call('SET', KEYS[2], ARGV[2])":    "OK",
			"return #KEYS .. ' ' .. #ARGV":                  "2 2",
			"return KEYS[#KEYS] .. ARGV[#ARGV]":             "{n}:2two",
			"return 1763647200000001":                       "1763647200000001",
			"return true":                                   "1",
			"return false":                                  "",
			"return nil":                                    "",
			"return {1, 'two'}":                             `[1,"two"]`,
			"redis.call('DEL', KEYS[2]) -- the end":         "",
			"if #ARGV > 1 then return 'early' end\n":        "early",
		} {
			expect.Of(r.Run(ctx, fence.NewScript(source), by("a", 5), "{n}", []string{"{n}:1", "{n}:2"}, []string{"3", "two"})).Is(t, source, want)
		}
		count := fence.NewScript("return redis.call('INCR', KEYS[1])")
		before := get(t, rdb, "{n}:1")
		args := []string{"x", "y"}
		_, err := r.Run(ctx, count, by("b", 4), "{n}", []string{"{n}:1"}, args[:1])
		refused(t, err, by("b", 4), fence.Mark{Fence: 5, Owner: "a"})
		expect.Equal(t, "the caller's arguments were written to", args[1], "y")
		expect.Equal(t, "after a refused script the mark", get(t, rdb, "{n}:1"), before)
		var sent driver.ReplyError
		_, err = r.Run(ctx, fence.NewScript("return redis.error_reply('MINE by hand')"), by("a", 5), "{n}", nil, nil)
		if !errors.As(err, &sent) || !strings.Contains(string(sent), "MINE by hand") || errors.Is(err, fence.ErrStale) {
			t.Errorf("the script's own error is %v", err)
		}
	})
}

// The guard works with any client, whatever the script replies with.
func TestTheGuardStandsByItself(t *testing.T) {
	eachRedis(t, func(t *testing.T, d drivertest.Driver, rdb redis.UniversalClient) {
		ctx := t.Context()
		r := fence.NewRedis(d, nil)
		mark := expect.Of(r.MarkKey("list")).OK(t)
		push := redis.NewScript(fence.Lua + "return redis.call('RPUSH', KEYS[1], unpack(ARGV))")
		n, err := push.Run(ctx, rdb, []string{"list", mark}, "x", "y", 5, "a", "alone", 0).Int()
		if n != 2 || err != nil {
			t.Fatalf("RPUSH = %d, %v", n, err)
		}
		refused(t, r.Raise(ctx, by("b", 4), "list"), by("b", 4), fence.Mark{Fence: 5, Owner: "a"})
		taken(t, r.Raise(ctx, by("b", 6), "list"))
		if _, err := push.Run(ctx, rdb, []string{"list", mark}, "z", 5, "a", "alone", 0).Int(); err == nil || !strings.HasPrefix(err.Error(), "STALE 6 b") {
			t.Errorf("a late RPUSH: %v", err)
		}
		for _, tail := range [][]any{
			{}, {"x"}, {"7", "a", 0}, {"", "a", "alone", 0}, {"007", "a", "alone", 0}, {"-7", "a", "alone", 0}, {"7.5", "a", "alone", 0},
			{"7", "", "alone", 0}, {"7", "a", "", 0}, {"7", "a", "alone", "x"},
		} {
			if _, err := push.Run(ctx, rdb, []string{"list", mark}, tail...).Int(); err == nil || !strings.HasPrefix(err.Error(), "BADMARK") {
				t.Errorf("%q: %v", tail, err)
			}
		}
		expect.Equal(t, "the list's elements", rdb.LLen(ctx, "list").Val(), 2)
	})
}

func TestMarksLiveAsLongAsTheyAreWanted(t *testing.T) {
	eachRedis(t, func(t *testing.T, d drivertest.Driver, rdb redis.UniversalClient) {
		ctx := t.Context()
		forever := fence.NewRedis(d, nil)
		hour := fence.NewRedis(d, &fence.RedisConfig{MarkTTL: time.Hour})
		day := fence.NewRedis(d, &fence.RedisConfig{MarkTTL: 24 * time.Hour})
		key := expect.Of(hour.MarkKey("r")).OK(t)
		for i, step := range []struct {
			guard *fence.Redis
			want  time.Duration
		}{
			{hour, time.Hour}, {day, 24 * time.Hour}, {hour, 24 * time.Hour}, {forever, -1}, {hour, -1},
		} {
			taken(t, step.guard.Raise(ctx, by("a", uint64(i+1)), "r"))
			got := rdb.PTTL(ctx, key).Val()
			if step.want < 0 && got >= 0 || step.want > 0 && (got <= step.want-time.Minute || got > step.want) {
				t.Errorf("step %d: the mark lives %v; want %v", i, got, step.want)
			}
		}
		other := fence.NewRedis(d, &fence.RedisConfig{Prefix: "other:"})
		taken(t, other.Raise(ctx, by("a", 1), "r"))
	})
}

func TestWhatIsNoMarkIsRefused(t *testing.T) {
	eachRedis(t, func(t *testing.T, d drivertest.Driver, rdb redis.UniversalClient) {
		ctx := t.Context()
		r := fence.NewRedis(d, nil)
		key := expect.Of(r.MarkKey("r")).OK(t)
		for _, text := range []string{"", "1", "1 ", "0 a", "01 a", "-1 a", " 1 a", "x a", "1\ta", "99999999999999999999 a"} {
			rdb.Set(ctx, key, text, 0)
			expect.Err(t, fmt.Sprintf("with the mark %q", text), r.Set(ctx, by("a", 5), "r", "x", 0), fence.ErrBadMark)
			expect.Equal(t, "the mark", get(t, rdb, key), text)
		}
		rdb.Del(ctx, key)
		rdb.RPush(ctx, key, "x")
		var sent driver.ReplyError
		if err := r.Set(ctx, by("a", 5), "r", "x", 0); !errors.As(err, &sent) || !strings.Contains(string(sent), "WRONGTYPE") {
			t.Errorf("with a list as mark: %v", err)
		}
		expect.Equal(t, "written nevertheless", get(t, rdb, "r"), "")
	})
}

func TestFencesInACluster(t *testing.T) {
	t.Parallel()
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel() // its nodes take a while to meet
			nodes := server.StartCluster(t, bin, 3)
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}})
			t.Cleanup(func() { _ = rdb.Close() })
			ctx := t.Context()
			r := fence.NewRedis(driverOf(t, rdb), nil)
			count := fence.NewScript("return redis.call('INCR', KEYS[1])")
			for i := range 10 { // on all nodes
				for _, key := range []string{fmt.Sprint("total:", i), fmt.Sprintf("{total:%d}:x", i)} {
					taken(t, r.Set(ctx, by("a", 5), key, "1", 0))
					taken(t, r.Raise(ctx, by("b", 6), key))
					refused(t, r.Set(ctx, by("a", 5), key, "late", 0), by("a", 5), fence.Mark{Fence: 6, Owner: "b"})
					expect.Of(r.Run(ctx, count, by("b", 6), key, []string{key}, nil)).Is(t, "Run", "2")
				}
			}
		})
	}
}
