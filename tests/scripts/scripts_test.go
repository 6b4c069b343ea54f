// Package scripts tests each script by itself: the same calls, with the same replies, on the embedded server
// and on every real one. docs/PROTOCOL.md describes the scripts.
package scripts

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// bench runs scripts on one server.
type bench struct {
	t     *testing.T
	back  *backend.Backend
	rdb   *redis.Client
	began time.Time
	form
}

func newBench(t *testing.T, back *backend.Backend) bench {
	return bench{t, back, back.Redis(t), time.Now(), plain}
}

// onEach runs a test on the embedded server and on every real one.
func onEach(t *testing.T, test func(t *testing.T, b bench)) {
	backend.Each(t, func(t *testing.T, back *backend.Backend) { test(t, newBench(t, back)) })
}

// onEachReal runs a test on every real server.
func onEachReal(t *testing.T, test func(t *testing.T, b bench)) {
	backend.EachReal(t, func(t *testing.T, back *backend.Backend) { test(t, newBench(t, back)) })
}

// cases runs tests by their names with onEach or onEachReal.
func cases(t *testing.T, on func(*testing.T, func(*testing.T, bench)), tests map[string]func(b bench)) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { on(t, func(_ *testing.T, b bench) { test(b) }) })
	}
}

// form is how a mutex is stored.
type form struct {
	name    string
	flag    string // of scripts
	grant   string // the word of notifications
	foreign string // how replies show another program's lock
	// field is the hash field of the value, or "" if the key itself has the value.
	field string
}

var (
	plain  = form{"plain", "", "grant", "theirs", ""}
	rlock  = form{"redisson", "r", "redisson", "", "holdfast"}
	theirs = "8743c9c0-0795-4907-87fd-6c719a6b4586:1" // a thread of a Redisson client
)

// read returns the value of the lock, or "" if there is none.
func (b bench) read() string {
	b.t.Helper()
	if b.field != "" {
		return b.rdb.HGet(b.t.Context(), "{k}", b.field).Val()
	}
	return b.rdb.Get(b.t.Context(), "{k}").Val()
}

// mark marks the lock, as if it had a waiter.
func (b bench) mark() {
	b.t.Helper()
	if b.field != "" {
		b.rdb.HSet(b.t.Context(), "{k}", b.field, b.read()+"+")
		return
	}
	b.rdb.Append(b.t.Context(), "{k}", "+")
}

// unfence gives the lock the value that it has if the server's own command set it, until the first renewal.
func (b bench) unfence() {
	b.t.Helper()
	parts := strings.SplitN(b.read(), ":", 4)
	value := strings.Join([]string{parts[0], parts[1], "0", parts[3]}, ":")
	if b.field != "" {
		b.rdb.HSet(b.t.Context(), "{k}", b.field, value)
		return
	}
	b.rdb.Set(b.t.Context(), "{k}", value, redis.KeepTTL)
}

// take makes another program take the lock.
func (b bench) take() {
	b.t.Helper()
	if b.field == "" {
		b.rdb.Set(b.t.Context(), "{k}", b.foreign, time.Minute)
		return
	}
	b.rdb.HIncrBy(b.t.Context(), "{k}", theirs, 1)
	b.rdb.PExpire(b.t.Context(), "{k}", time.Minute)
}

func (b bench) theirsIsIntact() {
	b.t.Helper()
	if b.field == "" {
		expect.Equal(b.t, "their value", b.read(), b.foreign)
		return
	}
	if got := b.rdb.HGetAll(b.t.Context(), "{k}").Val(); !maps.Equal(got, map[string]string{theirs: "1"}) {
		b.t.Errorf("their hash became %q", got)
	}
}

// spoil gives the lock's key another type.
func (b bench) spoil() {
	b.t.Helper()
	if b.field != "" {
		b.rdb.Set(b.t.Context(), "{k}", "x", 0)
		return
	}
	b.rdb.HSet(b.t.Context(), "{k}", "a", "b")
}

// below reports whether ms is what remains of the duration of: no more, and less only by the time that the test
// has taken.
func (b bench) below(ms, of int64) bool {
	return ms <= of && ms >= of-time.Since(b.began).Milliseconds()-2
}

// claim is the waiters' claim in ms. It is less than a TTL, so that the two cannot be confused.
const claim = 30000

const info = `{"o":"me"}`

// volatile matches what differs between runs: the server's time in µs, of today or, in virtual time, of the
// year 2000; and fences made of it.
var volatile = regexp.MustCompile(`\b(1\d{15}|946\d{12})\b`)

// eval runs a script on the lock, and returns its reply without what differs between runs.
func (b bench) eval(s script.Script, args ...any) string {
	b.t.Helper()
	return seen(b.run(s, args...))
}

// seen returns a reply without what differs between runs.
func seen(reply string) string { return volatile.ReplaceAllString(reply, "T") }

// keysFor returns the keys of the lock for that script.
func keysFor(s script.Script) []string {
	keys := []string{"{k}", "{k}:q", "{k}:f"}
	if strings.Contains(s.Source, "local expiries") {
		keys = append(keys, "{k}:q:e")
	}
	return keys
}

// run returns a reply unchanged.
func (b bench) run(s script.Script, args ...any) string {
	b.t.Helper()
	if b.flag != "" {
		args[0] = args[0].(string) + b.flag
	}
	return b.on(keysFor(s), s, args...)
}

// on returns the reply of a script that is run on these keys, unchanged.
func (b bench) on(keys []string, s script.Script, args ...any) string {
	b.t.Helper()
	reply, err := b.rdb.Eval(b.t.Context(), s.Source, keys, args...).Text()
	if err != nil {
		b.t.Fatalf("%s %q: %v", s.Name, args, err)
	}
	return reply
}

// begins requires that a reply, or a value, begins so.
func (b bench) begins(want, got string) {
	b.t.Helper()
	expect.Begins(b.t, "the reply", got, want)
}

// lastsFor requires that a key lasts for what is left of ms.
func (b bench) lastsFor(key string, ms int64) {
	b.t.Helper()
	if left := b.rdb.PTTL(b.t.Context(), key).Val().Milliseconds(); !b.below(left, ms) {
		b.t.Errorf("%s lasts for %d ms; want %d", key, left, ms)
	}
}

// rises requires that one fence is above another that was granted before it.
func (b bench) rises(before, fence int64) {
	b.t.Helper()
	expect.Rises(b.t, before, fence)
}

// gone requires that none of these keys exists.
func (b bench) gone(what string, keys ...string) {
	b.t.Helper()
	expect.Equal(b.t, what, b.rdb.Exists(b.t.Context(), keys...).Val(), 0)
}

func (b bench) expect(want, got string) {
	b.t.Helper()
	// This is the rest of a minute or of a claim.
	got = regexp.MustCompile(`\b\d{5}\b`).ReplaceAllStringFunc(got, func(digits string) string {
		if ms := number(digits); b.below(ms, 60000) || b.below(ms, claim) {
			return "P"
		}
		return digits
	})
	got = regexp.MustCompile(`:(1\d{12}|946\d{9}):`).ReplaceAllString(got, ":T:")
	expect.Equal(b.t, "the reply", got, want)
}

func (b bench) acquire(mode, token string) string {
	b.t.Helper()
	args := []any{mode, token, 60000, 0, 1, info}
	if !strings.Contains(mode, "t") {
		args = append(args, claim, "channel-"+token, "")
	}
	return b.eval(script.Acquire(), args...)
}

func (b bench) release(token, member string, tombstone int64) string {
	b.t.Helper()
	return b.eval(script.Release(), "", token, member, tombstone)
}

func (b bench) renew(token string, ttl, fences int) string {
	b.t.Helper()
	fence := "0"
	if value := b.read(); value != "" {
		fence = strings.Split(value, ":")[2]
	}
	return b.eval(script.Renew(), "", token, ttl, fences, fence)
}

func member(token string) string {
	return fmt.Sprintf("%s\n%d\nchannel-%s\n%s", token, claim, token, info)
}

func (b bench) later(d time.Duration) int64 {
	b.t.Helper()
	now := expect.Of(b.rdb.Time(b.t.Context()).Result()).OK(b.t)
	return now.Add(d).UnixMicro()
}

// setCounter makes fences follow this one.
func (b bench) setCounter(fence int64) {
	b.t.Helper()
	backend.SetCounter(b.t, b.rdb, "{k}:f", fence)
}

// grantAnother issues the next fence, as for another lock.
func (b bench) grantAnother() {
	b.t.Helper()
	expect.OK(b.t, b.rdb.XAdd(b.t.Context(), &redis.XAddArgs{Stream: "{k}:f", Values: []string{"g", ""}}).Err())
}

// farAhead is the error if somebody has set the counter.
const farAhead = "error BADFENCE the fence counter {k}:f leads the server's clock by more than a day: set that clock right if it is behind; if the counter was set by somebody, delete it, and fences follow the clock again"

func (b bench) configure(setting, value string) {
	b.t.Helper()
	expect.OK(b.t, b.rdb.ConfigSet(b.t.Context(), setting, value).Err())
}

// listen subscribes to a waiter's channel. Messages are read at once: publishing to a subscriber that does not
// read would block the embedded server.
func (b bench) listen(token string) <-chan *redis.Message {
	b.t.Helper()
	return b.messages(b.rdb.Subscribe(b.t.Context(), "channel-"+token))
}

// messages returns the messages of a subscription, once the server has confirmed it.
func (b bench) messages(ps *redis.PubSub) <-chan *redis.Message {
	b.t.Helper()
	b.t.Cleanup(func() { _ = ps.Close() })
	expect.OK(b.t, expect.ErrOf(ps.Receive(b.t.Context())))
	return ps.Channel()
}

func (b bench) heard(messages <-chan *redis.Message) string {
	b.t.Helper()
	return seen(b.raw(messages))
}

// raw returns a message unchanged.
func (b bench) raw(messages <-chan *redis.Message) string {
	b.t.Helper()
	select {
	case m := <-messages:
		return m.Payload
	case <-time.After(10 * time.Second):
		b.t.Fatal("no message")
	}
	return ""
}

func TestScripts(t *testing.T) {
	for name, test := range map[string]func(b bench){
		"released by key": func(b bench) {
			b.expect("kept T", b.eval(script.ReleaseByKey(), "", "A"))
			b.expect("granted T P T 1", b.acquire("t", "A"))
			b.expect("released T", b.eval(script.ReleaseByKey(), "", "A"))
			b.expect("free T 0", b.holder())
			b.expect("granted T P T 1", b.acquire("t", "A"))
			b.mark()
			b.expect("kept T", b.eval(script.ReleaseByKey(), "", "A"))
		},
		"free": func(b bench) {
			b.expect("free T 0", b.holder())
			b.expect("granted T P T 1", b.acquire("t", "A"))
			b.expect("granted T P T 1", b.acquire("t", "A")) // the same again
			b.expect("held T P 0 hf2:A:T:T:0:"+info, b.acquire("t", "B"))
			b.expect("held T P 0 hf2:A:T:T:0:"+info, b.holder())
			b.expect("renewed T P 0 0", b.renew("A", 10, 0))
			b.expect("renewed T P T 5", b.renew("A", 10, 5))
			b.expect("gone T", b.renew("B", 10, 0))
			alone := func(want string) {
				b.t.Helper()
				b.expect(want, b.eval(script.Renew(), "", "A", 60000, 5, strings.Split(b.read(), ":")[2], 80, "channel-W"))
			}
			alone("renewed T P T 80")
			b.listen("W")
			b.acquire("w", "W") // of the same process
			alone("renewed T P T 80")
			b.listen("X")
			b.acquire("w", "X")
			alone("renewed T P T 5")
			b.release("W", member("W"), 0)
			alone("renewed T P T 5")
			b.release("X", member("X"), b.later(time.Minute))
			alone("renewed T P T 80") // a tombstone does not count as a waiter
			renewed := b.run(script.Renew(), "", "A", 60900, 0, b.fence())
			lasts := b.rdb.PExpireTime(b.t.Context(), "{k}").Val().Microseconds() - timeOf(renewed)
			expect.Between(b.t, "time in µs after a renewal for 60900 ms", lasts, 60_898_000, 60_902_000)
			b.expect("gone T", b.release("B", "", 0))
			b.expect("kept T", b.eval(script.ReleaseByKey(), "", "B"))
			b.expect("released T", b.release("A", "", 0))
			b.expect("absent T", b.release("A", "", 0))
			b.expect("absent T", b.renew("A", 10, 0))
		},
		"queue": func(b bench) {
			b.acquire("t", "A")
			first, second := b.listen("B"), b.listen("C")
			b.expect("gone T", b.acquire("l", "B")) // a look creates nothing
			b.expect("queued T P T 1 1 ours", b.acquire("w", "B"))
			b.expect("queued T P T 1 1 ours", b.acquire("w", "B"))
			b.expect("queued T P T 2 1 ours", b.acquire("w", "C"))
			b.expect("queued T P T 3 0 ours", b.acquire("w", "deaf"))
			b.expect("held T P 3 hf2:A:T:T:0:"+info+"+", b.acquire("t", "D"))
			b.expect("released T", b.release("A", "", 0))
			b.expect("hf2 "+b.grant+" B T P T {k}", b.heard(first))
			b.expect("hf2 standby C T T", b.heard(second))
			b.expect("held T P 2 hf2:B:T:T:0:"+info+"+", b.acquire("t", "D"))
			b.expect("granted T P T 1", b.acquire("l", "B")) // confirms the claim
			b.expect("left T", b.release("C", member("C"), 0))
			b.expect("released T", b.release("B", "", 0)) // past the deaf one
			b.expect("free T 0", b.holder())
		},
		"expired under waiters": func(b bench) {
			b.acquire("t", "A")
			first := b.listen("B")
			b.acquire("w", "B")
			b.rdb.Del(b.t.Context(), "{k}")
			// A newcomer does not pass the waiter, but serves it.
			b.expect("held T P 0 hf2:B:T:T:0:"+info, b.acquire("t", "C"))
			b.expect("hf2 "+b.grant+" B T P T {k}", b.heard(first))
			b.acquire("w", "C")
			second := b.listen("D")
			b.acquire("w", "D")
			b.rdb.Del(b.t.Context(), "{k}")
			b.expect("granted T P T 1", b.acquire("l", "C")) // it is answered, not notified
			b.expect("hf2 standby D T T", b.heard(second))   // in case C is dead soon
		},
		"tombstone": func(b bench) {
			b.expect("absent T", b.release("A", "", b.later(time.Hour)))
			b.expect("gone T", b.acquire("t", "A"))
			b.expect("gone T", b.acquire("w", "A"))
			b.expect("granted T P T 1", b.acquire("t", "B"))
			b.expect("released T", b.release("B", "", 0))
			b.rdb.Del(b.t.Context(), "{k}:q")
			b.expect("absent T", b.release("A", "", b.later(-time.Second))) // already past
			b.expect("granted T P T 1", b.acquire("t", "A"))
		},
		"late": func(b bench) {
			b.expect("late T", b.eval(script.Acquire(), "t", "A", 60000, b.later(-time.Second), 1, info))
			b.expect("granted T P T 3", b.eval(script.Acquire(), "t", "A", 60000, b.later(time.Minute), 3, info))
			b.expect("late T", b.eval(script.Acquire(), "w", "B", 60000, b.later(-time.Second), 1, info, claim, "channel-B", ""))
		},
		"asserted again": func(b bench) {
			b.acquire("t", "A")
			value := b.read()
			fence, soon := strings.Split(value, ":")[2], b.later(time.Minute)
			reassert := func(token string, notAfter int64, fence string) string {
				return b.eval(script.Reassert(), "", token, 60000, notAfter, fence, fence, info, fence, 0, b.later(0))
			}
			b.expect("renewed T P 0 0", reassert("A", soon, fence)) // nothing was lost
			b.rdb.Del(b.t.Context(), "{k}")
			b.expect("absent T", reassert("A", soon, fence)) // an operator deleted it
			b.rdb.Del(b.t.Context(), "{k}:f")
			b.expect("late T", reassert("A", b.later(-time.Second), fence))
			b.eval(script.Release(), "", "A", "", soon)
			b.expect("absent T", reassert("A", soon, fence)) // released meanwhile
			b.rdb.Del(b.t.Context(), "{k}:q")
			b.expect("renewed T P 0 0", reassert("A", soon, fence))
			b.expect("renewed T P 0 0", reassert("A", soon, fence)) // the same again
			expect.Equal(b.t, "the fence", strings.Split(b.read(), ":")[2], fence)
			b.expect("gone T", reassert("B", soon, fence)) // another token's
			b.unfence()
			b.expect("renewed T P 0 0", reassert("A", soon, fence)) // it was there all the time
			b.expect("gone T", reassert("B", soon, fence))
			b.expect("released T", b.release("A", "", 0))
			b.acquire("t", "B")
			b.expect("released T", b.release("B", "", 0))
			b.expect("absent T", reassert("A", soon, fence)) // another holder has had it
			// The fence is ahead of the clock: the counter is set back, so fences still rise.
			b.rdb.Del(b.t.Context(), "{k}:f")
			ahead := fmt.Sprint(b.later(time.Hour))
			b.expect("renewed T P 0 0", reassert("A", soon, ahead))
			b.expect("released T", b.release("A", "", 0))
			b.acquire("t", "B")
			expect.Rises(b.t, ahead, strings.Split(b.read(), ":")[2])
			// The counter may be that of a grant after the holder's.
			b.rdb.Del(b.t.Context(), "{k}")
			now := b.later(0)
			ms := (now - 10e6) / 1000 * 1000
			for what, c := range map[string]struct {
				counter, fence, granted, age, asked int64
				verdict                             string
			}{
				"before all":                       {now - 20e6, now - 10e6, now - 10e6, 11e6, now - 1e6, "renewed T P 0 0"},
				"the holder's":                     {now - 10e6, now - 10e6, now - 10e6, 0, now, "absent T"},
				"the holder's, at a second asking": {now - 10e6, now - 10e6, now - 9e6, 0, now, "absent T"},
				"after the grant, whose fence led": {now - 9e6, now + 9e6, now - 10e6, 0, now, "absent T"},
				"after the grant, on a slow clock": {now - 19e6, now - 10e6, now - 10e6, 20e6, now, "absent T"},
				"the same, asked long ago":         {now - 19e6, now - 10e6, now - 10e6, 10e6, now - 10e6, "absent T"},
				"before all, by a slower clock":    {now - 20e6, now - 10e6, now - 10e6, 11e6, now + 60e6, "absent T"},
				"after the grant, in the same ms":  {ms, ms + 5, ms + 900, 0, now, "absent T"},
				"before all, by a ms":              {ms - 1, ms + 5, ms + 900, 0, now, "renewed T P 0 0"},
			} {
				b.setCounter(c.counter)
				b.t.Log(what)
				b.expect(c.verdict, b.eval(script.Reassert(), "", "A", 60000, soon, c.fence, c.fence, info, c.granted, c.age, c.asked))
				b.rdb.Del(b.t.Context(), "{k}")
			}
			// Without a counter the age of the grant does not matter.
			b.rdb.Del(b.t.Context(), "{k}:f")
			for _, flags := range []string{"", "c"} {
				b.expect("renewed T P 0 0", b.eval(script.Reassert(), flags, "A", 60000, soon, now-86400e6, now-86400e6, info, now-86400e6, 0, now))
				b.rdb.Del(b.t.Context(), "{k}")
			}
		},
		"foreign": func(b bench) {
			b.take()
			b.expect("held T P 0 "+b.foreign, b.acquire("tk", "A"))
			b.listen("A")
			b.expect("queued T P T 1 1 foreign", b.acquire("wk", "A"))
			b.expect("queued T P T 1 1 foreign", b.acquire("lk", "A"))
			b.expect("gone T", b.eval(script.Renew(), "", "A", 10, 0, 0))
			b.expect("gone T", b.release("A", "", 0))
			b.expect("kept T", b.eval(script.ReleaseByKey(), "", "A"))
			b.theirsIsIntact()
		},
		"many fences within one ms": func(b bench) {
			ms, last := b.later(time.Hour)/1000, int64(0)
			issue := func(id string) {
				expect.OK(b.t, b.rdb.XAdd(b.t.Context(), &redis.XAddArgs{Stream: "{k}:f", ID: id, Values: []string{"g", ""}}).Err())
			}
			grant := func(want int64) {
				b.t.Helper()
				b.expect("granted T P T 1", b.acquire("t", "A"))
				fence := number(strings.Split(b.read(), ":")[2])
				if id := b.rdb.XRevRangeN(b.t.Context(), "{k}:f", "+", "-", 1).Val()[0].ID; fence != want || fence <= last || id != backend.IDOf(fence) {
					b.t.Errorf("fence %d, with the id %s, follows %d; want %d", fence, id, last, want)
				}
				last = fence
				b.expect("released T", b.release("A", "", 0))
			}
			issue(fmt.Sprintf("%d-998", ms))
			for n := range int64(4) {
				grant(ms*1000 + 999 + n)
			}
			issue(fmt.Sprintf("%d-2500", ms+1)) // of a grant that nobody believes
			grant((ms+1)*1000 + 2501)
			issue("*")
			grant((ms+1)*1000 + 2503)
		},
		"errors": func(b bench) {
			b.spoil()
			b.expect("error WRONGTYPE Operation against a key holding the wrong kind of value", b.acquire("t", "A"))
			b.rdb.Del(b.t.Context(), "{k}")
			b.rdb.Set(b.t.Context(), "{k}:f", "-1", 0)
			b.expect("error BADFENCE the fence counter {k}:f is not a stream", b.acquire("t", "A"))
			b.setCounter(9_999_999_999_999_999)
			b.expect(farAhead, b.acquire("t", "A"))
			b.gone("a lock that is half taken", "{k}")
			// A counter far ahead of the clock issues fences one at a time.
			b.setCounter(b.later(time.Hour))
			b.expect("granted T P T 1", b.eval(script.Acquire(), "t", "A", 60000, 0, 50, info))
		},
	} {
		for _, f := range []form{plain, rlock} {
			t.Run(name+"/"+f.name, func(t *testing.T) {
				onEach(t, func(_ *testing.T, b bench) {
					b.form = f
					test(b)
				})
			})
		}
	}
}

// In Cluster mode a counter has no entries. Its last id tells all the same whether another may have had the lock.
func TestAnEmptyCounterTellsItsLastFence(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		soon, now := b.later(time.Minute), b.later(0)
		granted := now - 10e6
		reassert := func() string {
			return b.eval(script.Reassert(), "c", "A", 60000, soon, granted, granted, info, granted, 0, now)
		}
		for counter, verdict := range map[int64]string{granted - granted%1000: "absent T", granted - granted%1000 - 1: "renewed T P 0 0", now: "absent T"} {
			b.setCounter(counter)
			b.rdb.XTrimMaxLen(t.Context(), "{k}:f", 0)
			b.expect(verdict, reassert())
			b.rdb.Del(t.Context(), "{k}")
		}
		b.expect("granted T P T 2", b.eval(script.Acquire(), "tc", "B", 60000, 0, 2, info))
		if n, last := b.rdb.XLen(t.Context(), "{k}:f").Val(), backend.LastFence(t, b.rdb, "{k}:f"); n != 0 || last != number(strings.Split(b.read(), ":")[2])+1 {
			t.Errorf("the counter has %d entries, and is at %d; the lock is %q", n, last, b.read())
		}
		b.release("B", "", 0)
		b.expect("absent T", reassert())
		b.rdb.Del(t.Context(), "{k}:f")
		b.expect("renewed T P 0 0", reassert())
	})
}

func TestMain(m *testing.M) {
	backend.AtOnce(16) // the tests mostly wait for keys to expire
	os.Exit(m.Run())
}

// seeds returns the seeds of n random cases, with -short of a third as many, and those with which a test is known to find rare mutants.
func seeds(n int, also ...uint64) []uint64 {
	if testing.Short() {
		n /= 3
	}
	for i := range n {
		also = append(also, backend.Seed(i))
	}
	return also
}
