package scripts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

const (
	journal = "{k}:journal"
	remark  = `{"b":"ann"}`
)

// breaks breaks the grant with that id, under an id of the request. The tokens of these tests are shorter than a grant id, so they
// are their own.
func (b bench) breaks(s script.Script, id, grant string) string {
	b.t.Helper()
	return seen(b.breaking(s, "", id, grant, b.later(time.Minute)))
}

func (b bench) breaking(s script.Script, flags, id, grant string, notAfter int64) string {
	b.t.Helper()
	kind := "mutex"
	if s.Name == script.ShareBreak().Name {
		kind = "sem"
	}
	return b.on(append(keysFor(s), journal), s, flags+b.flag, id, grant, notAfter, kind, remark, "channel-h")
}

// notes returns what the journal has.
func (b bench) notes(skip, count int) string {
	b.t.Helper()
	return seen(b.on([]string{journal}, script.Notes(), "", "", skip, count))
}

func TestBreak(t *testing.T) {
	for name, test := range map[string]func(b bench){
		"the grant that was seen": func(b bench) {
			const token, grant = "k3v9x2abQEFBgcICQoLDA0", "k3v9x2ab"
			b.expect("free T", b.breaks(script.Break(), "I", grant))
			b.acquire("t", token)
			told := b.listen("h")
			for _, other := range []string{"k3v9x2aB", "k3v9x2a", token, b.fence(), ""} {
				b.expect("changed T P 0 hf2:"+token+":T:T:0:"+info, b.breaks(script.Break(), "I", other))
			}
			b.expect("broken T T\nP 0 hf2:"+grant+":T:T:0:"+info, b.breaks(script.Break(), "I", grant))
			b.expect("hf2 broken T "+grant+" T {k}\n"+remark, b.heard(told))
			b.expect("free T 0", b.holder())
			b.expect("absent T", b.renew(token, 60000, 0))
			b.expect("notes T 1\nT\nhf2 broken I "+grant+" T T mutex {k}\n"+remark+"\nP 0 hf2:"+grant+":T:T:0:"+info, b.notes(0, 10))
		},
		"a fence that is not known yet": func(b bench) {
			b.acquire("t", "A")
			if b.field == "" {
				b.rdb.Set(b.t.Context(), "{k}", strings.Replace(b.read(), b.fence(), "0", 1), redis.KeepTTL)
			} else {
				b.rdb.HSet(b.t.Context(), "{k}", b.field, strings.Replace(b.read(), b.fence(), "0", 1))
			}
			told := b.listen("h")
			b.expect("broken T T\nP 0 hf2:A:0:T:0:"+info, b.breaks(script.Break(), "I", "A"))
			b.expect("hf2 broken T A 0 {k}\n"+remark, b.heard(told))
			b.expect("notes T 1\nT\nhf2 broken I A 0 T mutex {k}\n"+remark+"\nP 0 hf2:A:0:T:0:"+info, b.notes(0, 10))
		},
		"handed over": func(b bench) {
			b.acquire("t", "A")
			fence := b.fence()
			first, second := b.listen("B"), b.listen("C")
			b.acquire("w", "B")
			b.acquire("w", "C")
			reply := b.breaking(script.Break(), "", "I", "A", b.later(time.Minute))
			granted := strings.Fields(b.raw(first))
			var raised string
			if _, err := fmt.Sscanf(reply, "broken %s %s", new(string), &raised); err != nil || number(raised) <= number(fence) || number(granted[5]) <= number(raised) {
				b.t.Errorf("the fences are %s, %s and %s: %v", fence, raised, granted[5], err)
			}
			b.expect("hf2 standby C T T", b.heard(second))
			b.expect("gone T", b.renew("A", 60000, 0))
			b.expect("gone T", b.release("A", "", 0))
			// The holder was another's by then.
			b.expect("changed T P 0 hf2:B:T:T:0:"+info+"+", b.breaks(script.Break(), "J", "A"))
		},
		"sent again": func(b bench) {
			b.acquire("t", "A")
			notAfter := b.later(time.Minute)
			once := strings.SplitN(b.breaking(script.Break(), "", "I", "A", notAfter), " ", 3)
			b.acquire("t", "B")
			again := strings.SplitN(b.breaking(script.Break(), "", "I", "A", notAfter), " ", 3)
			if once[0] != "broken" || again[0] != once[0] || again[2] != once[2] {
				b.t.Errorf("the replies are %q and %q", once, again)
			}
			b.expect("renewed T P 0 0", b.renew("B", 60000, 0))
			b.expect("notes T 1", strings.SplitN(b.notes(0, 10), "\n", 2)[0])
		},
		"late": func(b bench) {
			b.acquire("t", "A")
			b.expect("late T", seen(b.breaking(script.Break(), "", "I", "A", b.later(0)-1)))
			b.expect("renewed T P 0 0", b.renew("A", 60000, 0))
			b.expect("notes T 0", b.notes(0, 10))
		},
		"a late copy of its acquire": func(b bench) {
			b.acquire("t", "A")
			b.breaks(script.Break(), "I", "A")
			b.expect("gone T", b.acquire("t", "A"))
			b.expect("granted T P T 1", b.acquire("t", "B"))
		},
		"another program's": func(b bench) {
			b.take()
			for _, grant := range []string{"17", ""} {
				b.expect("changed", strings.Fields(b.breaks(script.Break(), "I", grant))[0])
			}
			b.theirsIsIntact()
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, b bench) {
				for _, f := range []form{plain, rlock} {
					b := newBench(t, b.back)
					b.form = f
					b.rdb.FlushAll(t.Context())
					if f.name == rlock.name && name != "the grant that was seen" && name != "a fence that is not known yet" && name != "another program's" {
						continue
					}
					test(b)
				}
			})
		})
	}
}

func TestShareBreak(t *testing.T) {
	cases(t, onEach, map[string]func(b bench){
		"one permit of three": func(b bench) {
			l := semaphore(b, 3)
			for _, token := range []string{"A", "B", "C"} {
				l.acquire("t", token, 1)
			}
			next := b.listen("D")
			l.acquire("w", "D", 1)
			fence := fmt.Sprint(l.hold("B").fence)
			for _, other := range []string{"E", "", "holds", fence} {
				b.expect("changed T P 0 hf2:C:T:T:0:"+info, b.breaks(script.ShareBreak(), "I", other))
			}
			b.expect("broken T T\nP 1 hf2:B:T:T:0:"+info, b.breaks(script.ShareBreak(), "I", "B"))
			b.expect("notes T 1\nT\nhf2 broken I B T T sem {k}\n"+remark+"\nP 1 hf2:B:T:T:0:"+info, b.notes(0, 10))
			b.expect("hf2 sem D T P T {k}", b.heard(next))
			b.expect("gone T", b.eval(script.ShareRenew(), "", "B", 60000, 0, fence))
			b.expect("gone T", l.acquire("t", "B", 1)) // a late copy
			b.expect("renewed T P 0 0", l.renew("A", 60000, 0))
			for _, token := range []string{"A", "C", "D"} {
				b.expect("released T", l.release(token, "", 0))
			}
			b.expect("free T", b.breaks(script.ShareBreak(), "J", "B"))
		},
		"one of many readers": func(b bench) {
			l := readWrite(b)
			const readers = 1100
			for i := range readers {
				l.acquire("t", fmt.Sprint("R", i), 1)
			}
			notAfter := b.later(time.Minute)
			once := strings.SplitN(b.breaking(script.ShareBreak(), "", "I", "R1098", notAfter), " ", 3)
			again := strings.SplitN(b.breaking(script.ShareBreak(), "", "I", "R1098", notAfter), " ", 3)
			if once[0] != "broken" || again[0] != once[0] || again[2] != once[2] {
				b.t.Errorf("the replies are %.200q and %.200q", once, again)
			}
			b.expect("gone T", l.acquire("t", "R1098", 1)) // a late copy
			// The others have the same fence, and keep the lock.
			next := b.listen("W")
			l.acquire("w", "W", everything)
			for i := range readers {
				if i != 1098 {
					b.expect("released T", l.release(fmt.Sprint("R", i), "", 0))
				}
			}
			if got := strings.Fields(b.heard(next)); got[1] != "rw" || got[2] != "W" {
				b.t.Errorf("the writer heard %q", got)
			}
		},
	})
}

// A break that cannot be recorded, or has no fence, changes nothing, and is not remembered as one that did.
func TestBreakWithoutAJournal(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		wrong := func(what string, s script.Script) {
			b.t.Helper()
			b.rdb.Set(t.Context(), journal, "another program's", 0)
			for range 2 { // the second is the same request, sent again
				b.begins("error WRONGTYPE", b.breaks(s, "I", "A"))
			}
			b.rdb.Del(t.Context(), journal)
			b.rdb.Rename(t.Context(), "{k}:f", "{k}:kept")
			b.rdb.Set(t.Context(), "{k}:f", "another program's", 0)
			b.begins("error ", b.breaks(s, "I", "A"))
			b.rdb.Rename(t.Context(), "{k}:kept", "{k}:f")
		}
		b.rdb.FlushAll(t.Context())
		b.acquire("t", "A")
		wrong("a mutex", script.Break())
		b.expect("renewed T P 0 0", b.renew("A", 60000, 0))
		b.expect("broken", strings.Fields(b.breaks(script.Break(), "I", "A"))[0])

		b.rdb.FlushAll(t.Context())
		l := semaphore(b, 3)
		l.acquire("t", "A", 1)
		wrong("a semaphore", script.ShareBreak())
		b.expect("renewed T P 0 0", l.renew("A", 60000, 0))
		b.expect("broken", strings.Fields(b.breaks(script.ShareBreak(), "I", "A"))[0])
	})
}

// The journal keeps the latest entries, and tells them in pages, the latest first, without those that are none.
func TestJournal(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		note := func(id string) {
			b.t.Helper()
			b.begins("noted ", b.on([]string{journal}, script.Note(), "", id, "channel-h", "revoked", "k3v9x2ab", 17, 0, "mutex", "{k}", remark, ""))
		}
		b.expect("notes T 0", b.notes(0, 3))
		for i := range 5 {
			note(fmt.Sprint("I", i))
		}
		note("I4") // sent again
		entry := func(id string) string { return "\nT\nhf2 revoked " + id + " k3v9x2ab 17 0 mutex {k}\n" + remark + "\n" }
		b.expect("notes T 2"+entry("I4")+entry("I3"), b.notes(0, 2))
		b.expect("notes T 2"+entry("I2")+entry("I1"), b.notes(2, 2))
		b.expect("notes T 1"+entry("I0"), b.notes(4, 2))
		b.expect("notes T 0", b.notes(5, 2))
		b.rdb.ZAdd(t.Context(), journal, redis.Z{Score: 9e15, Member: "rubbish"}, redis.Z{Score: 9e15, Member: "hf2 broken x\ny"})
		b.expect("notes T 3"+entry("I4"), b.notes(0, 3))
		for i := range 1200 {
			note(fmt.Sprint("J", i))
		}
		// The server's clock was ahead by an hour, and somebody has written what is further ahead.
		b.rdb.ZAdd(t.Context(), journal, redis.Z{Score: float64(b.later(time.Hour)), Member: "hf2 revoked K k3v9x2ab 17 0 mutex {k}\n" + remark + "\n"}, redis.Z{Score: 9e15, Member: "rubbish"})
		note("L")
		b.begins("notes T 2"+entry("L")+"\nT\nhf2 revoked K ", b.notes(0, 2))
		expect.Between(t, "its entries", b.rdb.ZCard(t.Context(), journal).Val(), 1000, 1100)
	})
}
