package scripts

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
)

// A lock is acquired in the very millisecond in which the last tombstone ended: the remaining time is rounded
// up to a zero with a sign, which the server does not accept as a number.
func TestATombstoneThatHasJustEnded(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		seen := false
		for n := 0; n < 100 && !seen; n++ {
			b.rdb.FlushAll(t.Context())
			b := newBench(t, b.back)
			ended := b.later(-time.Microsecond)
			b.rdb.ZAdd(t.Context(), "{k}:q", redis.Z{Score: -float64(ended), Member: "x:Z"})
			reply := b.run(script.Acquire(), "tk", "A", 60000, 0, 1, info)
			if !strings.HasPrefix(reply, "granted ") {
				t.Fatalf("the reply is %q", reply)
			}
			// If the machine stalls, the test may be too late.
			seen = timeOf(reply)-ended < time.Millisecond.Microseconds()
		}
		if !seen {
			t.Error("never in time")
		}
	})
}

// A queue lasts for a minute after each enqueue and each look, and as long as its tombstones need.
func TestAQueueOutlastsTheTimeBetweenLooks(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.listen("B")
		b.acquire("tk", "A")
		for _, mode := range []string{"wk", "lk"} {
			for _, before := range []time.Duration{0, 59 * time.Second, time.Hour} {
				began := time.Now()
				if before > 0 {
					b.rdb.PExpire(t.Context(), "{k}:q", before)
				}
				b.acquire(mode, "B")
				left := b.rdb.PTTL(t.Context(), "{k}:q").Val()
				if least := max(before, time.Minute) - time.Since(began) - time.Millisecond; left < least {
					t.Errorf("%s: after %s the queue stays for %s", mode, before, left)
				}
			}
		}
	})
}
