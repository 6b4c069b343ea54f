package scripts

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// most is how many dead holders, or waiters, a script may remove at once.
const most = 500

// crowd makes n holders acquire a share, and returns their tokens.
func (l shares) crowd(n int, weight any) (tokens []string) {
	l.t.Helper()
	for i := range n {
		tokens = append(tokens, "crowd"+strconv.Itoa(i))
	}
	expect.OK(l.t, l.rdb.ScriptLoad(l.t.Context(), script.ShareAcquire().Source).Err())
	// Several ask at once: on a slow machine the first lease would otherwise expire before the last begins.
	for some := range slices.Chunk(tokens, 8) {
		_, _ = l.rdb.Pipelined(l.t.Context(), func(p redis.Pipeliner) error {
			for _, token := range some {
				p.EvalSha(l.t.Context(), script.ShareAcquire().SHA1, keysFor(script.ShareAcquire()), l.arguments("t", token, weight, ordinary)...)
			}
			return nil
		})
	}
	if got := len(l.holds()); got < n {
		l.t.Fatalf("%d hold the lock, want %d", got, n)
	}
	return tokens
}

// age makes the holds of those tokens expire now.
func (l shares) age(tokens []string) {
	l.t.Helper()
	over := strconv.FormatInt(l.later(0), 10)
	hash := l.rdb.HGetAll(l.t.Context(), "{k}").Val()
	fields, scores := []any{"HSET", "{k}", "next", over}, []any{"ZADD", "{k}:q:e"}
	for _, token := range tokens {
		_, rest, _ := strings.Cut(hash[token], ":")
		fields, scores = append(fields, token, over+":"+rest), append(scores, over, token)
	}
	for _, command := range [][]any{fields, scores} {
		expect.OK(l.t, l.rdb.Do(l.t.Context(), command...).Err())
	}
}

// inSteps repeats a call while its reply says that there is more to remove, and returns the last reply. Each
// call may reduce size by no more than most.
func inSteps(t *testing.T, size func() int64, call func() string) (reply string, steps int) {
	t.Helper()
	for {
		before := size()
		reply = call()
		after := size()
		if before-after > most+1 { // plus one that was checked by itself
			t.Errorf("one call removes %d at once", before-after)
		}
		steps++
		if !strings.HasPrefix(reply, "error AGAIN ") {
			return reply, steps
		}
		if before == after {
			t.Fatalf("%s, but nothing was removed", reply)
		}
	}
}

// A crowd of dead holders is removed in steps, and until that is done no other answer is given.
func TestDeadHoldersAreRemovedInSteps(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		for name, ask := range map[string]struct {
			want string
			call func(l shares) string
		}{
			"tried":    {"held T P 0 hf2:A:T:T:0:" + info, func(l shares) string { return l.acquire("t", "W", everything) }},
			"queued":   {"queued T P T 1 0 ours", func(l shares) string { return l.acquire("w", "W", everything) }},
			"released": {"released T", func(l shares) string { return l.release("A", "", 0) }},
			"weighed":  {"weighed T P T", func(l shares) string { return l.weigh("A", everything) }},
		} {
			b := newBench(t, b.back)
			b.rdb.FlushAll(t.Context())
			l := readWrite(b)
			l.acquire("t", "A", 1)
			l.age(l.crowd(2*most+100, 1))
			size := func() int64 { return int64(len(l.holds())) }
			reply, steps := inSteps(t, size, func() string { return ask.call(l) })
			b.expect(ask.want, reply)
			expect.Equal(t, name+": calls", steps, 3)
			if name == "released" {
				l.exist(0)
				continue
			}
			l.held("A")
			expect.Equal(t, name+": holds in the index", b.rdb.ZCard(t.Context(), "{k}:q:e").Val(), 1)
		}
	})
}

// A renewal does not remove what others have left.
func TestRenewalsRemoveNobody(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		l := readWrite(b)
		l.acquire("t", "A", 1)
		crowd := l.crowd(10, 1)
		l.age(crowd)
		b.begins("renewed ", b.on([]string{"{k}", "{k}:q:e"}, script.ShareRenew(), "", "A", 120000, 0, l.hold("A").fence))
		expect.Equal(t, "holds", len(l.holds()), 11)
		b.expect("gone T", b.eval(script.ShareRenew(), "", crowd[0], 60000, 0, l.hold(crowd[0]).fence))
		b.begins("held T ", l.acquire("t", "W", everything))
		l.held("A")
	})
}

// No request makes the server go through all holders.
func TestNoScriptLooksAtAllHolders(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		l := readWrite(b)
		crowd := l.crowd(700, 1)     // more than a server keeps in one piece
		l.release(crowd[699], "", 0) // the last one, which the next would be told of
		owned := shares{b, "own", everything}
		lookAtAll := regexp.MustCompile(`(?m)^cmdstat_(hgetall|hvals):.*$`)
		expect := func(want string, call func() string) {
			t.Helper()
			b.rdb.ConfigResetStat(t.Context())
			reply := call()
			expect.Begins(t, "the reply", reply, want)
			expect.Equal(t, want+" looks at", lookAtAll.FindString(b.rdb.Info(t.Context(), "commandstats").Val()), "")
			expect.AtMost(t, "holders are told of at once", strings.Count(reply, "\n"), 100)
		}
		expect("held T ", func() string { return l.acquire("t", "W", everything) })
		expect("status T ", func() string { return b.eval(script.Status(), "", "x", "rw", 0, 10, 0) })
		l.age(crowd[:100])
		expect("held T ", func() string { return l.acquire("t", "W", everything) })

		b.rdb.Del(t.Context(), "{k}", "{k}:q:e")
		owned.crowd(500, "1\nme")
		expect("released T 499", func() string {
			return b.eval(script.ShareDisown(), "", "R", "me", b.later(time.Minute))
		})

		b.rdb.Del(t.Context(), "{k}", "{k}:q:e")
		s := semaphore(b, 1000)
		s.crowd(500, 1)
		s.resize(1000)
		expect("resized T 0 500", func() string { return s.resize(0) })
		s.lasts("crowd0", 60000)
	})
}

// All holders can be read page by page.
func TestHoldersInPages(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		l := readWrite(b)
		crowd := l.crowd(700, 1)
		l.age(crowd[:100])
		told := map[string]bool{}
		for cursor := ""; cursor != "0"; {
			head, lines, _ := strings.Cut(b.run(script.Status(), "", "x", "rw", cmp.Or(cursor, "0"), 50, 0), "\n")
			words := strings.Fields(head)
			cursor = words[len(words)-2]
			for _, m := range regexp.MustCompile(`hf2:([^:]*):`).FindAllStringSubmatch(lines, -1) {
				told[m[1]] = true
			}
		}
		if len(told) != 600 || slices.ContainsFunc(crowd[:100], func(dead string) bool { return told[dead] }) {
			t.Errorf("%d holders are told, want 600 that live", len(told))
		}
	})
}

// The index lasts as long as the holds in it, and is rebuilt if it was lost.
func TestTheIndexOfHolds(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		l := semaphore(b, 1000)
		outlasts := func(what string) {
			t.Helper()
			lock, index := b.rdb.PExpireTime(t.Context(), "{k}").Val(), b.rdb.PExpireTime(t.Context(), "{k}:q:e").Val()
			if index <= 0 || index < lock {
				t.Errorf("%s: the index lasts until %v, the lock until %v", what, index, lock)
			}
			for token, h := range l.holds() {
				expect.Equal(t, what+": the end of "+token+" in the index", int64(b.rdb.ZScore(t.Context(), "{k}:q:e", token).Val()), h.expiry)
			}
		}
		l.brief("A", 3, 30000)
		outlasts("taken")
		l.renew("A", 120000, 0)
		outlasts("renewed")
		crowd := l.crowd(300, 2)
		outlasts("crowded")
		l.resize(1000)
		outlasts("fixed")
		l.resize(0)
		outlasts("not fixed any more")

		b.rdb.Del(t.Context(), "{k}:q:e")
		b.expect("granted T P T 1", l.acquire("t", "B", 5))
		hash := b.rdb.HGetAll(t.Context(), "{k}").Val()
		over := strconv.FormatInt(b.later(0), 10)
		for _, token := range crowd[:100] {
			_, rest, _ := strings.Cut(hash[token], ":")
			b.rdb.HSet(t.Context(), "{k}", token, over+":"+rest)
		}
		b.rdb.HSet(t.Context(), "{k}", "next", over)
		b.expect("granted T P T 1", l.acquire("t", "C", 1))
		expect.Equal(t, "permits that are taken", b.rdb.HGet(t.Context(), "{k}", "used").Val(), fmt.Sprint(3+200*2+5+1))
		outlasts("lost")
		for token := range l.holds() {
			l.release(token, "", 0)
		}
		b.gone("keys that are left", "{k}", "{k}:q:e")
	})
}

// deadWaiters adds waiters to the queue that hear nothing.
func (b bench) deadWaiters(n int, score int64, more string) {
	b.t.Helper()
	scores := []any{"ZADD", "{k}:q"}
	for i := range n {
		scores = append(scores, score+int64(i), fmt.Sprintf("dead%d\n%d\nchannel-dead%d\n%s%s", i, claim, i, more, info))
	}
	expect.OK(b.t, b.rdb.Do(b.t.Context(), scores...).Err())
}

// A queue of dead waiters is removed in steps. If the client that began has no reason to go on, the latest live
// waiter is told to.
func TestDeadWaitersAreRemovedInSteps(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		for _, kind := range []string{"mutex", "rw"} {
			b := newBench(t, b.back)
			b.rdb.FlushAll(t.Context())
			acquire, release, more := b.acquire, func(token string) string { return b.eval(script.Release(), "", token, "", 0) }, ""
			if kind == "rw" {
				l := readWrite(b)
				acquire = func(mode, token string) string { return l.acquire(mode, token, everything) }
				release = func(token string) string { return l.release(token, "", 0) }
				more = strconv.Itoa(everything) + "\n"
			}
			size := func() int64 { return b.rdb.ZCard(t.Context(), "{k}:q").Val() }
			first, last := b.listen("first"), b.listen("last")

			b.expect("granted T P T 1", acquire("t", "A"))
			acquire("w", "first")
			acquire("w", "last")
			b.deadWaiters(2*most+100, b.later(-10*time.Second), more)
			reply, _ := inSteps(t, size, func() string { return release("A") })
			b.expect("released T", reply)
			b.expect("hf2 standby last T T", b.heard(last))
			reply, steps := inSteps(t, size, func() string { return acquire("l", "last") })
			expect.Equal(t, kind+": more calls", steps, 2)
			b.begins("queued T ", reply)
			word := map[string]string{"mutex": "grant", "rw": "rw"}[kind]
			for { // it may be told to look earlier
				if got := b.heard(first); !strings.HasPrefix(got, "hf2 standby ") {
					b.expect("hf2 "+word+" first T P T {k}", got)
					break
				}
			}

			// No waiter is alive, and somebody tries.
			b.rdb.FlushAll(t.Context())
			b.deadWaiters(2*most+100, b.later(0), more)
			reply, steps = inSteps(t, size, func() string { return acquire("t", "B") })
			b.expect("granted T P T 1", reply)
			expect.Equal(t, kind+": calls", steps, 3)
		}
	})
}

// A waiter that enters a queue removes some that have been dead for long, and nobody else.
func TestEnteringAQueueRemovesOldDeadWaiters(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.acquire("t", "A")
		b.listen("old")
		b.listen("new")
		old := b.later(-2 * time.Minute)
		b.deadWaiters(100, old, "")
		b.rdb.ZAdd(t.Context(), "{k}:q", redis.Z{Score: float64(old) + 50.5, Member: member("old")}, redis.Z{Score: float64(b.later(-time.Second)), Member: member("reconnecting")},
			redis.Z{Score: -float64(b.later(time.Minute)), Member: "x:ended"})
		before := b.rdb.ZCard(t.Context(), "{k}:q").Val()
		for n := range 500 {
			token := "new" + strconv.Itoa(n)
			b.acquire("w", token)
			after := b.rdb.ZCard(t.Context(), "{k}:q").Val()
			expect.Between(t, "entries removed", before+1-after, 0, 20)
			before = after
			if b.rdb.ZCount(t.Context(), "{k}:q", "0", strconv.FormatInt(old+1000, 10)).Val() == 1 {
				for _, kept := range []string{member("old"), member("reconnecting"), "x:ended", member(token)} {
					if b.rdb.ZScore(t.Context(), "{k}:q", kept).Err() != nil {
						t.Errorf("%q was removed", kept)
					}
				}
				return
			}
		}
		t.Errorf("after 500 that came, old dead waiters are still there")
	})
}
