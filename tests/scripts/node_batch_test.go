package scripts

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
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
	if got := backend.LastFence(v.t, v.rdb, nodeKeys[2]); got != want {
		v.t.Errorf("the counter is %d, want %d", got, want)
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
			v.setCounter(9_999_999_999_999_999)
			v.expect(farAhead, v.take("a/A", "b/B"))
			v.counts(9_999_999_999_999_999)
			v.rdb.Del(v.t.Context(), nodeKeys[2])
			v.rdb.Set(v.t.Context(), nodeKeys[2], "1600000000000000", 0)
			v.expect("error BADFENCE the fence counter is not a stream", v.take("a/A", "b/B"))
			v.setCounter(7)
			for _, key := range nodeKeys[3:] {
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

// onNode returns the script as it runs on a node with the run_id run. The last two arguments are what the node refuses, a command
// or writes to a key, and what INFO says about its replication.
func onNode(s script.Script) script.Script {
	return driver.NewScript(s.Name, `local server, told, refused = redis, table.remove(ARGV), table.remove(ARGV)
local redis = {call = function(command, ...)
  local first = ...
  if command == refused or (command == 'SET' or command == 'XADD') and first == refused then
    error({err = 'NOPERM refused'}, 0)
  elseif command == 'INFO' then
    return first == 'server' and '# Server\r\nrun_id:run\r\n\r\n' .. told or told
  end
  return server.call(command, ...)
end, pcall = function(command, first, ...)
  return first == refused and {err = 'NOPERM refused'} or server.pcall(command, first, ...)
end}
`+s.Source)
}

// nodeCase is a state of a node, and a vote about a lock there.
type nodeCase struct {
	keys map[string]string
	ends bool // the lock's queue has a tombstone
	args []any

	usual bool // in all respects
}

// drawVote draws a node's state and a vote. Four of ten are usual in every respect.
func drawVote(r *rand.Rand) nodeCase {
	usual := true
	odd := func(most string, others ...string) string {
		if r.IntN(10) > 0 {
			return most
		}
		usual = false
		return others[r.IntN(len(others))]
	}
	moment := func(d int64) string { return strconv.FormatInt(standstill+d, 10) }
	zeros := strings.Repeat("0", 40)
	id := odd("run/repl", "run/other", "run/rep", "run/replid")
	c := nodeCase{keys: map[string]string{}, ends: odd("", "x:A") != ""}
	c.keys["{k}"] = odd("", "hf1:H:8:1699999999000:0:"+info, "theirs")
	c.keys[nodeKeys[2]] = odd(moment(-2), "", "7", moment(-1), moment(0), moment(1), moment(86_399_999_998), moment(86_399_999_999), moment(86_400_000_000), "x", "9999999999999999")
	c.keys[nodeKeys[3]] = odd(id, "", "run/older", id+"?"+moment(-9), id+"?"+moment(-9)+"+")
	ready := odd(moment(-1), moment(0), moment(1), moment(60_000_000), moment(1_000_000_000), "0", "x")
	c.keys[nodeKeys[4]] = odd("hf1:"+id+":"+ready+":"+odd("60000", "59999", "60001", "90000", "0"), "", "hf1:"+id, "hf1::"+ready+":60000")
	told := "# Replication\r\nrole:" + odd("master", "slave") + "\r\nconnected_slaves:" +
		odd("0", "1", "10", "1\r\nmin_slaves_good_slaves:1", "0\r\nmin_slaves_good_slaves:0") + "\r\n" +
		odd("master_replid:repl\r\n", "master_replid:other\r\n", "") +
		odd("master_replid2:"+zeros+"\r\n", "master_replid2:"+zeros[1:]+"1\r\n", "") + "master_repl_offset:0\r\n"
	refused := odd("nothing", "MGET", "INFO", "EXISTS", "SET", "XREVRANGE", "{k}", nodeKeys[2], nodeKeys[4])
	c.args = []any{odd(nodeFlags, "ns90000+0", "ns60000+500"), odd(moment(1), moment(0), moment(-1)), "hf1:A:", 36_000_000, info, refused, told}
	c.usual = usual
	return c
}

// run runs a script in that state. It returns the reply, and what the node has afterwards.
func (c nodeCase) run(b bench, s script.Script) string {
	b.t.Helper()
	ctx := b.t.Context()
	pipe := b.rdb.Pipeline()
	keys := append([]string{"{k}", "{k}:q"}, nodeKeys[2:]...)
	pipe.Del(ctx, keys...)
	for key, value := range c.keys {
		if fence, err := strconv.ParseInt(value, 10, 64); err == nil && key == nodeKeys[2] {
			backend.SetCounter(b.t, pipe, key, fence)
		} else if value != "" {
			pipe.Set(ctx, key, value, 0)
		}
	}
	if c.ends {
		pipe.ZAdd(ctx, "{k}:q", redis.Z{Score: -standstill - 3_600_000_000, Member: "x:A"})
	}
	reply := pipe.Eval(ctx, s.Source, keys, c.args...)
	values, counter, tombstones := pipe.MGet(ctx, keys...), pipe.XRevRangeN(ctx, nodeKeys[2], "+", "-", 1), pipe.ZCard(ctx, "{k}:q")
	var lasts []*redis.DurationCmd
	for _, key := range keys {
		lasts = append(lasts, pipe.PTTL(ctx, key))
	}
	_, _ = pipe.Exec(ctx) // the script may fail
	if err := tombstones.Err(); err != nil {
		b.t.Fatal(err)
	}
	var hours []time.Duration // rounded up; 0 for a key that never expires
	for _, last := range lasts {
		hours = append(hours, (last.Val() + time.Hour - 1).Truncate(time.Hour))
	}
	return fmt.Sprintf("it replies %q, %v; then keys are %q, the counter is %v, they expire within %v, tombstones: %d", reply.Val(), reply.Err(), values.Val(), counter.Val(), hours, tombstones.Val())
}

// A node that has restarted grants nothing, even if it has all its data: its replication id is new.
func TestARestartedNodeGrantsNoBatch(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, back *backend.Backend) {
		for _, replicated := range []bool{false, true} {
			if replicated { // its data have the id since then
				server.StartReplica(t, back.Server.Binary(), back.Server).Kill()
				backend.Eventually(t, "the replica is gone", func() bool { return back.Server.Info("replication")["connected_slaves"] == "0" })
			}
			v := voters{crowd{newBench(t, back)}}
			v.serving()
			v.expect("taken T 8", seen(v.take("a/A")))
			v.expect("freed", v.free("a/A"))
			was := back.Server.Info("replication")["master_replid"]
			backend.Eventually(t, "the data are saved", func() bool { return v.rdb.Save(t.Context()).Err() == nil }) // one may be under way
			back.Server.Restart()
			v = voters{crowd{newBench(t, back)}}
			if is := back.Server.Info("replication"); is["role"] != "master" || is["master_replid"] == was {
				t.Errorf("it had the replication id %s, and has %s as a %s", was, is["master_replid"], is["role"])
			}
			v.counts(8)
			v.expect("quarantined T P", seen(v.take("a/A")))
			v.holds()
			v.rdb.FlushAll(t.Context())
		}
	})
}

// A vote that takes the short way replies and does the same as one that does not.
func TestTheShortWayOfAVoteDoesTheSame(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, back *backend.Backend) {
		b := newBench(t, back)
		short := swap(t, onNode(script.NodeBatchAcquire()), "redis.call('TIME')", still)
		long := swap(t, short, "pcall(acquire_one)", "false")
		shortOnly := swap(t, short, "    return reply\n  end\nend\nlocal function find_free", "    return reply\n  end\nend\nif true then return 'rest' end\nlocal function find_free")

		ways, replies := map[bool]int{}, map[string]int{}
		for _, seed := range seeds(800, 17600026589556937460, 17449644055539203015) {
			c := drawVote(rand.New(rand.NewPCG(seed, 0)))
			want, got := c.run(b, long), c.run(b, short)
			if got != want {
				t.Fatalf("seed %d: %q on a node with %q, a tombstone: %t:\n%s\nwant\n%s", seed, c.args, c.keys, c.ends, got, want)
			}
			took := !strings.HasPrefix(c.run(b, shortOnly), `it replies "rest"`)
			if c.usual && !took {
				t.Fatalf("seed %d: a usual vote does not take the short way", seed)
			}
			ways[took]++
			replies[strings.FieldsFunc(want, func(r rune) bool { return r == '"' || r == ' ' })[2]]++
		}
		if ways[true] == 0 || ways[false] == 0 {
			t.Errorf("the short way was taken or not: %v", ways)
		}
		for _, word := range []string{"taken", "quarantined", "behind", "error"} {
			if replies[word] == 0 {
				t.Errorf("nothing was answered %q: %v", word, replies)
			}
		}
	})
}
