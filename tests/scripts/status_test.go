package scripts

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
)

// status asks for the status of a lock of that kind, with all its holders and waiters.
func (b bench) status(kind string) string {
	b.t.Helper()
	return b.eval(script.Status(), "", "x", kind, 0, 500, 1000)
}

// holder tells, by the lock's status, who holds it: 'held NOW PTTL WAITERS VALUE' or 'free NOW WAITERS'.
func (b bench) holder() string {
	b.t.Helper()
	head, hold, isHeld := strings.Cut(b.eval(script.Status(), "", "x", "", 0, 1, 0), "\n")
	words := strings.Fields(head)
	if !isHeld {
		return "free " + words[1] + " " + words[6]
	}
	told := strings.SplitN(hold, " ", 3)
	return "held " + words[1] + " " + told[0] + " " + words[6] + " " + told[2]
}

// rest is what is left of a hold that lasts for centuries.
var rest = regexp.MustCompile(`\n\d{12,} `)

// put adds these texts to the queue, in order.
func (b bench) put(members ...string) {
	b.t.Helper()
	for i, m := range members {
		b.rdb.ZAdd(b.t.Context(), "{k}:q", redis.Z{Score: float64(15 + i), Member: m})
	}
}

// Whatever has a mutex's key.
func TestStatusOfAMutex(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		for _, f := range []form{plain, rlock} {
			b := newBench(t, b.back)
			b.rdb.FlushAll(t.Context())
			b.form = f
			kind := "mutex"
			if f.field != "" {
				kind = "redisson"
			}
			b.expect("status T nothing 0 0 -1 0 0 0", b.status(kind))
			b.acquire("t", "A")
			b.expect("status T "+kind+" 0 0 -1 0 0 1\nP 0 hf2:A:T:T:0:"+info, b.status(kind))
			// Scores decide, and tombstones wait for nothing.
			b.put("B\n30000\nchannel-B\n{\"o\":\"b\"}", "A\n30000\nchannel-A\n{\"o\":\"a\"}", "no waiter's", "C\n30000\nchannel-C\n")
			b.rdb.ZAdd(t.Context(), "{k}:q", redis.Z{Score: -9e15, Member: "x:B"}, redis.Z{Score: 9e15 + 1e14, Member: "D\n1\nd\n{\"o\":\n\"d\"}"})
			queue := "\n15 0 {\"o\":\"b\"}\n16 0 {\"o\":\"a\"}\n17 0 \n18 0 \n0 0 {\"o\": \"d\"}"
			b.expect("status T "+kind+" 0 0 -1 5 0 1\nP 0 hf2:A:T:T:0:"+info+queue, b.status(kind))
			b.expect("status T "+kind+" 0 0 -1 5 0 1\nP 0 hf2:A:T:T:0:"+info+queue[:15], b.eval(script.Status(), "", "x", kind, 0, 500, 1))
			b.expect("status T "+kind+" 0 0 -1 5 0 1\nP 0 hf2:A:T:T:0:"+info, b.eval(script.Status(), "", "x", kind, 0, 500, 0))
			b.begins("error BADKIND ", b.status("sem"))

			b.rdb.Del(t.Context(), "{k}")
			b.expect("status T nothing 0 0 -1 5 0 0"+queue, b.status(kind))
			b.take()
			foreign := kind
			if f.field == "" {
				foreign = "foreign"
			}
			b.expect("status T "+foreign+" 0 0 -1 5 0 1\nP 0 "+queue, b.status(kind))
			b.theirsIsIntact()
			b.rdb.Del(t.Context(), "{k}")
			b.rdb.RPush(t.Context(), "{k}", "a list")
			b.expect("status T foreign 0 0 -1 5 0 1\n-1 0 "+queue, b.status(kind))
		}
	})
}

// A lock that several may hold. TestStatusNamesWaitersInTheirOrder and TestStatusTellsTheServersLimit have every kind.
func TestStatusOfShares(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		hold := "\nP 1 hf2:A:T:T:0:" + info
		all := strconv.Itoa(everything)
		rw := readWrite(b)
		rw.acquire("t", "A", 1)
		b.put(heavy("B", everything), heavy("C", 1), "no waiter's", "D\n30000\nchannel-D\n"+info)
		waiters := "\n15 " + all + " " + info + "\n16 1 " + info + "\n17 0 \n18 0 "
		b.expect("status T rw T "+all+" -1 4 0 1"+hold+waiters, b.status("rw"))
		for _, other := range []string{"mutex", "redisson", "sem", "own"} {
			b.begins("error BADKIND ", b.status(other))
		}
		// Without a kind nobody knows what the queue's entries mean.
		b.expect("status T rw T "+all+" -1 4 0 1"+hold, b.status(""))
		rw.age([]string{"A"}) // and is not swept out
		b.expect("status T rw T "+all+" -1 4 0 0"+waiters, b.status("rw"))

		// What others wrote stays within its own line, and counts as a number only if it is one.
		b.rdb.FlushAll(t.Context())
		b.rdb.HSet(t.Context(), "{k}", "kind", "sem", "limit", "1e300", "fence", "many", "count", "-1", "A", "9000000000000000:1:2:3:a\n5 5 hf2:B:1:1:0:{}")
		b.expect("status T sem 0 0 0 0 0 1\nT 1 hf2:A:2:3:0:a 5 5 hf2:B:1:1:0:{}", rest.ReplaceAllString(b.status("sem"), "\nT "))
		b.rdb.HSet(t.Context(), "{k}", "kind", "none of ours")
		b.expect("status T foreign 0 0 -1 0 0 1\n-1 0 ", b.status("sem"))
		b.rdb.Del(t.Context(), "{k}:q")
		b.rdb.Set(t.Context(), "{k}:q", "x", 0)
		b.begins("error WRONGTYPE ", b.status("sem"))
	})
}

// Entries of any size make a reply of bounded size.
func TestStatusOfLongTexts(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		long := strings.Repeat("x", 1<<20)
		b.put(long, "B\n1\nb\n"+long, "C\n1\nc\n"+info)
		b.rdb.Set(t.Context(), "{k}", "hf2:A:7:1700000000000:0:"+long, 0)
		if reply := b.status("mutex"); len(reply) > 8000 || !strings.HasSuffix(reply, " 0 "+info) {
			t.Errorf("the reply has %d bytes", len(reply))
		}
	})
}
