package scripts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// both acquires the locks {k} and {k}2 under the tokens T1 and T2.
func (b bench) both(token string, notAfter int64) string {
	b.t.Helper()
	keys := []string{"{k}", "{k}:q", "{k}:f", "{k}2", "{k}2:q", "{k}:f"}
	return seen(b.on(keys, script.MultiAcquire(), "", token+"1", 60000, notAfter, info, token+"2"))
}

func TestMulti(t *testing.T) {
	for name, test := range map[string]func(b bench, ask func(token string) string){
		"free": func(b bench, ask func(string) string) {
			b.expect("granted T P T T", ask("A"))
			values := func() string { return fmt.Sprint(b.rdb.MGet(b.t.Context(), "{k}", "{k}2").Val()) }
			before := values()
			b.expect("granted T P T T", ask("A")) // the same again
			expect.Equal(b.t, "the values", values(), before)
			b.expect("held T 1 P 0 hf2:A1:T:T:0:"+info, ask("B"))
			b.expect("renewed T P 0 0", b.renew("A1", 10, 0))
			b.expect("released T", b.release("A1", "", 0))
			b.expect("held T 2 P 0 hf2:A2:T:T:0:"+info, ask("B"))
			b.expect("free T 0", b.holder())
		},
		"again, with one lost": func(b bench, ask func(string) string) {
			b.expect("granted T P T T", ask("A"))
			b.expect("released T", b.release("A1", "", 0))
			b.expect("queued T", ask("A")) // no late copy takes effect
			b.expect("free T 0", b.holder())
		},
		"lasts as long as it did": func(b bench, ask func(string) string) {
			b.expect("granted T P T T", ask("A"))
			b.rdb.PExpire(b.t.Context(), "{k}2", time.Hour)
			b.rdb.PExpire(b.t.Context(), "{k}", time.Second)
			b.expect("granted T P T T", ask("A"))
			for key, want := range map[string]time.Duration{"{k}": time.Minute, "{k}2": time.Hour} {
				b.lastsFor(key, want.Milliseconds())
			}
		},
		"waited for": func(b bench, ask func(string) string) {
			b.acquire("t", "A")
			b.listen("B")
			b.acquire("w", "B")
			b.rdb.Del(b.t.Context(), "{k}")
			b.expect("queued T", ask("C"))
			b.expect("free T 1", b.holder())
		},
		"tombstone": func(b bench, ask func(string) string) {
			b.expect("absent T", b.release("A1", "", b.later(time.Hour)))
			b.expect("queued T", ask("A"))
			b.expect("free T 0", b.holder())
			b.expect("granted T P T T", ask("B")) // a tombstone keeps nobody else out
		},
		"late": func(b bench, _ func(string) string) {
			b.expect("late T", b.both("A", b.later(-time.Second)))
			b.expect("free T 0", b.holder())
		},
		"errors": func(b bench, ask func(string) string) {
			b.rdb.HSet(b.t.Context(), "{k}2", "a", "b")
			b.expect("error WRONGTYPE Operation against a key holding the wrong kind of value", ask("A"))
			b.rdb.Del(b.t.Context(), "{k}2")
			b.rdb.Set(b.t.Context(), "{k}:f", "-1", 0)
			b.expect("error BADFENCE the fence counter {k}:f is not a stream", ask("A"))
			b.gone("locks that are taken", "{k}", "{k}2")
		},
		"many": func(b bench, _ func(string) string) {
			var keys []string
			args := []any{"", "A0", 60000, b.later(time.Minute), info}
			for i := range 256 {
				keys = append(keys, fmt.Sprint("{k}", i), fmt.Sprint("{k}", i, ":q"), "{k}:f")
				if i > 0 {
					args = append(args, fmt.Sprint("A", i))
				}
			}
			b.setCounter(b.later(time.Hour))
			reply := b.on(keys, script.MultiAcquire(), args...)
			if f := strings.Fields(reply); len(f) != 3+256 || number(f[4]) != number(f[3])+1 {
				b.t.Errorf("%.80s", reply)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, b bench) {
				test(b, func(token string) string {
					t.Helper()
					return b.both(token, b.later(time.Minute))
				})
			})
		})
	}
}
