package scripts

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// status asks for the status of a lock of that kind, with all its holders and waiters.
func (b bench) status(kind string) string {
	b.t.Helper()
	return b.eval(script.Status(), "", "x", kind, 0, 500, 1000)
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
	t.Parallel()
	backend.Each(t, func(t *testing.T, back *backend.Backend) {
		for _, f := range []form{plain, rlock} {
			b := newBench(t, back)
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
			if got := b.status("sem"); !strings.HasPrefix(got, "error BADKIND ") {
				t.Errorf("a semaphore of that name: %q", got)
			}

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

// A lock that several may hold.
func TestStatusOfShares(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, back *backend.Backend) {
		b := newBench(t, back)
		start := func() { b.rdb.FlushAll(t.Context()) }
		hold := func(weight string) string { return "\nP " + weight + " hf2:A:T:T:0:" + info }
		all := strconv.Itoa(everything)

		start()
		rw := readWrite(b)
		rw.acquire("t", "A", 1)
		b.put(heavy("B", everything), heavy("C", 1))
		b.expect("status T rw T "+all+" -1 2 0 1"+hold("1")+"\n15 "+all+" "+info+"\n16 1 "+info, b.status("rw"))
		for _, other := range []string{"mutex", "redisson", "sem", "own"} {
			if got := b.status(other); !strings.HasPrefix(got, "error BADKIND ") {
				t.Errorf("a read-write lock as %s: %q", other, got)
			}
		}
		// Without a kind nobody knows what the queue's entries mean.
		b.expect("status T rw T "+all+" -1 2 0 1"+hold("1"), b.status(""))

		start()
		s := semaphore(b, 5)
		b.expect("status T nothing 0 0 -1 0 0 0", b.status("sem"))
		s.acquire("t", "A", 3)
		b.put(heavy("B", 4), "no waiter's", "C\n30000\nchannel-C\n"+info)
		b.expect("status T sem T 5 -1 3 0 1"+hold("3")+"\n15 4 "+info+"\n16 0 \n17 0 ", b.status("sem"))
		b.rdb.Del(t.Context(), "{k}:q")
		s.resize(7)
		b.put(heavy("B", 4), "no waiter's", "C\n30000\nchannel-C\n"+info)
		b.expect("status T sem T 7 -1 3 0 1"+hold("3")+"\n15 4 "+info+"\n16 0 \n17 0 ", b.status("sem"))
		s.age([]string{"A"}) // and is not swept out
		b.expect("status T sem T 7 -1 3 0 0\n15 4 "+info+"\n16 0 \n17 0 ", b.status("sem"))

		start()
		own := owned(b)
		own.enter("t", "A", "me")
		b.put(queuedFor("B", "somebody"), heavy("C", 1))
		b.expect("status T own T "+all+" -1 2 0 1"+hold("1")+"\n15 1 "+info+"\n16 1 ", b.status("own"))

		start()
		latch := parties{b, "latch", 3}
		b.expect("status T nothing 0 0 -1 0 0 0", b.status("latch"))
		if n := b.rdb.Exists(t.Context(), "{k}").Val(); n != 0 {
			t.Error("the status has begun a count")
		}
		latch.count("1")
		latch.join("A", 60000)
		b.expect("status T latch T 3 2 0 0 1"+hold("1"), b.status("latch"))
		b.eval(script.LatchReset(), "", "id", 0, b.later(time.Minute))
		b.expect("status T latch T 0 -1 0 0 0", b.status("latch"))

		start()
		barrier := parties{b, "bar", 3}
		barrier.join("A", 60000)
		b.put(heavy("B", 1))
		b.expect("status T bar T 3 -1 1 0 1"+hold("1")+"\n15 1 "+info, b.status("bar"))

		// What others wrote stays within its own line, and counts as a number only if it is one.
		start()
		b.rdb.HSet(t.Context(), "{k}", "kind", "sem", "limit", "1e300", "fence", "many", "count", "-1", "A", "9000000000000000:1:2:3:a\n5 5 hf2:B:1:1:0:{}")
		b.expect("status T sem 0 0 0 0 0 1\nT 1 hf2:A:2:3:0:a 5 5 hf2:B:1:1:0:{}", rest.ReplaceAllString(b.status("sem"), "\nT "))
		b.rdb.HSet(t.Context(), "{k}", "kind", "none of ours")
		b.expect("status T foreign 0 0 -1 0 0 1\n-1 0 ", b.status("sem"))
		b.rdb.Del(t.Context(), "{k}:q")
		b.rdb.Set(t.Context(), "{k}:q", "x", 0)
		if got := b.status("sem"); !strings.HasPrefix(got, "error WRONGTYPE ") {
			t.Errorf("a queue that is none: %q", got)
		}
	})
}

// A queue of any length makes a reply of bounded size, and so does an entry of any size.
func TestStatusOfACrowd(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, back *backend.Backend) {
		b := newBench(t, back)
		const n = 100_000
		for i := range n / 1000 {
			b.deadWaiters(1000, int64(15+1000*i), fmt.Sprint(i)) // whose infos are not JSON
		}
		queued := b.rdb.ZCard(t.Context(), "{k}:q").Val()
		q := codec.Status{Lock: codec.Lock{Keys: codec.Keys{Lock: "{k}", Queue: "{k}:q"}}, Kind: codec.HoldsMutex, Cursor: "0", Holds: 500, Waiters: 1000}
		s := ask(b, codec.StatusIs, &q)
		inOrder := func(a, b codec.Waiter) int { return int(a.Since - b.Since) }
		if int64(s.Queued) != queued || queued != n || len(s.Waiters) != 1000 || !slices.IsSortedFunc(s.Waiters, inOrder) || s.Waiters[0].Since != 15 {
			t.Errorf("%d are told of %d, want 1000 of %d", len(s.Waiters), s.Queued, n)
		}
		b.rdb.Del(t.Context(), "{k}:q")
		long := strings.Repeat("x", 1<<20)
		b.put(long, "B\n1\nb\n"+long, "C\n1\nc\n"+info)
		b.rdb.Set(t.Context(), "{k}", "hf2:A:7:1700000000000:0:"+long, 0)
		if reply := b.status("mutex"); len(reply) > 8000 || !strings.HasSuffix(reply, " 0 "+info) {
			t.Errorf("the reply has %d bytes", len(reply))
		}
		// A large hash is returned page by page.
		b.rdb.Del(t.Context(), "{k}", "{k}:q")
		l := readWrite(b)
		crowd := l.crowd(700, 1)
		told := map[string]bool{}
		q.Kind = "rw"
		for q.Holds = 50; ; q.Waiters = 0 {
			s := ask(b, codec.StatusIs, &q)
			for _, h := range s.Holds {
				told[h.Token] = true
			}
			if len(s.Holds) > 200 {
				t.Errorf("%d holders are told at once", len(s.Holds))
			}
			if q.Cursor = s.Next; s.IsLast() {
				break
			}
		}
		if len(told) != len(crowd) {
			t.Errorf("%d holders are told, want %d", len(told), len(crowd))
		}
	})
}

// The status of a lock of any kind has the waiters for that kind. For a lock that nobody holds, or another program's value, it
// has those of the first kind that has any.
func TestStatusOfALockOfAnyKind(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, back *backend.Backend) {
		b := newBench(t, back)
		status := func() string {
			t.Helper()
			reply, err := b.rdb.Eval(t.Context(), script.Status().Source, []string{"{k}", "{k}:q", "{k}:rw", "{k}:own"}, "", "x", "mutex rw own", 0, 500, 10).Text()
			if err != nil {
				t.Fatal(err)
			}
			return volatile.ReplaceAllString(reply, "T")
		}
		wait := func(kind, member string) {
			b.rdb.ZAdd(t.Context(), "{k}:"+kind, redis.Z{Score: 15, Member: member}, redis.Z{Score: -9e15, Member: "x:B"})
		}
		b.expect("status T nothing 0 0 -1 0 0 0", status())
		wait("own", queuedFor("B", "somebody"))
		b.expect("status T own 0 0 -1 1 0 0\n15 1 "+info, status())
		wait("rw", heavy("B", 7))
		b.expect("status T rw 0 0 -1 1 0 0\n15 7 "+info, status())
		b.take()
		b.expect("status T foreign 0 0 -1 1 0 1\nP 0 \n15 7 "+info, status())
		b.rdb.Del(t.Context(), "{k}")
		b.acquire("t", "A")
		b.expect("status T mutex 0 0 -1 0 0 1\nP 0 hf2:A:T:T:0:"+info, status())
		b.rdb.Del(t.Context(), "{k}")
		b.rdb.HSet(t.Context(), "{k}", "kind", "own", "limit", 9)
		b.expect("status T own 0 9 -1 1 0 0\n15 1 "+info, status())
		b.rdb.HSet(t.Context(), "{k}", "kind", "sem")
		b.expect("status T sem 0 9 -1 0 0 0", status())
	})
}

// A scan tells the keys that may be a lock's, and no others, however many there are.
func TestScan(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, back *backend.Backend) {
		b := newBench(t, back)
		want := map[string]bool{}
		for _, key := range []string{"p:{a}", "p:{a b}:q", "p:{a}:redisson", "p:key:a{x}:q", "p:{a}:own"} {
			want[key] = true
		}
		for i := range 3000 {
			want[fmt.Sprintf("p:{a%d}", i)] = true
		}
		pipe := b.rdb.Pipeline()
		for key := range want {
			pipe.Set(t.Context(), key, "x", 0)
		}
		for _, key := range []string{"p:{b}", "p:{a}:once", "p:{a}:q:e", "p:fences", "p:{a\n}", "p:{a", "q:{a}", "p:key:b:q", "p:{a}:latch", "p:{a:1}:key:f"} {
			pipe.Set(t.Context(), key, "x", 0)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		q := codec.Scan{On: "p:fences", Cursor: "0", Count: 100, Match: "p:*", Begin: []string{"p:{a", "p:key:a"}}
		told := map[string]bool{}
		for {
			call := q.Call()
			text, err := b.rdb.Eval(t.Context(), call.Script.Source, call.Keys, anySlice(call.Args)...).Text()
			if err != nil {
				t.Fatal(err)
			}
			page, err := q.Parse(text)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			for _, key := range page.Keys {
				told[key] = true
			}
			if q.Cursor = page.Next; page.IsLast() {
				break
			}
		}
		if !maps.Equal(told, want) {
			t.Errorf("%d keys are told, want %d", len(told), len(want))
		}
	})
}

func anySlice(all []string) (out []any) {
	for _, s := range all {
		out = append(out, s)
	}
	return out
}
