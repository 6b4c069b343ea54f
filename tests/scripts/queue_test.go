package scripts

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
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
			expect.Begins(t, "the reply", reply, "granted ")
			// If the machine stalls, the test may be too late.
			seen = timeOf(reply)-ended < time.Millisecond.Microseconds()
		}
		expect.Equal(t, "seen in time", seen, true)
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
			expect.Equal(t, what+": seen in time", seen, true)
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

// handOverCalls is how many commands the scripts of one hand-over call while a few wait: 10 in the release, 9 in
// the enqueue of the next waiter.
const handOverCalls = 19

// A hand-over calls no more commands than that.
func TestCommandsOfAHandOver(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		const waiting, rounds = 4, 5
		token := func(n int) string { return "W" + strconv.Itoa(n) }
		for n := range waiting + rounds {
			b.listen(token(n))
		}
		b.expect("granted T P T 1", b.acquire("t", token(0)))
		for n := 1; n < waiting; n++ {
			b.acquire("w", token(n))
		}

		before := b.back.Server.CommandStats()
		for n := range rounds {
			b.begins("queued ", b.acquire("w", token(n+waiting)))
			b.expect("released T", b.release(token(n), "", 0))
		}
		calls := b.back.Server.CommandStats()
		maps.DeleteFunc(calls, func(command string, n int64) bool {
			calls[command] -= before[command]
			// These are the test's own; subscriptions are pinged as time passes.
			return n == before[command] || command == "eval" || command == "info" || command == "ping"
		})

		b.begins("hf2:"+token(rounds)+":", b.read())
		sum := int64(0)
		for _, n := range calls {
			sum += n
		}
		// On a slow machine the queue's expiry is set once more.
		if sum < rounds || sum > handOverCalls*rounds+2 {
			t.Errorf("%d hand-overs call %d commands, want %d at most: %v", rounds, sum, handOverCalls*rounds, calls)
		}
	})
}

// A reply without a write leaves a key's expiry unchanged, even in the key's last moment: on Redis 7.0 a key
// stays alive while a script runs, although the time from which PEXPIRE counts advances.
func TestAnswersDoNotProlong(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		inItsLastMoment := `
redis.call('SET', KEYS[1], 'hf2:A:1:1:0:{}', 'PX', 1)
local ends = redis.call('PEXPIRETIME', KEYS[1])
for i = 1, 2000000 do
end
local function renew()
` + script.Renew().Source + `
end
local said = renew()
return string.match(said, '^%a+') .. ' ' .. redis.call('PEXPIRETIME', KEYS[1]) - ends`
		said, err := b.rdb.Eval(t.Context(), inItsLastMoment, []string{"{k}"}, "", "B", 60000, 0, 1).Result()
		if err != nil || said != "gone 0" {
			t.Errorf("by how many ms the key lasts longer after an answer: %v, %v", said, err)
		}
	})
}

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
