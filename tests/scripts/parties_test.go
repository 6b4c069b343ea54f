package scripts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// parties is the latch or barrier {k} with a number of parties.
type parties struct {
	bench
	kind string
	n    int
}

func (p parties) join(token string, ttl int) string {
	p.t.Helper()
	return p.eval(script.ShareAcquire(), "t", token, ttl, 0, 1, info, p.kind, p.n, 1)
}

// end ends a party in the way that how says.
func (p parties) end(token, how string) string {
	p.t.Helper()
	return p.eval(script.ShareRelease(), "", token, "", p.later(time.Minute), how)
}

func (p parties) count(id string) string {
	p.t.Helper()
	return p.eval(script.LatchCount(), "", id, p.n, p.later(time.Minute))
}

func (p parties) reset(id string) string {
	p.t.Helper()
	return p.eval(script.LatchReset(), "", id, p.n, p.later(time.Minute))
}

// look asks about the count that began at since.
func (p parties) look(since string) string {
	p.t.Helper()
	return p.eval(script.LatchLook(), "", "", p.n, since)
}

func (p parties) await(token string, number, phase int) string {
	p.t.Helper()
	return p.eval(script.BarrierAwait(), "", token, number, phase, p.n, max(phase-1, 0))
}

func (p parties) withdraw(token string, number int) string {
	p.t.Helper()
	return p.eval(script.BarrierWithdraw(), "", token, number)
}

func (p parties) field(name string) string {
	p.t.Helper()
	value, err := p.rdb.HGet(p.t.Context(), "{k}", name).Result()
	if err != nil && err != redis.Nil {
		p.t.Fatal(err)
	}
	return value
}

// told subscribes to the waiters' channel, and returns a function that requires how many messages have come.
func (p parties) told() func(want int) {
	p.t.Helper()
	messages := p.messages(p.rdb.Subscribe(p.t.Context(), "c:w:{k}"))
	return func(want int) {
		p.t.Helper()
		p.rdb.Publish(p.t.Context(), "c:w:{k}", "end")
		n := 0
		for said := p.heard(messages); said != "end"; said = p.heard(messages) {
			expect.Equal(p.t, "the message", said, "hf2 changed T")
			n++
		}
		expect.Equal(p.t, "messages", n, want)
	}
}

// dead waits until a short hold has expired.
func (p parties) dead(token string) {
	p.t.Helper()
	expiry := shares{p.bench, p.kind, p.n}.hold(token).expiry
	backend.Eventually(p.t, "the hold has expired", func() bool { return p.later(0) > expiry })
}

// kept requires that the latch lasts for ms.
func (p parties) kept(ms int64) {
	p.t.Helper()
	p.lastsFor("{k}", ms)
}

func TestLatch(t *testing.T) {
	for name, test := range map[string]func(l parties){
		"opens": func(l parties) {
			told := l.told()
			l.expect("counted T 2", l.count("A"))
			l.expect("counted T 2", l.count("A")) // the same again
			l.expect("counted T 1", l.count("B"))
			l.expect("count T T 1 0 -1", l.look("0"))
			told(0)
			l.expect("counted T 0", l.count("C"))
			told(1)
			l.expect("counted T 0", l.count("B"))
			l.expect("counted T 0", l.count("D")) // never below 0
			l.expect("count T T 0 0 -1", l.look("0"))
			l.expect("count T T 0 0 -1", l.look(l.field("since")))
			l.expect("held T 0 0 hf2:-:0:0:0:", l.join("E", 60000))
			told(0)
			l.kept(86400000)
		},
		"joined": func(l parties) {
			l.expect("granted T P T 1", l.join("A", 60000))
			l.expect("granted T P T 1", l.join("A", 60000)) // the same again
			l.expect("granted T P T 1", l.join("B", 60000))
			l.expect("count T T 3 0 P", l.look("0"))
			l.expect("counted T 2", l.count("X"))
			l.expect("taken T 2", l.count("Y"))
			l.begins("held ", l.join("C", 60000))
			l.expect("released T", l.end("A", "done"))
			l.expect("released T", l.end("A", "done")) // the same again
			l.expect("gone T", l.end("C", "done"))
			l.expect("gone T", l.end("C", "done"))
			l.expect("count T T 1 0 P", l.look("0"))
			l.rdb.PExpire(l.t.Context(), "{k}", 30*time.Second) // as if a day had passed without another use
			l.expect("renewed T P 0 0", l.eval(script.ShareRenew(), "", "B", 60000, 0, shares{l.bench, l.kind, l.n}.hold("B").fence))
			l.kept(60000)
			l.expect("released T", l.end("B", "done"))
			l.kept(86400000)
			l.expect("count T T 0 0 -1", l.look("0"))
		},
		// While the queue's key has another type, a party cannot be counted down. Its hold stays, and can be released later.
		"done beside a queue of another type": func(l parties) {
			l.expect("granted T P T 1", l.join("A", 60000))
			l.rdb.Set(l.t.Context(), "{k}:q", "theirs", 0)
			l.expect("error WRONGTYPE Operation against a key holding the wrong kind of value", l.end("A", "done"))
			l.expect("count T T 3 0 P", l.look("0"))
			l.rdb.Del(l.t.Context(), "{k}:q")
			l.expect("released T", l.end("A", "done"))
			l.expect("count T T 2 0 -1", l.look("0"))
			l.gone("the index", "{k}:q:e")
		},
		"joined for longer than it is kept": func(l parties) {
			l.expect("granted T 2 days T 1", strings.Replace(l.join("A", 2*86400000), "172800000", "2 days", 1))
			l.expect("granted T P T 1", l.join("B", 60000))
			for _, uses := range []func(){
				func() { l.expect("counted T 2", l.count("X")) },
				func() { l.expect("released T", l.end("B", "done")) },
				func() { l.expect("released T", l.end("B", "done")) },
			} {
				uses()
				if left := l.rdb.PTTL(l.t.Context(), "{k}").Val(); left < 47*time.Hour {
					l.t.Errorf("it is kept for %s, and one of its parties has joined for two days", left)
				}
			}
		},
		"at 0, and a copy comes after a reset": func(l parties) {
			for _, id := range []string{"A", "B", "C"} {
				l.count(id)
			}
			l.expect("counted T 0", l.count("D"))
			l.expect("reset T", l.eval(script.LatchReset(), "", "R", 3, l.later(time.Minute)))
			l.expect("counted T 3", l.count("D"))
			l.expect("counted T 2", l.count("E"))
		},
		"reset again and again": func(l parties) {
			// Each time before anybody's hold expires, so that none is swept out.
			l.expect("granted T P T 1", l.join("long", 60000))
			l.expect("reset T", l.reset("R"))
			for _, token := range []string{"A", "B", "C"} {
				l.expect("granted T 1500 T 1", l.join(token, 1500))
				l.expect("reset T", l.reset("R"+token))
			}
			time.Sleep(1600 * time.Millisecond)
			l.expect("granted T P T 1", l.join("D", 60000))
			l.expect("reset T", l.reset("RD"))
			if all := l.rdb.ZRange(l.t.Context(), "{k}:q:e", 0, -1).Val(); len(all) != 2 {
				l.t.Errorf("the index has %q, of which only two would not have expired", all)
			}
		},
		"refused, and a copy comes when there is room": func(l parties) {
			for _, token := range []string{"A", "B", "C"} {
				l.expect("granted T P T 1", l.join(token, 60000))
			}
			l.expect("taken T 3", l.count("X"))
			l.expect("released T", l.end("A", ""))
			l.expect("taken T 3", l.count("X")) // the caller was told that it has not counted
			l.expect("count T T 3 0 P", l.look("0"))
			l.expect("counted T 2", l.count("Y"))
			l.expect("taken T 2", l.count("X"))
		},
		"joined, and ended otherwise": func(l parties) {
			told := l.told()
			l.expect("granted T P T 1", l.join("A", 60000))
			l.expect("granted T P T 1", l.join("B", 60000))
			l.expect("granted T P T 1", l.join("C", 60000))
			l.expect("released T", l.end("A", "")) // it never knew
			l.expect("count T T 3 0 P", l.look("0"))
			l.expect("gone T", l.join("A", 60000)) // a late copy
			l.expect("granted T 10 T 1", l.join("D", 10))
			l.dead("D")
			if got := l.look("0"); !strings.HasPrefix(got, "count T T 2 1 ") { // a look shows it
				l.t.Errorf("after a death: %s", got)
			}
			l.expect("gone T", l.end("D", "done"))
			l.expect("gone T", l.end("D", "done"))
			l.expect("released T", l.end("B", "left"))
			l.expect("gone T", l.end("B", "left"))
			told(0)
			l.expect("released T", l.end("C", "died"))
			l.expect("count T T 0 3 -1", l.look("0"))
			told(1)
		},
		// Another party's release, or any script but a renewal, finds the dead party, and announces it.
		"dies": func(l parties) {
			told := l.told()
			l.expect("granted T P T 1", l.join("A", 60000))
			l.expect("granted T 10 T 1", l.join("B", 10))
			l.expect("granted T 10 T 1", l.join("C", 10))
			l.expect("released T", l.end("A", "done"))
			l.dead("B")
			l.dead("C")
			l.expect("absent T", l.end("A", "left"))
			told(1)
			l.expect("count T T 0 2 -1", l.look("0"))
		},
		// A waiter for a count that had opened is told so, even if the latch has been deleted since.
		"deleted": func(l parties) {
			remove := func(id string) string {
				return l.eval(script.LatchReset(), "", id, 0, l.later(time.Minute))
			}
			l.expect("reset T", remove("R"))
			l.gone("a latch that was not there", "{k}")
			for _, id := range []string{"A", "B", "C"} {
				l.count(id)
			}
			open := l.field("since")
			l.expect("reset T", remove("S"))
			l.expect("reset T", remove("S")) // the same again
			l.expect("reset T", remove("U"))
			l.kept(60000)
			l.expect("opened T 0", l.look(open))
			l.kept(60000)
			l.expect("count T T 3 0 -1", l.look("0"))
			l.expect("opened T 0", l.look(open))
			l.kept(86400000)
			begun := l.field("since")
			l.expect("granted T P T 1", l.join("D", 60000))
			l.expect("reset T", remove("V"))
			l.expect("reset T", l.look(begun))
			l.expect("absent T", l.end("D", "done"))
			l.gone("the index", "{k}:q:e")
			l.expect("granted T P T 1", l.join("E", 60000))
			l.expect("count T T 3 0 P", l.look("0"))
		},
		"begun anew": func(l parties) {
			told := l.told()
			l.expect("counted T 2", l.count("A"))
			first := l.field("since")
			l.expect("granted T P T 1", l.join("B", 60000))
			l.expect("reset T", l.reset("R"))
			told(1)
			l.expect("reset T", l.look(first)) // it had not opened
			l.expect("counted T 2", l.count("C"))
			l.expect("reset T", l.reset("R")) // the same again
			l.expect("count T T 2 0 -1", l.look("0"))
			l.expect("granted T P T 1", l.join("X", 60000))
			l.expect("released T", l.end("X", ""))
			l.expect("count T T 2 0 -1", l.look("0"))
			if kept := l.rdb.PTTL(l.t.Context(), "{k}:q:e").Val(); kept <= 0 || kept > time.Minute {
				l.t.Errorf("the token of a party that the reset has ended is kept for %s", kept)
			}
			l.expect("superseded T", l.end("B", "done")) // of the first count
			second := l.field("since")
			if second <= first {
				l.t.Errorf("the count of %s follows that of %s", second, first)
			}
			l.expect("counted T 1", l.count("D"))
			l.expect("granted T P T 1", l.join("E", 60000))
			l.expect("released T", l.end("E", "left"))
			l.expect("reset T", l.reset("S"))
			l.expect("opened T 1", l.look(second))
			l.expect("reset T", l.reset("T")) // that had not opened: the second still counts
			l.expect("opened T 1", l.look(second))
			l.expect("reset T", l.look(first))
			five := parties{l.bench, l.kind, 5}
			l.expect("error BADPARTIES it has 3 parties now, not 5", five.count("F"))
			l.expect("error BADPARTIES it has 3 parties now, not 5", five.join("F", 60000))
			l.expect("error BADPARTIES it has 3 parties now, not 5", five.look("0"))
			l.expect("opened T 1", five.look(second))
			l.expect("reset T", five.reset("U"))
			l.expect("count T T 5 0 -1", five.look("0"))
		},
		"too late": func(l parties) {
			l.expect("late T", l.eval(script.LatchCount(), "", "A", 3, l.later(-time.Second)))
			l.expect("late T", l.eval(script.LatchReset(), "", "A", 3, l.later(-time.Second)))
			l.gone("keys", "{k}", "{k}:q")
			l.expect("reset T", l.look("1795225854057495")) // of a count that was lost
			l.gone("keys after a look", "{k}", "{k}:q")
		},
		// Requests that need not be remembered any more are forgotten, however often the latch is counted down.
		"counts on": func(l parties) {
			for _, id := range []string{"d:old", "x:old"} {
				l.rdb.ZAdd(l.t.Context(), "{k}:q", redis.Z{Score: float64(-l.later(-time.Second)), Member: id})
			}
			l.expect("counted T 2", l.count("A"))
			l.expect("counted T 1", l.count("B"))
			if all := l.rdb.ZRange(l.t.Context(), "{k}:q", 0, -1).Val(); len(all) != 2 {
				l.t.Errorf("it remembers %q", all)
			}
			l.lastsFor("{k}:q", 60000)
		},
		"another kind": func(l parties) {
			l.expect("counted T 2", l.count("A"))
			const bad = "error BADKIND the key holds another kind of lock, or something else"
			for _, kind := range []string{"bar", "sem", "rw"} {
				l.expect(bad, parties{l.bench, kind, 3}.join("B", 60000))
			}
			l.expect(bad, l.await("B", 1, 0))
			l.expect(bad, l.withdraw("B", 1))
			l.rdb.Del(l.t.Context(), "{k}")
			l.expect("granted T P T 1", parties{l.bench, "bar", 3}.join("B", 60000))
			l.expect(bad, l.count("A2"))
			l.expect(bad, l.reset("A2"))
			l.expect(bad, l.look("0"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(_ *testing.T, b bench) { test(parties{b, "latch", 3}) })
		})
	}
}

func TestBarrier(t *testing.T) {
	for name, test := range map[string]func(b parties){
		"trips": func(b parties) {
			told := b.told()
			for _, token := range []string{"A", "B", "C"} {
				b.expect("granted T P T 1", b.join(token, 60000))
			}
			b.expect("waiting T P 1 1", b.await("A", 1, 0))
			b.expect("waiting T P 1 1", b.await("A", 1, 0)) // the same again
			b.expect("waiting T P 1 1", b.await("A", 1, 1))
			b.expect("waiting T P 1 2", b.await("B", 1, 0))
			told(0)
			b.expect("tripped T 1", b.await("C", 1, 0))
			b.expect("tripped T 1", b.await("C", 1, 0))
			told(1)
			b.expect("waiting T P 2 1", b.await("C", 2, 2)) // before the others have looked
			b.expect("tripped T 1", b.await("A", 1, 1))
			b.expect("tripped T 1", b.await("B", 1, 0))
			b.expect("waiting T P 2 2", b.await("A", 2, 2))
			b.expect("stale T", b.await("A", 1, 1))
			b.expect("tripped T 2", b.await("B", 2, 2))
			told(1)
			b.expect("gone T", b.await("X", 1, 0))
			for _, token := range []string{"A", "B", "C"} {
				b.expect("released T", b.end(token, "left"))
			}
			b.gone("the barrier", "{k}")
		},
		"breaks": func(b parties) {
			told := b.told()
			for _, token := range []string{"A", "B"} {
				b.expect("granted T P T 1", b.join(token, 60000))
			}
			b.expect("waiting T P 1 1", b.await("A", 1, 0))
			b.expect("granted T 10 T 1", b.join("C", 10))
			b.dead("C")
			b.expect("broken T 1 2 died "+info, b.await("A", 1, 1)) // a look shows it
			told(1)
			b.expect("broken T 1 2 died "+info, b.await("A", 1, 1))
			b.expect("waiting T P 2 1", b.await("A", 2, 2))
			b.expect("broken T 1 2 died "+info, b.await("B", 1, 0)) // it was a party when the phase broke
			b.expect("granted T P T 1", b.join("D", 60000))
			b.expect("waiting T P 2 2", b.await("D", 1, 0))
			b.expect("released T", b.end("D", "left")) // with its arrival
			told(1)
			b.expect("broken T 2 3 left "+info, b.await("B", 2, 2))
			b.expect("waiting T P 3 1", b.await("B", 3, 3))
			b.expect("broken T 2 3 left "+info, b.await("A", 2, 2))
			b.expect("waiting T P 3 2", b.await("A", 3, 3))
			b.expect("granted T P T 1", b.join("E", 60000))
			b.expect("released T", b.end("E", "")) // it never knew that it was one
			told(0)
			b.expect("granted T P T 1", b.join("F", 60000))
			b.expect("tripped T 3", b.await("F", 1, 0))
			b.expect("tripped T 3", b.await("A", 3, 3))
			// Two phases break, and one party has seen neither.
			b.expect("released T", b.end("B", "left"))
			b.expect("released T", b.end("F", "died"))
			b.expect("broken T 4 6 died "+info, b.await("A", 4, 4))
			b.expect("waiting T P 6 1", b.await("A", 5, 6))
			expect.Equal(b.t, "fields left of those who ended", strings.Count(fmt.Sprint(b.rdb.HKeys(b.t.Context(), "{k}").Val()), "@"), 1)
		},
		"given up": func(b parties) {
			for _, token := range []string{"A", "B", "C"} {
				b.expect("granted T P T 1", b.join(token, 60000))
			}
			b.expect("waiting T P 1 1", b.await("A", 1, 0))
			b.expect("withdrawn T", b.withdraw("A", 1))
			b.expect("withdrawn T", b.withdraw("A", 1)) // the same again
			b.expect("stale T", b.await("A", 1, 0))     // a late copy
			b.expect("withdrawn T", b.withdraw("B", 1)) // before the arrival
			b.expect("stale T", b.await("B", 1, 0))
			b.expect("waiting T P 1 1", b.await("B", 2, 0))
			b.expect("stale T", b.withdraw("B", 1)) // it is late itself
			b.expect("waiting T P 1 1", b.await("B", 3, 1))
			b.expect("waiting T P 1 2", b.await("C", 1, 0))
			b.expect("tripped T 1", b.await("A", 2, 1))
			b.expect("withdrawn T", b.withdraw("B", 3)) // a phase that has tripped stays so
			b.expect("tripped T 1", b.await("B", 4, 1))
			b.expect("withdrawn T", b.withdraw("C", 1))
			b.expect("tripped T 1", b.await("C", 2, 0))
			b.expect("waiting T P 2 1", b.await("A", 3, 2))
			b.expect("gone T", b.withdraw("X", 1))
		},
		"parties": func(b parties) {
			for _, token := range []string{"A", "B", "C"} {
				b.expect("granted T P T 1", b.join(token, 60000))
			}
			four := parties{b.bench, b.kind, 4}
			b.expect("error BADPARTIES it has 3 parties now, not 4", four.join("D", 60000))
			b.expect("error BADPARTIES it has 3 parties now, not 4", four.await("A", 1, 0))
			messages := b.listen("D")
			b.expect("queued T P T 1 1 ours", b.eval(script.ShareAcquire(), "w", "D", 60000, 0, 1, info, "bar", 3, 1, claim, "channel-D", ""))
			b.expect("released T", b.end("A", "left"))
			b.expect("hf2 bar D T P T {k}", b.heard(messages))
			b.expect("waiting T P 2 1", b.await("D", 1, 0)) // it came when the first was broken
			// A party that finds another one dead serves the waiter.
			b.expect("released T", b.end("B", "left"))
			messages = b.listen("E")
			b.expect("granted T 2000 T 1", b.join("X", 2000)) // E is queued before it dies
			b.begins("queued ", b.eval(script.ShareAcquire(), "w", "E", 60000, 0, 1, info, "bar", 3, 1, claim, "channel-E", ""))
			b.dead("X")
			b.expect("broken T 1 4 died "+info, b.await("C", 1, 0))
			b.expect("hf2 bar E T P T {k}", b.heard(messages))
		},
		// A failover has lost the trip of a phase of which one party was told.
		"loses a phase": func(b parties) {
			for _, token := range []string{"A", "B", "C"} {
				b.expect("granted T P T 1", b.join(token, 60000))
			}
			b.expect("waiting T P 1 1", b.await("A", 1, 0))
			b.expect("waiting T P 1 2", b.await("B", 1, 0))
			lost := b.rdb.HGetAll(b.t.Context(), "{k}").Val()
			b.expect("tripped T 1", b.await("C", 1, 0))
			b.rdb.HSet(b.t.Context(), "{k}", lost)
			told := b.told()
			b.expect("waiting T P 1 2", b.await("A", 1, 1))
			b.expect("waiting T P 2 1", b.await("C", 2, 2))
			told(1)
			b.expect("tripped T 1", b.await("A", 1, 1))
			b.expect("tripped T 1", b.await("B", 1, 1))
			b.expect("waiting T P 2 2", b.await("A", 2, 2))
			b.expect("tripped T 2", b.await("B", 2, 2))
		},
		// Anybody who may publish can make a client send a release for any token.
		"a token that is the name of another field": func(b parties) {
			b.expect("granted T P T 1", b.join("A", 60000))
			b.expect("waiting T P 1 1", b.await("A", 1, 0))
			before := b.rdb.HGetAll(b.t.Context(), "{k}").Val()
			for field := range before {
				if field == "A" {
					continue
				}
				b.expect("gone T", b.eval(script.ShareRelease(), "", field, "", 0, ""))
				b.expect("gone T", b.await(field, 1, 0))
				b.expect("gone T", b.withdraw(field, 1))
			}
			expect.Equal(b.t, "the barrier", fmt.Sprint(b.rdb.HGetAll(b.t.Context(), "{k}").Val()), fmt.Sprint(before))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(_ *testing.T, b bench) { test(parties{b, "bar", 3}) })
		})
	}
}

// Fault: The server is out of memory. A party that has begun can end, and count down.
func TestPartiesOutOfMemory(t *testing.T) {
	onEachReal(t, func(t *testing.T, bench bench) {
		l, b := parties{bench, "latch", 3}, parties{bench, "bar", 2}
		l.expect("granted T P T 1", l.join("A", 60000))
		l.rdb.Rename(t.Context(), "{k}", "{k}latch")
		b.expect("granted T P T 1", b.join("A", 60000))
		b.expect("granted T P T 1", b.join("B", 60000))
		b.rdb.Rename(t.Context(), "{k}", "{k}barrier")
		l.configure("maxmemory", "1")
		l.begins("error OOM", l.count("X"))
		l.rdb.Rename(t.Context(), "{k}latch", "{k}")
		l.expect("counted T 2", l.count("X"))
		l.expect("counted T 2", l.count("X"))
		l.expect("released T", l.end("A", "done"))
		l.expect("released T", l.end("A", "done"))
		l.expect("reset T", l.reset("R"))
		l.expect("count T T 3 0 -1", l.look("0"))
		l.rdb.Rename(t.Context(), "{k}barrier", "{k}")
		b.expect("waiting T P 1 1", b.await("A", 1, 0))
		b.expect("withdrawn T", b.withdraw("A", 1))
		b.expect("waiting T P 1 1", b.await("A", 2, 0))
		b.expect("tripped T 1", b.await("B", 1, 0))
		b.expect("released T", b.end("B", "left"))
		b.expect("broken T 2 3 left "+info, b.await("A", 3, 2))
	})
}
