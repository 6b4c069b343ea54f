package scripts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// voters request many locks of one node of a quorum, which is that of bench.node. A lock and its token are
// written NAME/TOKEN.
type voters struct{ crowd }

// ballot returns the keys and arguments of node_batch_acquire.lua.
func (v voters) ballot(notAfter int64, all ...string) (keys []string, args []any) {
	keys, args = v.request(nodeFlags, notAfter, all...)
	return append(keys[:len(keys)-1], nodeKeys[2:]...), args
}

// take acquires locks together, and returns the reply unchanged.
func (v voters) take(all ...string) string {
	v.t.Helper()
	keys, args := v.ballot(v.later(time.Minute), all...)
	return v.said(script.NodeBatchAcquire(), keys, args...)
}

// alone acquires a single lock.
func (v voters) alone(lock string) string {
	v.t.Helper()
	name, token, _ := strings.Cut(lock, "/")
	keys := append([]string{"{" + name + "}", "{" + name + "}:q"}, nodeKeys[2:]...)
	return seen(v.said(script.NodeAcquire(), keys, nodeFlags, token, 60000, v.later(time.Minute), info, "", 0))
}

// over ends a token of which copies may still come.
func (v voters) over(lock string) {
	v.t.Helper()
	name, token, _ := strings.Cut(lock, "/")
	keys := append([]string{"{" + name + "}", "{" + name + "}:q"}, nodeKeys[2], nodeKeys[4])
	v.expect("absent T", seen(v.said(script.Release(), keys, nodeFlags, token, "", v.later(time.Hour))))
}

// serving makes the node serve, with a counter of 7.
func (v voters) serving() {
	v.t.Helper()
	v.expect("raised T 7", v.node(script.NodeRaise(), "", 7, v.admit()))
}

// counts requires that the node's counter has this value.
func (v voters) counts(want int64) {
	v.t.Helper()
	if got := v.value(nodeKeys[2]); got != fmt.Sprint(want) {
		v.t.Errorf("the counter is %s, want %d", got, want)
	}
}

// holds requires that these locks exist, and no others.
func (v voters) holds(names ...string) {
	v.t.Helper()
	for _, name := range names {
		if v.rdb.Exists(v.t.Context(), "{"+name+"}").Val() == 0 {
			v.t.Errorf("%s is free", name)
		}
	}
	if all := v.rdb.Keys(v.t.Context(), "{*}").Val(); len(all) != len(names) {
		v.t.Errorf("there are %q; want %q", all, names)
	}
}

func TestNodeBatches(t *testing.T) {
	for name, test := range map[string]func(v voters){
		"new": func(v voters) {
			v.expect("quarantined T P", seen(v.take("a/A", "b/B")))
			id := v.admit()
			v.expect(seen("behind T "+id), seen(v.take("a/A", "b/B")))
			v.holds()
			if n := v.rdb.Exists(v.t.Context(), nodeKeys[2]).Val(); n != 0 {
				v.t.Error("a node that is behind issues fences")
			}
			v.expect("raised T 0", v.node(script.NodeRaise(), "", 0, id))
			now := v.later(0)
			reply := v.take("a/A", "b/B") // without a counter, fences begin at the time
			v.expect("taken T T", seen(reply))
			if got := first(reply); got <= now || got > v.later(time.Minute) {
				v.t.Errorf("the first fence is %d at %d", got, now)
			}
			v.counts(first(reply) + 1)
		},
		"all are free": func(v voters) {
			v.serving()
			v.expect("taken T 8", seen(v.take("a/A", "b/B", "c/C")))
			v.counts(10)
			for i, lock := range []string{"a/A", "b/B", "c/C"} {
				v.has(lock, int64(8+i))
			}
			v.holds("a", "b", "c")
			v.expect("granted T P 9", v.alone("b/B")) // a repeated request is told what it has
			v.expect("taken T 11 1 3", seen(v.take("a/A", "d/D", "c/X")))
			v.has("a/A", 8)
			v.has("d/D", 12)
			v.expect("granted T P 14", v.alone("e/E"))
			v.expect("freed", v.free("a/A", "b/B", "c/C", "d/D", "e/E"))
			v.expect("taken T 15", seen(v.take("a/A")))
		},
		"some are not free": func(v voters) {
			v.serving()
			v.expect("granted T P 8", v.alone("held/X"))
			v.over("over/A")
			v.rdb.Set(v.t.Context(), "{foreign}", "theirs", time.Minute)
			v.rdb.HSet(v.t.Context(), "{hash}", "a", "b")
			v.expect("taken T 9 1 3 4 6 7", seen(v.take("held/A", "a/A", "over/A", "foreign/A", "b/A", "hash/A", "a/A")))
			v.has("a/A", 10)
			v.has("b/A", 13)
			v.counts(15) // locks that were not granted are free
			v.holds("held", "a", "b", "foreign", "hash")
			v.expect("held T P 0 hf1:X:8:T:0:"+info, v.alone("held/A"))
			v.expect("gone T", v.alone("over/A"))
			v.expect("granted T P 16", v.alone("over/B"))
		},
		"none is free": func(v voters) {
			v.serving()
			v.expect("taken T 8", seen(v.take("a/A", "b/A")))
			v.expect("taken T 0 1 2", seen(v.take("a/B", "b/B")))
			v.counts(9)
		},
		"too late": func(v voters) {
			v.serving()
			keys, args := v.ballot(v.later(-time.Second), "a/A", "b/B")
			v.expect("taken T 0 1 2", seen(v.said(script.NodeBatchAcquire(), keys, args...)))
			v.counts(7)
			v.holds()
		},
		"each has a TTL and an info of its own": func(v voters) {
			v.serving()
			keys, args := v.ballot(v.later(time.Minute), "a/A", "b/B")
			args = append(args[:len(args)-2], 60000, 90000, `{"o":"a"}`, `{"o":"b"}`)
			v.expect("taken T 8", seen(v.said(script.NodeBatchAcquire(), keys, args...)))
			for i, ttl := range []int64{60000, 90000} {
				if left := v.rdb.PTTL(v.t.Context(), keys[i]).Val().Milliseconds(); !v.below(left, ttl) {
					v.t.Errorf("%s lasts for %d ms, want %d", keys[i], left, ttl)
				}
			}
			if a, b := v.value("{a}"), v.value("{b}"); !strings.HasSuffix(a, `:{"o":"a"}`) || !strings.HasSuffix(b, `:{"o":"b"}`) {
				v.t.Errorf("the values are %q and %q", a, b)
			}
		},
		"restarted": func(v voters) {
			v.serving()
			v.expect("taken T 8", seen(v.take("a/A")))
			// Its data seem to be those of another incarnation.
			v.rdb.Set(v.t.Context(), nodeKeys[4], fmt.Sprintf("hf1:run/repl:%d:60000", v.later(-time.Hour)), 0)
			v.expect("quarantined T P", seen(v.take("a/A", "b/B")))
			v.counts(8)
			v.holds("a")
		},
		"emptied again": func(v voters) {
			v.serving()
			v.rdb.FlushAll(v.t.Context()) // no restart
			v.expect("quarantined T P", seen(v.take("a/A")))
			id := v.admit()
			v.expect(seen("behind T "+id), seen(v.take("a/A")))
			v.holds()
		},
		"keys that are not as they should be": func(v voters) {
			v.serving()
			for _, counter := range []string{"-1", "x", "", "9999999999999999"} {
				v.rdb.Set(v.t.Context(), nodeKeys[2], counter, 0)
				v.expect("error BADFENCE the fence counter is not a number that fences can follow", v.take("a/A", "b/B"))
				if got := v.value(nodeKeys[2]); got != counter {
					v.t.Errorf("the counter was %q and is %q", counter, got)
				}
			}
			for _, key := range nodeKeys[2:] {
				was := v.value(key)
				v.rdb.Del(v.t.Context(), key)
				v.rdb.HSet(v.t.Context(), key, "a", "b")
				v.expect("error WRONGTYPE Operation against a key holding the wrong kind of value", v.take("a/A", "b/B"))
				v.rdb.Del(v.t.Context(), key)
				v.rdb.Set(v.t.Context(), key, was, 0)
			}
			v.holds()
		},
		"as many as there may be": func(v voters) {
			v.serving()
			var all []string
			for n := range 128 {
				all = append(all, fmt.Sprintf("%d/T%d", n, n))
			}
			v.expect("taken T 8", seen(v.take(all...)))
			v.has("127/T127", 135)
			v.counts(135)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend.EachReal(t, func(t *testing.T, back *backend.Backend) {
				test(voters{crowd{newBench(t, back)}})
			})
		})
	}
}

func TestNodeBatchesRefuseAReplica(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, back *backend.Backend) {
		v := voters{crowd{newBench(t, back)}}
		v.serving()
		keys, args := v.ballot(v.later(time.Minute), "a/A", "b/B")
		if err := v.rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil { // nobody listens there
			t.Fatal(err)
		}
		if _, err := v.ask(script.NodeBatchAcquire(), keys, args...); !redis.HasErrorPrefix(err, "READONLY") {
			t.Errorf("the replica says %v", err)
		}
	})
}
