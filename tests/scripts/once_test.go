package scripts

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

const keep = 60000

func (b bench) once(s script.Script, args ...any) string {
	b.t.Helper()
	return seen(b.on([]string{"{k}", "{k}:once"}, s, args...))
}

func (b bench) begin(token string, window int, fence string, tries int) string {
	b.t.Helper()
	return b.once(script.OnceBegin(), "", token, window, keep, fence, tries)
}

func (b bench) complete(token, fence, result string) string {
	b.t.Helper()
	return b.once(script.OnceComplete(), "", token, keep, fence, info, result)
}

func TestOnce(t *testing.T) {
	cases(t, onEach, map[string]func(b bench){
		"completed": func(b bench) {
			b.expect("none T 0", b.once(script.OnceLook(), "", "", 0))
			b.expect("absent T", b.begin("A", 0, "7", 0))
			b.acquire("t", "A")
			b.expect("begun T 1", b.begin("A", 0, "7", 0))
			b.expect("begun T 1", b.begin("A", 0, "7", 0)) // the same again
			b.expect("none T 1", b.once(script.OnceLook(), "", "", 0))
			b.expect("gone T", b.complete("B", "8", "")) // another holder's
			b.expect("completed T T 1", b.complete("A", "7", "one\ntwo three"))
			b.expect("completed T T 1", b.complete("A", "7", "again")) // the same again
			b.lastsFor("{k}:once", keep)
			b.release("A", "", 0)
			b.expect("completed T T 1", b.complete("A", "7", "late")) // although A no longer has the lock
			b.expect("done T T 7 1 counts "+info+"\none\ntwo three", b.once(script.OnceLook(), "", "", 0))
			b.acquire("t", "B")
			b.expect("done T T 7 1 counts "+info+"\none\ntwo three", b.begin("B", 0, "8", 1))
			b.expect("done T T 7 1 counts "+info+"\none\ntwo three", b.begin("B", 3600000, "8", 1))
			time.Sleep(2 * time.Millisecond)
			b.expect("done T T 7 1 over "+info+"\none\ntwo three", b.once(script.OnceLook(), "", "", 1))
			b.expect("begun T 1", b.begin("B", 1, "8", 1)) // another window
		},
		"twice under one lease": func(b bench) {
			b.acquire("t", "A")
			b.begin("A", 3600000, "7", 1)
			b.complete("A", "7", "")
			b.expect("done T T 7 1 counts "+info+"\n", b.begin("A", 3600000, "7", 1))
			time.Sleep(2 * time.Millisecond)
			b.expect("used T", b.begin("A", 1, "7", 1)) // another window
			b.expect("begun T 1", b.begin("A", 1, "8", 1))
		},
		"fails": func(b bench) {
			for n, fence := range []string{"7", "8", "9"} {
				b.acquire("t", "A")
				b.expect("begun T "+string(rune('1'+n)), b.begin("A", 0, fence, 3))
				b.release("A", "", 0)
			}
			b.acquire("t", "A")
			b.expect("spent T 3", b.begin("A", 0, "10", 3))
			b.expect("begun T 4", b.begin("A", 3600000, "10", 0))
			time.Sleep(2 * time.Millisecond)
			b.expect("begun T 1", b.begin("A", 1, "11", 1)) // another window
			b.expect("spent T 1", b.begin("A", 3600000, "12", 1))
			b.expect("completed T T 1", b.complete("A", "11", ""))
		},
		"fails after a success": func(b bench) {
			b.acquire("t", "A")
			b.begin("A", 1, "7", 2)
			b.complete("A", "7", "")
			const hour = 3600000
			b.rdb.HSet(b.t.Context(), "{k}:once", "done", b.later(-2*time.Hour))
			b.expect("begun T 1", b.begin("A", hour, "8", 2))
			b.expect("begun T 2", b.begin("A", hour, "9", 2))
			b.expect("spent T 2", b.begin("A", hour, "10", 2))
		},
		"the clock goes back while it runs": func(b bench) {
			b.acquire("t", "A")
			b.begin("A", 3600000, "7", 1)
			b.rdb.HSet(b.t.Context(), "{k}:once", "first", b.later(time.Minute))
			b.complete("A", "7", "")
			b.rdb.HSet(b.t.Context(), "{k}:once", "done", b.later(-2*time.Hour))
			b.expect("begun T 1", b.begin("A", 3600000, "8", 1))
			b.expect("spent T 1", b.begin("A", 3600000, "9", 1))
		},
		"its record is lost": func(b bench) {
			b.acquire("t", "A")
			b.begin("A", 0, "7", 0)
			b.rdb.Del(b.t.Context(), "{k}:once")
			b.expect("completed T T 1", b.complete("A", "7", ""))
		},
		"what is kept longer": func(b bench) {
			b.acquire("t", "A")
			b.begin("A", 0, "7", 0)
			b.rdb.PExpire(b.t.Context(), "{k}:once", time.Hour)
			b.complete("A", "7", "")
			b.lastsFor("{k}:once", 3600000)
		},
		"errors": func(b bench) {
			b.acquire("t", "A")
			b.rdb.Set(b.t.Context(), "{k}:once", "x", 0)
			wrong := "error WRONGTYPE Operation against a key holding the wrong kind of value"
			b.expect(wrong, b.once(script.OnceLook(), "", "", 0))
			b.expect(wrong, b.begin("A", 0, "7", 0))
			b.expect(wrong, b.complete("A", "7", ""))
		},
	})
}

// Fault: The server is out of memory. A completed run can be recorded, but none begun.
func TestOnceOutOfMemory(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		b.acquire("t", "A")
		b.begin("A", 0, "7", 0)
		b.configure("maxmemory", "1")
		b.expect("completed T T 1", b.complete("A", "7", ""))
		if reply := b.begin("A", 1, "8", 0); reply[:9] != "error OOM" && reply[:9] != "done T T " {
			t.Errorf("another try begins: %q", reply)
		}
	})
}
