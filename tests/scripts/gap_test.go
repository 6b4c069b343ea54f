package scripts

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// In the gap after a chain of hand-overs nobody of ours gets the lock, whoever asks: those
// who are there when it begins, those who come, and those before whom the first leaves.
func TestGap(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, back *backend.Backend) {
		const gap = 10 * time.Millisecond
		for what, ask := range map[string]func(b bench) string{
			"the first looks": func(b bench) string {
				return b.run(script.Acquire, "lk", "B", 60000, 0, 1, info, claim, "channel-B", "")
			},
			"one tries": func(b bench) string { return b.run(script.Acquire, "tk", "C", 60000, 0, 1, info) },
			"one comes": func(b bench) string {
				return b.run(script.Acquire, "wk", "D", 60000, 0, 1, info, claim, "channel-B", "")
			},
			"the first leaves": func(b bench) string {
				b.run(script.Acquire, "wk", "D", 60000, 0, 1, info, claim, "channel-B", "")
				return b.run(script.Release, "k", "B", member("B"), 0)
			},
		} {
			// A machine that stalls can be too late for a gap.
			seen := false
			for n := 0; n < 100 && !seen; n++ {
				back.Redis(t).FlushAll(t.Context())
				b := newBench(t, back)
				b.listen("B")
				b.acquire("tk", "A")
				b.acquire("wk", "B")
				time.Sleep(55 * time.Millisecond) // longer than a chain
				began := timeOf(b.run(script.Release, "k", "A", "", 0))
				reply := ask(b)
				free := b.rdb.Exists(t.Context(), "{k}").Val() == 0
				if seen = b.later(0)-began < gap.Microseconds(); seen && !free {
					t.Errorf("%s: %q, and the gap is over", what, reply)
				}
			}
			if !seen {
				t.Errorf("%s: never in time", what)
			}
		}
	})
}

// timeOf returns the server's time in a reply.
func timeOf(reply string) int64 { return number(strings.Fields(reply)[1]) }

// After the gap the first gets the lock, and a gap that a clock has put far off is none.
func TestGapEnds(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, back *backend.Backend) {
		b := newBench(t, back)
		b.listen("B")
		b.acquire("tk", "A")
		b.acquire("wk", "B")
		time.Sleep(55 * time.Millisecond)
		b.eval(script.Release, "k", "A", "", 0)
		backend.Eventually(t, "the first gets the lock", func() bool { return strings.HasPrefix(b.acquire("lk", "B"), "granted") })
		b.expect("released T", b.release("B", "", 0))
		backend.Eventually(t, "the gap is forgotten", func() bool { return b.rdb.Exists(t.Context(), "{k}:q").Val() == 0 })

		// A queue that was gone, with all who waited, does not stay because of a gap.
		b.acquire("tk", "A")
		b.acquire("wk", "B")
		b.rdb.Del(t.Context(), "{k}:q")
		time.Sleep(55 * time.Millisecond)
		b.expect("released T", b.eval(script.Release, "k", "A", "", 0))
		backend.Eventually(t, "the gap is forgotten", func() bool { return b.rdb.Exists(t.Context(), "{k}:q").Val() == 0 })

		b.rdb.ZAdd(t.Context(), "{k}:q", redis.Z{Score: -float64(b.later(time.Hour)), Member: "gap"})
		b.expect("granted T P T 1", b.acquire("tk", "A"))
	})
}
