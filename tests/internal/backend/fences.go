package backend

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Resource is what a lock protects. It accepts a write only if its fence is not below the highest that it has
// seen.
type Resource struct {
	mu    sync.Mutex
	mark  uint64
	stale int
}

// Write reports whether the write is accepted. It is refused after a later holder's write.
func (r *Resource) Write(fence uint64) (ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fence < r.mark {
		r.stale++
		return false
	}
	r.mark = fence
	return true
}

// Stale returns how many writes the resource has refused.
func (r *Resource) Stale() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stale
}

// Succeed makes the next holder of a lock write, and then the holder before it, which is late: only the next
// one's write may be accepted. Succeed reports whether both believed that they held the lock.
func (r *Resource) Succeed(tb testing.TB, before, next *holdfast.Lease) (overlap bool) {
	tb.Helper()
	overlap = before.Err() == nil && next.Err() == nil
	expect.Rises(tb, before.Fence(), next.Fence())
	if !r.Write(next.Fence()) {
		tb.Errorf("the resource refuses the holder with fence %d", next.Fence())
	}
	expect.Equal(tb, "the resource takes a write with a fence before the last", r.Write(before.Fence()), false)
	return overlap
}

// SetCounter makes a fence counter whose last fence is this one.
func SetCounter(tb testing.TB, rdb redis.Cmdable, key string, fence int64) {
	tb.Helper()
	ctx := context.Background()
	rdb.Del(ctx, key)
	expect.OK(tb, rdb.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: IDOf(fence), Values: []string{"g", ""}}).Err())
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
