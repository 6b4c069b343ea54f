// Package compatibility tests that the library shares locks with clients that were recorded: see the README.
package compatibility

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/tests/compatibility/hf1"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

func TestMain(m *testing.M) {
	backend.AtOnce(8)
	os.Exit(m.Run())
}

// site is a server and how both sides lock there.
type site struct {
	*backend.Backend
	prefix string // the default if it is empty
	strict bool
}

// each runs f on the embedded server, in virtual time, and, without -short, on every real server. An attempt in which
// the machine stood still is repeated: the claim of a lock that was handed to the library may have ended.
func each(t *testing.T, f func(t testing.TB, s site)) {
	t.Helper()
	t.Parallel()
	if !testing.Short() {
		backend.EachUndisturbed(t, func(t testing.TB, b *backend.Backend) { f(t, site{Backend: b}) })
		return
	}
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		virtually(t, f)
	})
}

// virtually runs f on the embedded server, in virtual time.
func virtually(t *testing.T, f func(t testing.TB, s site)) {
	t.Helper()
	backend.Virtual(t, func(t *testing.T, b *backend.Backend) { f(t, site{Backend: b}) })
}

// recorded starts a recorded client in another process. Its owner is "old".
func recorded(tb testing.TB, s site, options ...hf1.Options) *hf1.Client {
	tb.Helper()
	var o hf1.Options
	for _, given := range options {
		o = given
	}
	o.Prefix = cmp.Or(o.Prefix, s.prefix)
	if s.strict {
		o.Quarantine = fmt.Sprintf("%d+13000", longest.Milliseconds())
	}
	return hf1.New(tb, s.Redis(tb, sendOnce), o)
}

// cleaned waits until the server has no keys but fence counters and the marks of Strict mode.
func (s site) cleaned(tb testing.TB) {
	tb.Helper()
	rdb := s.Redis(tb)
	backend.Eventually(tb, "the keys are gone", func() bool {
		left := slices.DeleteFunc(rdb.Keys(tb.Context(), "*").Val(), func(key string) bool {
			return slices.ContainsFunc([]string{":fence", ":f", ":incarnation", ":caughtup"}, func(end string) bool { return strings.HasSuffix(key, end) })
		})
		return len(left) == 0
	})
}

// sendOnce makes a go-redis client send each request once.
func sendOnce(o *redis.Options) { o.MaxRetries = -1 }

// receive receives from a channel. It fails the test after 20 s, before a waiter that missed its message would look by
// itself.
func receive[T any](tb testing.TB, what string, from <-chan T) (v T) {
	tb.Helper()
	select {
	case v = <-from:
	case <-time.After(20 * time.Second):
		tb.Fatalf("%s: nothing comes", what)
	}
	return v
}

// rising fails the test if fences do not rise.
func rising(tb testing.TB, fences ...int64) {
	tb.Helper()
	for i := 1; i < len(fences); i++ {
		if fences[i] <= fences[i-1] {
			tb.Errorf("fence %d follows %d: %d", fences[i], fences[i-1], fences)
		}
	}
}

// same fails the test if got is not want.
func same[T comparable](tb testing.TB, what string, got, want T) {
	tb.Helper()
	if got != want {
		tb.Errorf("%s: %v; want %v", what, got, want)
	}
}

// isOld fails the test if the library names another holder than that attempt of the recorded client.
func isOld(tb testing.TB, h holder, a *hf1.Attempt) {
	tb.Helper()
	same(tb, "the holder's fence", h.fence, a.Fence)
	h.fence, h.ttl, h.mode, h.permits = 0, 0, "", 0
	same(tb, "the holder", h, holder{owner: "old", host: "host:1", pid: 4711, note: "a:b+"})
}

// isNew fails the test if a value is not one of the library, with that fence.
func isNew(tb testing.TB, v hf1.Value, fence int64) {
	tb.Helper()
	same(tb, "the holder's fence", v.Fence, fence)
	same(tb, "the holder's process", v.Info.PID, os.Getpid())
}

// free fails the test if the lock's key has a holder.
func free(tb testing.TB, l *hf1.Lock) {
	tb.Helper()
	if stored := l.Stored(); len(stored) != 0 {
		tb.Errorf("%s is held: %+v", l.Key(), stored)
	}
}
