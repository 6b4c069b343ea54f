package scripts

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// swap returns the script with one part replaced, which occurs once.
func swap(t *testing.T, s script.Script, old, replacement string) script.Script {
	t.Helper()
	if n := strings.Count(s.Source, old); n != 1 {
		t.Fatalf("%s has %q %d times, want once", s.Name, old, n)
	}
	return driver.NewScript(s.Name, strings.Replace(s.Source, old, replacement, 1))
}

// standstill is the server's time (µs) in scripts whose clock stands still.
const standstill = 1_700_000_000_000_000

var still = fmt.Sprintf("{'%d', '%d'}", standstill/1_000_000, standstill%1_000_000)

// atStandstill returns the script on a server whose clock stands still.
func atStandstill(t *testing.T, s script.Script) script.Script {
	t.Helper()
	s = swap(t, s, "redis.call('TIME')", still)
	s = driver.NewScript(s.Name, strings.ReplaceAll(strings.ReplaceAll(s.Source, "and '0' or '1'", "and '1' or '1'"), "'*', 'g'", "next_id(KEYS[3]), 'g'"))
	return driver.NewScript(s.Name, fmt.Sprintf(`local function next_id(key)
  local last = redis.pcall('XREVRANGE', key, '+', '-', 'COUNT', '1')
  local ms, seq = string.match(last[1] and last[1][1] or '0-0', '^(%%d+)-(%%d+)$')
  if tonumber(ms) < %d then
    return '%[1]d-0'
  end
  return ms .. '-' .. string.format('%%d', seq + 1)
end
%s`, standstill/1000, s.Source))
}

// staged returns the script on a server of which the last two arguments say what it refuses, a command or to publish on a
// channel, and on which channel it tells nobody, although somebody listens.
func staged(s script.Script) script.Script {
	return driver.NewScript(s.Name, `local server, deaf, refused = redis, table.remove(ARGV), table.remove(ARGV)
local redis = {sha1hex = server.sha1hex, pcall = function(command, ...)
  return command == refused and {err = 'NOPERM refused'} or server.pcall(command, ...)
end, call = function(command, ...)
  local publishes, first = string.find(command, 'PUBLISH', 1, true), ...
  if command == refused or publishes and first == refused then
    error({err = 'NOPERM refused'}, 0)
  end
  local reply = server.call(command, ...)
  return publishes and first == deaf and 0 or reply
end}
`+s.Source)
}

// listenToAll subscribes to the channels of A to E, and on a real server to the sharded channels of the same names too. It returns
// what reads the messages that came since it was called last.
func listenToAll(b bench) func() string {
	type source struct {
		name, publish, channel string
		messages               <-chan *redis.Message
	}
	var sources []source
	for _, token := range []string{"A", "B", "C", "D", "E"} {
		channel := "channel-" + token
		sources = append(sources, source{token, "PUBLISH", channel, b.listen(token)})
		if b.back.Server == nil {
			continue
		}
		sources = append(sources, source{token + ", by shard,", "SPUBLISH", channel, b.messages(b.rdb.SSubscribe(b.t.Context(), channel))})
	}
	return func() string {
		b.t.Helper()
		pipe := b.rdb.Pipeline()
		for _, s := range sources {
			pipe.Do(b.t.Context(), s.publish, s.channel, "end")
		}
		expect.OK(b.t, expect.ErrOf(pipe.Exec(b.t.Context())))
		var all strings.Builder
		for _, s := range sources {
			for text := b.raw(s.messages); text != "end"; text = b.raw(s.messages) {
				// The lock's hour runs.
				text = regexp.MustCompile(` 170000(359[5-9]|3600)\d{6}$`).ReplaceAllString(text, " in an hour")
				fmt.Fprintf(&all, "%s is told %q\n", s.name, text)
			}
		}
		return all.String()
	}
}

// oddMember returns an entry of the queue as no client of ours makes one, or only for odd names.
func oddMember(r *rand.Rand, token string) string {
	parts := strings.SplitN(member(token), "\n", 4)
	switch r.IntN(4) {
	case 0: // its claim cannot be one
		parts[1] = []string{"0", "-5", "1e3", "", "99999999999999999999", "30000000000000"}[r.IntN(6)]
	case 1:
		parts[2] = []string{"", "channel-B", "%1%d", "channel\x00B"}[r.IntN(4)]
	case 2:
		parts[3] = []string{"", "+", "%d%%1", "a\nb\n5\nc"}[r.IntN(4)]
	default:
		return []string{"", "no waiter", "\n5\n\n", "a\nb\nc\nd", "B\n30000\nchannel-B"}[r.IntN(5)]
	}
	return strings.Join(parts, "\n")
}

// waiting returns the member of a waiter. C has promised to look at a time that has passed, E too late to count.
func waiting(token string) string {
	switch token {
	case "C":
		return promising(token, standstill/1000)
	case "E":
		return promising(token, standstill/1000+claim+1)
	}
	return member(token)
}

// promising returns the member of a waiter that has promised to look at that server time (ms).
func promising(token string, by int64) string {
	claims := strconv.Itoa(claim)
	return strings.Replace(member(token), "\n"+claims+"\n", fmt.Sprintf("\n%s@%d\n", claims, by), 1)
}

// queueCase is a state of a lock and its queue, and a request.
type queueCase struct {
	value   string // of the lock, if it has one
	fence   string // the fence counter, if there is one
	queue   []redis.Z
	forever bool // the queue has no expiry
	args    []any
}

// lay puts the server into that state.
func (c queueCase) lay(b bench) {
	b.t.Helper()
	expect.OK(b.t, b.rdb.FlushAll(b.t.Context()).Err())
	if c.value != "" {
		b.rdb.Set(b.t.Context(), "{k}", c.value, time.Hour)
	}
	if c.fence != "" {
		if fence, err := strconv.ParseInt(c.fence, 10, 64); err == nil {
			b.setCounter(fence)
		} else {
			b.rdb.Set(b.t.Context(), "{k}:f", c.fence, 0)
		}
	}
	if len(c.queue) > 0 {
		b.rdb.ZAdd(b.t.Context(), "{k}:q", c.queue...)
		if !c.forever {
			b.rdb.PExpire(b.t.Context(), "{k}:q", time.Hour)
		}
	}
}

// after returns what the server has now, without what changes as time passes.
func (c queueCase) after(b bench) string {
	b.t.Helper()
	lasts := func(key string) string {
		switch d := b.rdb.PTTL(b.t.Context(), key).Val(); {
		case d < 0:
			return "without an expiry"
		case d > 30*time.Minute:
			return "for an hour"
		default:
			return "for a while"
		}
	}
	queue := b.rdb.ZRangeWithScores(b.t.Context(), "{k}:q", 0, -1).Val()
	counter := fmt.Sprint(backend.LastFence(b.t, b.rdb, "{k}:f"))
	if strings.HasPrefix(counter, "9999") {
		counter = "out of reach" // each way tries whether it gives a fence
	}
	return fmt.Sprintf("%q %s\n%v %s\nfence %s %s", b.read(), lasts("{k}"), queue, lasts("{k}:q"), counter, lasts("{k}:f"))
}

// drawCase draws a state, and a request of A. Of the waiters, only B to E are alive. Half of the cases are usual ones.
func drawCase(r *rand.Rand) queueCase {
	c := queueCase{forever: r.IntN(4) == 0}
	usual, alive := r.IntN(2) == 0, 3
	if usual {
		alive = 1 + r.IntN(3)
	}
	c.value = []string{
		"", "hf2:H:1699999999000000:1699999999000:0:" + info, "hf2:H:1699999999000000:1699999999000:0:" + info + "+", "theirs",
	}[r.IntN(4)]
	if usual {
		c.value = "hf2:" + []string{"H", "H", "H", "A"}[r.IntN(4)] + ":1699999999000000:1699999999000:0:" + info + []string{"", "+"}[r.IntN(2)]
	}
	oldest := []int64{1_000_000, 59_999_999, 60_000_000, 60_000_001, 600_000_000}[r.IntN(5)]
	waiting := []int{0, 1, 2, 3, 5, 13, 14, 15, 16, 17, 30, 120}[r.IntN(12)]
	own, mode := r.IntN(4), []string{"w", "l", "wk", "lk"}[r.IntN(4)]
	if usual {
		mode = "w"
	}
	for i := range waiting {
		token := "dead" + strconv.Itoa(i)
		if r.IntN(alive) == 0 {
			token = string("BCDE"[r.IntN(4)])
		}
		score := standstill - oldest + int64(i)*(oldest/int64(waiting))
		if r.IntN(100) == 0 {
			score = standstill + 5_000_000 // the clock went back
		}
		text := member(token)
		if r.IntN(50) == 0 {
			text = oddMember(r, token)
		}
		c.queue = append(c.queue, redis.Z{Score: float64(score), Member: text})
	}
	if own == 0 && waiting > 0 || own > 0 && strings.HasPrefix(mode, "l") {
		// A is in the queue, instead of another waiter or in addition.
		score := float64(standstill - r.Int64N(oldest))
		if waiting > 0 && r.IntN(2) == 0 {
			i := r.IntN(waiting)
			score, c.queue = c.queue[i].Score, slices.Delete(c.queue, i, i+1)
		}
		c.queue = append(c.queue, redis.Z{Score: score, Member: member("A")})
	}
	ends := []int{0, 0, 1, 2, 12, 20}[r.IntN(6)]
	if usual && r.IntN(4) > 0 {
		ends = 0
	}
	if ends > 0 {
		// The queue does not expire before the test has looked at it.
		c.queue = append(c.queue, redis.Z{Score: -standstill - 3_600_000_000, Member: "x:last"})
	}
	for i := range ends {
		end := standstill + []int64{-1, 0, 1, -1_000_000, 1_000_000, 60_000_000}[r.IntN(6)]
		what := []string{"x:T", "d:T", "t:"}[r.IntN(3)] + strconv.Itoa(i)
		switch {
		case i == 0 && r.IntN(4) == 0:
			what = "x:A"
		case i == 1 && r.IntN(2) == 0:
			what = "gap"
		}
		c.queue = append(c.queue, redis.Z{Score: float64(-end), Member: what})
	}
	earlier := ""
	if !usual && r.IntN(3) == 0 {
		earlier = strconv.FormatInt(standstill-r.Int64N(oldest), 10)
		if len(c.queue) > 0 && r.IntN(2) == 0 {
			if at := c.queue[r.IntN(len(c.queue))].Score; at > 0 {
				earlier = strconv.FormatInt(int64(at), 10)
			}
		}
	}
	notAfter := []int64{0, standstill, standstill + 1}[r.IntN(3)]
	if usual {
		notAfter = 0
	}
	c.args = []any{mode, "A", 60000, notAfter, 1 + r.IntN(3), info, claim, "channel-A", earlier}
	return c
}

// An acquire that queues in the short way, or reads the head of the queue, replies and does the same as one that asks by
// single commands.
func TestTheHeadOfAQueueTellsTheSame(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		for _, token := range []string{"A", "B", "C", "D", "E"} {
			go func(messages <-chan *redis.Message) {
				for range messages {
				}
			}(b.listen(token))
		}
		short := atStandstill(t, script.Acquire())
		reads := swap(t, short, "pcall(queue_up)", "false")
		asks := swap(t, reads, "    read_head(member)\n", "")
		shortOnly := swap(t, short, "  if ok and reply then return reply end\nend\nlocal function error_text", "  if ok and reply then return reply end\nend\nif true then return 'rest' end\nlocal function error_text")

		replies, ways := map[string]int{}, map[bool]int{}
		for _, seed := range seeds(600, 3185195530182039914) {
			c := drawCase(rand.New(rand.NewPCG(seed, 0)))
			c.lay(b)
			wantReply := b.run(asks, slices.Clone(c.args)...)
			want := c.after(b)
			for way, s := range map[string]script.Script{"reads the head": reads, "tries the short way": short} {
				c.lay(b)
				reply := b.run(s, slices.Clone(c.args)...)
				got := c.after(b)
				if blur(reply) != blur(wantReply) || got != want {
					t.Fatalf("seed %d: %q, with a lock %q and the queue %v:\nthe reply of a script that %s is %q, want %q;\nafterwards\n%s\nwant\n%s",
						seed, c.args, c.value, c.queue, way, reply, wantReply, got, want)
				}
			}
			c.lay(b)
			ways[b.run(shortOnly, slices.Clone(c.args)...) != "rest"]++
			word, _, _ := strings.Cut(wantReply, " ")
			replies[word]++
		}
		for _, word := range []string{"queued", "granted", "gone", "late"} {
			if replies[word] == 0 {
				t.Errorf("nothing was answered %q: %v", word, replies)
			}
		}
		if ways[true] == 0 || ways[false] == 0 {
			t.Errorf("the short way was taken or not: %v", ways)
		}
	})
}

// drawRelease draws a state, and a release of A with one of the flags, on a server as staged has it.
func drawRelease(r *rand.Rand, flags []string) queueCase {
	c := queueCase{forever: r.IntN(4) == 0}
	holder := []string{"A", "A", "A", "A", "H"}[r.IntN(5)]
	mark := []string{"+", "+", "+", ""}[r.IntN(4)]
	chain := []string{"0", "0", "0", "1@1699999999990"}[r.IntN(4)] // it is no time for a gap, which would end before the test has looked
	c.value = "hf2:" + holder + ":1699999999000000:1699999999000:" + chain + ":" + info + mark
	switch r.IntN(12) {
	case 0:
		c.value = ""
	case 1:
		c.value = "theirs"
	}
	c.fence = []string{
		"", "1699999999999999", "1699999999000000", strconv.Itoa(standstill), strconv.Itoa(standstill + 1), strconv.Itoa(standstill + 5_000_000),
		"99", "9999999999999999", "x", strconv.Itoa(standstill + 998),
	}[r.IntN(10)]
	if r.IntN(2) == 0 {
		c.fence = "1699999999999999" // a usual one
	}
	for i := range []int{0, 1, 1, 2, 2, 2, 3, 5}[r.IntN(8)] {
		token := string("BCDE"[r.IntN(4)])
		switch r.IntN(10) {
		case 0, 1:
			token = "dead" + strconv.Itoa(i)
		case 2:
			token = "A"
		}
		text := waiting(token)
		if r.IntN(10) == 0 {
			text = oddMember(r, token)
		}
		c.queue = append(c.queue, redis.Z{Score: float64(standstill - 1_000_000 + i), Member: text})
	}
	if r.IntN(4) == 0 {
		c.queue = append(c.queue, redis.Z{Score: -standstill - 3_600_000_000, Member: "x:last"})
	}
	tombstone := []int64{0, 0, 0, standstill + 3_600_000_000}[r.IntN(4)]
	refused, deaf := "", ""
	switch r.IntN(6) {
	case 0:
		refused = []string{"GET", "ZRANGEBYSCORE", "PUBSUB", "ZREM", "SET", "XADD", "ZRANGE", "PEXPIRE", "channel-B", "channel-C"}[r.IntN(10)]
	case 1, 2, 3:
		deaf = "channel-B"
		if len(c.queue) > 0 && r.IntN(4) > 0 {
			_, deaf, _ = strings.Cut(c.queue[0].Member.(string), "\n"+strconv.Itoa(claim))
			_, deaf, _ = strings.Cut(deaf, "\n")
			deaf, _, _ = strings.Cut(deaf, "\n")
		}
	}
	if refused == "PEXPIRE" {
		tombstone = 0 // it may lack an expiry or not, as time passes
	}
	c.args = []any{flags[r.IntN(len(flags))], "A", []string{"", member("A")}[r.IntN(2)], tombstone, refused, deaf}
	return c
}

// A release does not tell the waiter behind the next holder when to look, if that has promised to look meanwhile.
func TestAPromiseSparesAMessage(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		messages := listenToAll(b)
		release := atStandstill(t, staged(script.Release()))
		const now = standstill / 1000
		for by, told := range map[int64]bool{now - 1: true, now: true, now + 1: false, now + claim: false, now + claim + 1: true} {
			c := queueCase{value: "hf2:A:1699999999000000:1699999999000:0:" + info + "+", queue: []redis.Z{
				{Score: standstill - 2, Member: promising("B", now+1)}, {Score: standstill - 1, Member: promising("D", by)},
			}}
			c.lay(b)
			b.run(release, "", "A", "", 0, "", "")
			text := messages()
			expect.Contains(t, "the next holder was not told", text, "hf2 grant B ")
			expect.Equal(t, fmt.Sprintf("a promise to look in %d ms is told in %q", by-now, text), strings.Contains(text, "hf2 standby D "), told)
			if want := "hf2:B:"; !strings.HasPrefix(b.read(), want) || !strings.HasSuffix(b.read(), ":"+info+"+") {
				t.Errorf("the lock is %q", b.read())
			}
		}
	})
}

// A release that passes the lock on in the short way replies, does and tells the same as one that does not.
func TestTheShortWayOfAReleaseDoesTheSame(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		messages := listenToAll(b)
		flags := []string{"", "", "", "k", "c", "c"}
		if b.back.Server == nil {
			flags = flags[:4] // it has no sharded channels
		}
		short := atStandstill(t, staged(script.Release()))
		long := swap(t, short, "pcall(pass_on)", "false")
		shortOnly := swap(t, short, "  if ok and reply then return reply end\nend\nlocal function error_text", "  if ok and reply then return reply end\nend\nif true then return 'rest' end\nlocal function error_text")

		ways, heard, untold := map[bool]int{}, map[string]int{}, 0
		for _, seed := range seeds(500, 1118488073030354853) {
			c := drawRelease(rand.New(rand.NewPCG(seed, 0)), flags)
			c.lay(b)
			wantReply := b.run(long, slices.Clone(c.args)...)
			want := c.after(b) + "\n" + messages()
			c.lay(b)
			reply := b.run(short, slices.Clone(c.args)...)
			got := c.after(b) + "\n" + messages()
			got, want = c.sorted(got), c.sorted(want)
			if reply != wantReply || got != want {
				t.Fatalf("seed %d: %q, with a lock %q, the fence counter %q and the queue %v:\nthe reply is %q, want %q;\nafterwards\n%s\nwant\n%s",
					seed, c.args, c.value, c.fence, c.queue, reply, wantReply, got, want)
			}
			for _, word := range []string{"grant", "standby"} {
				heard[word] += strings.Count(got, "hf2 "+word)
			}
			c.lay(b)
			taken := b.run(shortOnly, slices.Clone(c.args)...) != "rest"
			ways[taken]++
			if tried := strings.Contains(messages(), "hf2 grant"); tried && !taken {
				untold++
			}
		}
		if b.back.Server != nil && untold == 0 {
			t.Error("the short way never left a waiter to the rest that did not hear of its grant")
		}
		if ways[true] == 0 || ways[false] == 0 || heard["grant"] == 0 || heard["standby"] == 0 {
			t.Errorf("the short way was taken or not: %v; messages: %v", ways, heard)
		}
	})
}

// A release that queues its caller's next waiter replies, does and tells the same as a release and an acquire.
func TestAReleaseQueuesTheNextWaiter(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		messages := listenToAll(b)
		flags := []string{"", "", "k", "c"}
		if b.back.Server == nil {
			flags = flags[:3] // it has no sharded channels
		}
		release, acquire := atStandstill(t, staged(script.Release())), atStandstill(t, script.Acquire())
		next := strings.Replace(member("N"), "channel-N", "channel-E", 1)
		joined := map[bool]int{}
		for _, seed := range seeds(500) {
			r := rand.New(rand.NewPCG(seed, 0))
			c := drawRelease(r, flags)
			usual := r.IntN(4) > 0
			if usual {
				c.value = "hf2:A:1699999999000000:1699999999000:0:" + info + "+"
				c.fence = "1699999999999999"
				c.args[0], c.args[3], c.args[4], c.args[5] = flags[0], 0, "", ""
				c.queue = nil
				for i := range r.IntN(4) {
					c.queue = append(c.queue, redis.Z{Score: float64(standstill - 1_000_000 + i), Member: waiting(string("BCD"[i]))})
				}
			}
			c.queue = slices.DeleteFunc(c.queue, func(z redis.Z) bool { // odd ones, which are handed the lock in either case
				text := z.Member.(string)
				token, _, _ := strings.Cut(text, "\n")
				return z.Score > 0 && text != waiting(token)
			})
			if refused := c.args[4].(string); strings.HasPrefix(refused, "ZRANGE") || refused == "PEXPIRE" { // not every way takes them
				c.args[4] = ""
			}
			notAfter := standstill + int64([]int{1, 1, 1, 1, 0, -1}[r.IntN(6)])
			if n := len(c.queue); usual && n > 0 {
				switch r.IntN(3) {
				case 0: // old, or nearly; the last of them is dead
					came := float64(standstill - 60_000_010 + 11*r.IntN(2))
					c.queue = append(c.queue, redis.Z{Member: member("dead")})
					for i := range c.queue {
						c.queue[i].Score = came + float64(i)
					}
				case 1:
					c.queue[n-1].Score = standstill - 1 + float64(r.IntN(3))
				}
			}
			c.lay(b)
			request := slices.Clone(c.args)
			reply := b.run(release, slices.Concat(request[:4], []any{notAfter, next, "channel-E"}, request[4:])...)
			got := c.sorted(c.after(b) + "\n" + messages())

			c.lay(b)
			wantReply := b.run(release, slices.Clone(c.args)...)
			words := strings.Split(reply, " ")
			joins := words[0] == "released" && len(words) > 2
			if joined[joins]++; joins {
				if notAfter <= standstill {
					t.Fatalf("seed %d: the next waiter was queued too late", seed)
				}
				queued := strings.Split(b.run(acquire, "w"+c.args[0].(string), "N", 1, notAfter, 1, info, claim, "channel-E", ""), " ")
				wantReply += " " + strings.Join(queued[2:len(queued)-1], " ")
			}
			want := c.sorted(c.after(b) + "\n" + messages())
			if blur(reply) != blur(wantReply) || got != want {
				t.Fatalf("seed %d: %q, not after %d, with a lock %q, the fence counter %q and the queue %v:\nthe reply is %q, want %q;\nafterwards\n%s\nwant\n%s",
					seed, c.args, notAfter-standstill, c.value, c.fence, c.queue, reply, wantReply, got, want)
			}
		}
		if joined[true] < joined[false]/20 {
			t.Errorf("the next waiter was queued, or not: %v", joined)
		}
	})
}

// sorted sorts the messages to waiters, since the short way sends the follower's before the grant. If the grant may not be heard,
// sorted leaves out the follower's. The short way issues the fence first; if the next step is refused, sorted leaves the counter out.
func (c queueCase) sorted(after string) string {
	lines := strings.Split(after, "\n")
	refused, deaf := c.args[len(c.args)-2].(string), c.args[len(c.args)-1].(string)
	if strings.HasPrefix(refused, "channel") || deaf != "" {
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, `is told "hf2 standby`) })
	}
	if c.fence == "9999999999999999" { // whoever asks a counter that cannot be believed moves it on
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "fence ") })
	}
	if refused == "ZREM" {
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "fence ") })
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// blur hides how much of a lock's time is left, which is the third word, in ms.
func blur(reply string) string {
	words := strings.Split(reply, " ")
	if len(words) > 2 && len(words[2]) > 4 {
		words[2] = "P"
	}
	return strings.Join(words, " ")
}

// Fault: A release that queues its caller's next waiter comes so late that the waiter is in the queue already. If the waiter gets the lock,
// it is not queued again.
func TestALateReleaseDoesNotQueueWhoGetsTheLock(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		listenToAll(b)
		release := atStandstill(t, script.Release())
		next := strings.Replace(member("N"), "channel-N", "channel-E", 1)
		for i, queue := range [][]string{{next}, {next, member("B")}, {member("B"), next}} {
			c := queueCase{value: "hf2:A:1699999999000000:1699999999000:0:" + info + "+", fence: "1699999999999999"}
			for i, text := range queue {
				c.queue = append(c.queue, redis.Z{Score: float64(standstill - 1_000_000 + i), Member: text})
			}
			c.lay(b)
			reply := b.run(release, "", "A", "", 0, standstill+1, next, "channel-E")
			value := b.rdb.Get(t.Context(), "{k}").Val()
			b.begins("hf2:"+queue[0][:1]+":", value)
			if left := b.rdb.ZRange(t.Context(), "{k}:q", 0, -1).Val(); !slices.Equal(left, queue[1:]) {
				t.Errorf("case %d: %q are left in the queue, want %q; the reply is %q", i, left, queue[1:], reply)
			}
		}
	})
}
