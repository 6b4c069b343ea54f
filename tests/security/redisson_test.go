package security

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// docs/SECURITY.md says what a locker needs besides for Redisson's locks. Without the channel nobody is told of
// releases, and nothing else changes. If a permission is missing in the middle of a script, no lock without a
// holder is left behind.
func TestRedissonsLocksUnderAnACL(t *testing.T) {
	everySite(t, func(t *testing.T, s site) {
		locker := append(s.role(t, "locker").texts(), "~orders")
		told := append(slices.Clone(locker), "&redisson_lock__channel:*")
		for name, rules := range map[string][]string{"deaf": locker, "told": told} {
			s.user(t, name, rules)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			lock := func() *holdfast.Lock { return s.client(t, name).RedissonMutex("orders") }
			lease, err := lock().Acquire(ctx)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			j := job{site: s, t: t, name: name}
			seen := s.client(t, "").RedissonMutex("orders")
			waiting := j.queue(ctx, seen, lock())
			expect.Err(t, name+": Release", lease.Release(ctx), nil)
			expect.Err(t, name+": a waiter", result(waiting), nil)

			operator := s.redis(t, "")
			operator.HSet(ctx, "orders", "b7a1c8e0-3f5a-4a44-8b90-1d3f6f0b7c11:1", 1)
			operator.PExpire(ctx, "orders", time.Minute)
			waiting = j.queue(ctx, seen, lock())
			operator.Del(ctx, "orders")
			expect.Err(t, name+": a waiter behind a client of Redisson's", result(waiting), nil)
		}
		for _, missing := range []string{"hget", "hset", "pexpire", "exists"} {
			s.user(t, "no-"+missing, append(slices.Clone(told), "-"+missing))
			_, err := s.client(t, "no-"+missing).RedissonMutex("orders").TryAcquire(t.Context())
			expect.Err(t, "without "+missing, err, holdfast.ErrDenied)
			expect.Equal(t, "keys that are left without "+missing, s.redis(t, "").Exists(t.Context(), "orders").Val(), 0)
		}
	})
}
