package virtual

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A tombstone that ends in the very microsecond in which a copy of its acquire arrives lets the copy pass: the
// copy must refuse itself.
func TestACopyAtItsNotAfterIsLate(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		rdb := server(t, srv)
		eval := func(s script.Script, args ...any) string {
			reply, err := rdb.Eval(t.Context(), s.Source, []string{"{k}", "{k}:q", "{k}:f"}, args...).Text()
			if err != nil {
				t.Fatal(err)
			}
			return reply
		}
		now, err := rdb.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		notAfter := now.UnixMicro() // it stays that time, as nobody sleeps
		if reply := eval(script.Release(), "", "A", "", notAfter); !strings.HasPrefix(reply, "absent") {
			t.Errorf("the release is answered %q", reply)
		}
		if reply := eval(script.Acquire(), "t", "A", 60000, notAfter, 1, `{"o":"me"}`); !strings.HasPrefix(reply, "late") {
			t.Errorf("a copy of the acquire after its release is answered %q", reply)
		}

		// A tombstone in a queue that nobody keeps alive, since its waiter is dead, lasts as long as it must.
		rdb.ZAdd(t.Context(), "{k}:q", redis.Z{Score: float64(notAfter), Member: "dead\n1500\nholdfast:c:dead\n{}"})
		rdb.PExpire(t.Context(), "{k}:q", time.Second)
		notAfter += time.Hour.Microseconds()
		eval(script.Release(), "", "B", "", notAfter)
		time.Sleep(59 * time.Minute)
		if reply := eval(script.Acquire(), "t", "B", 60000, notAfter, 1, `{"o":"me"}`); !strings.HasPrefix(reply, "gone") {
			t.Errorf("a copy of the acquire after its release is answered %q", reply)
		}
	})
}
