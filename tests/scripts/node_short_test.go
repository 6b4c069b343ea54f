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
)

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
	twice bool // the node refuses to set the lock, after both ways have raised the counter
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
	c.keys["{k}"] = odd("", "hf2:H:8:1699999999000:0:"+info, "theirs")
	c.keys[nodeKeys[2]] = odd(moment(-2), "", "7", moment(-1), moment(0), moment(1), moment(86_399_999_998), moment(86_399_999_999), moment(86_400_000_000), "x", "9999999999999999")
	c.keys[nodeKeys[3]] = odd(id, "", "run/older", id+"?"+moment(-9), id+"?"+moment(-9)+"+")
	ready := odd(moment(-1), moment(0), moment(1), moment(60_000_000), moment(1_000_000_000), "0", "x")
	c.keys[nodeKeys[4]] = odd("hf2:"+id+":"+ready+":"+odd("60000", "59999", "60001", "90000", "0"), "", "hf2:"+id, "hf2::"+ready+":60000")
	told := "# Replication\r\nrole:" + odd("master", "slave") + "\r\nconnected_slaves:" +
		odd("0", "1", "10", "1\r\nmin_slaves_good_slaves:1", "0\r\nmin_slaves_good_slaves:0") + "\r\n" +
		odd("master_replid:repl\r\n", "master_replid:other\r\n", "") +
		odd("master_replid2:"+zeros+"\r\n", "master_replid2:"+zeros[1:]+"1\r\n", "") + "master_repl_offset:0\r\n"
	refused := odd("nothing", "MGET", "INFO", "EXISTS", "SET", "XREVRANGE", "{k}", nodeKeys[2], nodeKeys[4])
	c.args = []any{odd(nodeFlags, "ns90000+0", "ns60000+500"), "A", 36_000_000, odd(moment(1), moment(0), moment(-1)), info, "", 60_000, refused, told}
	ticket := []string{"", "", "0", "17"}[r.IntN(4)]
	c.args[5] = ticket
	c.usual = usual && ticket != "17"
	c.twice = refused == "SET" || refused == "{k}"
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
	if c.twice {
		counter = &redis.XMessageSliceCmd{}
	}
	return fmt.Sprintf("it replies %q, %v; then keys are %q, the counter is %v, they expire within %v, tombstones: %d", reply.Val(), reply.Err(), values.Val(), counter.Val(), hours, tombstones.Val())
}

// A vote that takes the short way replies and does the same as one that does not.
func TestTheShortWayOfAVoteDoesTheSame(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, back *backend.Backend) {
		b := newBench(t, back)
		short := swap(t, onNode(script.NodeAcquire()), "redis.call('TIME')", still)
		long := swap(t, short, "pcall(grant_free)", "false")
		shortOnly := swap(t, short, "    return reply\n  end\nend\nlocal function error_text", "    return reply\n  end\nend\nif true then return 'rest' end\nlocal function error_text")

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
		for _, word := range []string{"granted", "held", "quarantined", "behind", "error"} {
			if replies[word] == 0 {
				t.Errorf("nothing was answered %q: %v", word, replies)
			}
		}
	})
}
