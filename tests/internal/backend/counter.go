package backend

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// SetCounter makes a fence counter whose last fence is this one.
func SetCounter(tb testing.TB, rdb redis.Cmdable, key string, fence int64) {
	tb.Helper()
	ctx := context.Background()
	rdb.Del(ctx, key)
	if err := rdb.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: IDOf(fence), Values: []string{"g", ""}}).Err(); err != nil {
		tb.Fatal(err)
	}
}

// IDOf returns the id of a fence in its counter.
func IDOf(fence int64) string { return fmt.Sprintf("%d-%d", fence/1000, fence%1000) }

// LastFence returns the last fence of a counter; 0 if there is none.
func LastFence(tb testing.TB, rdb redis.Cmdable, key string) int64 {
	tb.Helper()
	ctx := context.Background()
	var id string
	entries, err := rdb.XRevRangeN(ctx, key, "+", "-", 1).Result()
	if len(entries) > 0 {
		id = entries[0].ID
	} else if err == nil && rdb.Exists(ctx, key).Val() == 1 {
		id = rdb.XInfoStream(ctx, key).Val().LastGeneratedID
	}
	if id == "" {
		return 0
	}
	ms, seq, _ := strings.Cut(id, "-")
	fence, _ := strconv.ParseInt(ms, 10, 64)
	more, _ := strconv.ParseInt(seq, 10, 64)
	return fence*1000 + more
}
