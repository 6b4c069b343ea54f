package scripts

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// In the gap after a chain of hand-overs none of our clients gets the lock: neither those that wait when it
// begins, nor those that come, nor those whose predecessor leaves.
func TestGap(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		const gap = 10 * time.Millisecond
		comes := []any{"wk", "D", 60000, 0, 1, info, claim, "channel-B", ""}
		for what, asks := range map[string][]call{
			"the first looks":  {{script.Acquire(), []any{"lk", "B", 60000, 0, 1, info, claim, "channel-B", ""}}},
			"one tries":        {{script.Acquire(), []any{"tk", "C", 60000, 0, 1, info}}},
			"one comes":        {{script.Acquire(), comes}},
			"the first leaves": {{script.Acquire(), comes}, {script.Release(), []any{"k", "B", member("B"), 0}}},
		} {
			// If the machine stalls, the test may be too late for a gap.
			seen := false
			for n := 0; n < 100 && !seen; n++ {
				b.rdb.FlushAll(t.Context())
				b := newBench(t, b.back)
				b.listen("B")
				b.acquire("tk", "A")
				b.acquire("wk", "B")
				time.Sleep(55 * time.Millisecond) // longer than a chain
				replies, took, free := b.together(append([]call{{script.Release(), []any{"k", "A", "", 0}}}, asks...))
				if seen = took < gap; seen && !free {
					t.Errorf("%s: %q, and the gap is over", what, replies)
				}
			}
			if !seen {
				t.Errorf("%s: never in time", what)
			}
		}
	})
}

// call is a script with its arguments.
type call struct {
	script script.Script
	args   []any
}

// together sends scripts at once, so that the server runs one right after the other. It returns the replies,
// how long that took by the server's clock from the first reply on, and whether the lock was free then. The
// embedded server answers before it has read everything, over connections that delay nothing, and its time
// stands still meanwhile.
func (b bench) together(calls []call) (replies []string, took time.Duration, free bool) {
	b.t.Helper()
	if b.back.Server == nil {
		for _, c := range calls {
			replies = append(replies, b.run(c.script, c.args...))
		}
		return replies, time.Duration(b.later(0)-timeOf(replies[0])) * time.Microsecond, b.rdb.Exists(b.t.Context(), "{k}").Val() == 0
	}
	var evals []*redis.Cmd
	var exists *redis.IntCmd
	var now *redis.TimeCmd
	_, err := b.rdb.Pipelined(b.t.Context(), func(p redis.Pipeliner) error {
		for _, c := range calls {
			evals = append(evals, p.Eval(b.t.Context(), c.script.Source, keysFor(c.script), c.args...))
		}
		exists, now = p.Exists(b.t.Context(), "{k}"), p.Time(b.t.Context())
		return nil
	})
	expect.OK(b.t, err)
	for _, e := range evals {
		replies = append(replies, e.Val().(string))
	}
	return replies, time.Duration(now.Val().UnixMicro()-timeOf(replies[0])) * time.Microsecond, exists.Val() == 0
}

// timeOf returns the server's time in a reply.
func timeOf(reply string) int64 { return number(strings.Fields(reply)[1]) }

// After the gap the first waiter gets the lock. A gap whose end a clock has moved far into the future does not
// count.
func TestGapEnds(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.listen("B")
		b.acquire("tk", "A")
		b.acquire("wk", "B")
		time.Sleep(55 * time.Millisecond)
		b.eval(script.Release(), "k", "A", "", 0)
		backend.Eventually(t, "the first gets the lock", func() bool { return strings.HasPrefix(b.acquire("lk", "B"), "granted") })
		b.expect("released T", b.release("B", "", 0))
		backend.Eventually(t, "the gap is forgotten", func() bool { return b.rdb.Exists(t.Context(), "{k}:q").Val() == 0 })

		// A queue that was lost, with all its waiters, is not kept because of a gap.
		b.acquire("tk", "A")
		b.acquire("wk", "B")
		b.rdb.Del(t.Context(), "{k}:q")
		time.Sleep(55 * time.Millisecond)
		b.expect("released T", b.eval(script.Release(), "k", "A", "", 0))
		backend.Eventually(t, "the gap is forgotten", func() bool { return b.rdb.Exists(t.Context(), "{k}:q").Val() == 0 })

		b.rdb.ZAdd(t.Context(), "{k}:q", redis.Z{Score: -float64(b.later(time.Hour)), Member: "gap"})
		b.expect("granted T P T 1", b.acquire("tk", "A"))
	})
}
