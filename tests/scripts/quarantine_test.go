package scripts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// strictly is the flags of Strict mode with leases of up to a minute.
const strictly = "s60000+0"

// strict runs a script in Strict mode. Its keys are those of keysFor, and the server's mark.
func (b bench) strict(s script.Script, args ...any) string {
	b.t.Helper()
	return seen(b.on(append(keysFor(s), "mark"), s, args...))
}

// ready ends a quarantine. One begins when the mark is deleted.
func (b bench) ready() {
	b.t.Helper()
	b.on([]string{"mark"}, script.Init(), "f"+strictly, "x")
}

// A waiter has the lock when the server enters quarantine, for instance because its first replica connects. A
// late request of that waiter changes nothing.
func TestALateCopyInQuarantineFreesNothing(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		for kind, send := range map[string]func(mode string) string{
			"mutex": func(mode string) string {
				return b.strict(script.Acquire(), mode+strictly, "A", 60000, 0, 1, info, claim, "channel-A", "")
			},
			"writer": func(mode string) string {
				return b.strict(script.ShareAcquire(), mode+strictly, "A", 60000, 0, 1, info, "rw", everything, everything, claim, "channel-A", "")
			},
		} {
			b.rdb.FlushAll(t.Context())
			b.ready()
			b.expect("granted T P T 1", send("w"))
			state := func() string {
				return b.rdb.Get(t.Context(), "{k}").Val() + fmt.Sprint(b.rdb.HGetAll(t.Context(), "{k}").Val())
			}
			before := state()
			b.rdb.Del(t.Context(), "mark")
			for _, mode := range []string{"l", "w"} {
				reply := send(mode)
				b.expect("queued T P T 1 0 ours", reply)
				if pttl := number(strings.Fields(reply)[2]); !b.below(pttl, time.Minute.Milliseconds()) {
					t.Errorf("%s: %d ms are left", kind, pttl)
				}
			}
			if after, n := state(), b.rdb.ZCard(t.Context(), "{k}:q").Val(); after != before || n != 0 {
				t.Errorf("%s: the lock became %q, from %q; %d are in the queue", kind, after, before, n)
			}
			b.begins("quarantined ", send("t"))
			// A waiter that was not told of it is told when the quarantine is over.
			b.ready()
			b.expect("granted T P T 1", send("l"))
		}
	})
}

// In Strict mode an adoption is a grant: after a loss of data the server may have an older state, from before
// the lock was adopted, released and acquired by another.
func TestNothingIsAdoptedInQuarantine(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		b.ready()
		b.expect("granted T P T 1", b.strict(script.Acquire(), "t"+strictly, "A", 60000, 0, 1, info))
		of := ticket{token: "A", fence: b.fence()}
		adopt := func() string { return b.strict(script.Adopt(), b.adoption(strictly, "N", of, 60000, 0)...) }
		b.rdb.Del(t.Context(), "mark")
		b.expect("quarantined T P", adopt())
		b.expect("renewed T P 0 0", b.strict(script.Renew(), strictly, "A", 60000, 0, of.fence)) // the ticket can be extended meanwhile
		b.ready()
		b.expect("adopted T P T", adopt())
		value := b.read()
		b.rdb.Del(t.Context(), "mark")
		b.expect("quarantined T P", adopt()) // also when sent again
		expect.Equal(t, "the lock", b.read(), value)
		b.ready()
		b.expect("adopted T P T", adopt())
	})
}
