package scripts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// A waiter has the lock when the server enters quarantine, for instance because its first replica connects. A
// late request of that waiter changes nothing.
func TestALateCopyInQuarantineFreesNothing(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, back *backend.Backend) {
		b := newBench(t, back)
		mutex := func(mode, token string) (script.Script, []string, []any) {
			return script.Acquire(), []string{"{k}", "{k}:q", "{k}:f", "mark"},
				[]any{mode + "s60000+0", token, 60000, 0, 1, info, claim, "channel-" + token, ""}
		}
		writer := func(mode, token string) (script.Script, []string, []any) {
			return script.ShareAcquire(), []string{"{k}", "{k}:q", "{k}:f", "{k}:q:e", "mark"},
				[]any{mode + "s60000+0", token, 60000, 0, 1, info, "rw", everything, everything, claim, "channel-" + token, ""}
		}
		for kind, request := range map[string]func(mode, token string) (script.Script, []string, []any){"mutex": mutex, "writer": writer} {
			send := func(mode, token string) string {
				t.Helper()
				s, keys, args := request(mode, token)
				reply, err := b.rdb.Eval(t.Context(), s.Source, keys, args...).Text()
				if err != nil {
					t.Fatal(err)
				}
				return volatile.ReplaceAllString(reply, "T")
			}
			ready := func() {
				t.Helper()
				if err := b.rdb.Eval(t.Context(), script.Init().Source, []string{"mark"}, "fs60000+0", "x").Err(); err != nil {
					t.Fatal(err)
				}
			}
			b.rdb.FlushAll(t.Context())
			ready()
			b.expect("granted T P T 1", send("w", "A"))
			state := func() string {
				return b.rdb.Get(t.Context(), "{k}").Val() + fmt.Sprint(b.rdb.HGetAll(t.Context(), "{k}").Val())
			}
			before := state()
			b.rdb.Del(t.Context(), "mark")
			for _, mode := range []string{"l", "w"} {
				reply := send(mode, "A")
				b.expect("queued T P T 1 0 ours", reply)
				if pttl := number(strings.Fields(reply)[2]); !b.below(pttl, time.Minute.Milliseconds()) {
					t.Errorf("%s: %d ms are left", kind, pttl)
				}
			}
			if after := state(); after != before {
				t.Errorf("%s: the lock became %q, from %q", kind, after, before)
			}
			if n := b.rdb.ZCard(t.Context(), "{k}:q").Val(); n != 0 {
				t.Errorf("%s: %d are in the queue", kind, n)
			}
			if reply := send("t", "A"); !strings.HasPrefix(reply, "quarantined ") {
				t.Errorf("%s: %s", kind, reply)
			}
			// A waiter that was not told of it is told when the quarantine is over.
			ready()
			b.expect("granted T P T 1", send("l", "A"))
		}
	})
}
