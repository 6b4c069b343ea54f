package scripts

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// queueing is how the scripts of a kind of lock are called.
type queueing struct {
	acquire func(mode, token string) string
	member  func(token string) string
	release func(token, member string) string
	more    string // in a waiter's member
	word    string // of a grant's message
}

func queueings(b bench) map[string]queueing {
	writers, permit := readWrite(b), semaphore(b, 1)
	return map[string]queueing{
		"mutex": {
			b.acquire, member, func(token, member string) string { return b.release(token, member, 0) }, "", "grant",
		},
		"writer": {
			func(mode, token string) string { return writers.acquire(mode, token, everything) },
			func(token string) string { return heavy(token, everything) },
			func(token, member string) string { return writers.release(token, member, 0) },
			strconv.Itoa(everything) + "\n", "rw",
		},
		"semaphore": {
			func(mode, token string) string { return permit.acquire(mode, token, 1) },
			func(token string) string { return heavy(token, 1) },
			func(token, member string) string { return permit.release(token, member, 0) },
			"1\n", "sem",
		},
	}
}

// Fault: Waiters at the head of the queue are dead. The one that must look when the lock may be free is the first
// live one, and it is told that it is first.
func TestStandbysGoToTheFirstThatIsAlive(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		for _, dead := range []int{1, 6, 99, 300} {
			for kind, q := range queueings(b) {
				what := fmt.Sprintf("%s, %d dead", kind, dead)
				// begin makes A hold the lock, and B and C wait behind dead waiters.
				begin := func(where string, before ...string) (second, third func() string) {
					b.rdb.FlushAll(t.Context())
					b.expect("granted T P T 1", q.acquire("t", "A"))
					for _, token := range before {
						q.acquire("w", token)
					}
					b.deadWaiters(dead, b.later(time.Second), q.more)
					// Each has its own subscription, so no earlier message is heard.
					named := func(token string) (string, func() string) {
						token += "/" + what + "/" + where
						messages := b.listen(token)
						return token, func() string { return b.heard(messages) }
					}
					var names [2]string
					names[0], second = named("B")
					names[1], third = named("C")
					for i, name := range names {
						rank := 1 + i + len(before)
						switch {
						case len(before) > 0:
							rank += dead
						case kind == "mutex": // others remove the dead at the head whenever they check it
							rank += dead - min(dead, 100)
						}
						b.expect("queued T P T "+strconv.Itoa(rank)+" 1 ours", q.acquire("w", name))
					}
					return second, third
				}
				name := func(token, where string) string { return token + "/" + what + "/" + where }
				told := func(second, third func() string, where string) {
					t.Helper()
					if kind == "mutex" && dead > 100 { // the latest one will do
						b.expect("hf2 standby "+name("C", where)+" T T", third())
						return
					}
					b.expect("hf2 standby "+name("B", where)+" T T", second())
				}

				// The first waiter leaves.
				x := b.listen("X")
				second, third := begin("left", "X")
				b.expect("left T", q.release("X", q.member("X")))
				told(second, third, "left")

				// The first waiter is handed the lock.
				second, third = begin("handed", "X")
				b.expect("released T", q.release("A", ""))
				b.expect("hf2 "+q.word+" X T P T {k}", b.heard(x))
				told(second, third, "handed")

				// The first waiter finds the lock free.
				second, third = begin("found", "X")
				if kind == "mutex" {
					b.rdb.Del(t.Context(), "{k}")
				} else {
					b.rdb.Del(t.Context(), "{k}", "{k}:q:e")
				}
				b.expect("granted T P T 1", q.acquire("l", "X"))
				told(second, third, "found")

				// The first live waiter leaves.
				_, third = begin("gone")
				b.expect("left T", q.release(name("B", "gone"), q.member(name("B", "gone"))))
				if dead <= 99 {
					b.expect("hf2 standby "+name("C", "gone")+" T T", third())
				}
			}
		}

		// Only mutexes have Strict mode, and a gap for other programs.
		b.rdb.FlushAll(t.Context())
		b.acquire("tk", "A")
		b.deadWaiters(6, b.later(0), "")
		heard := b.listen("last")
		b.acquire("wk", "last")
		b.rdb.Set(t.Context(), "{k}", "hf2:A:1:1:8@1:"+info+"+", time.Minute)
		b.expect("released T", b.eval(script.Release(), "k", "A", "", 0))
		b.expect("hf2 standby last T T", b.heard(heard))
	})
}
