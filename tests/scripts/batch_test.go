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

// crowd sets many locks natively, with one fence counter, and runs scripts for them: those for several, and those for one. A lock and
// its token are written NAME/TOKEN.
type crowd struct{ bench }

// locks returns the keys of locks, the keys of their queues, and heads in which after(lock) follows the token.
func locks(all []string, after func(lock string) string) (keys, queues []string, heads []any) {
	for _, one := range all {
		name, token, _ := strings.Cut(one, "/")
		keys, queues = append(keys, "{"+name+"}"), append(queues, "{"+name+"}:q")
		heads = append(heads, "hf2:"+token+":"+after("{"+name+"}"))
	}
	return keys, queues, heads
}

func nothing(string) string { return "" }

// take sets locks in one transaction, as the library does, and returns the fence that they share. Their values do not have it. All
// locks must be free.
func (c crowd) take(all ...string) int64 {
	c.t.Helper()
	keys, _, heads := locks(all, nothing)
	var minted *redis.StringCmd
	set, err := c.rdb.TxPipelined(c.t.Context(), func(p redis.Pipeliner) error {
		for i, key := range keys {
			p.Do(c.t.Context(), "SET", key, fmt.Sprint(heads[i], "0:", c.later(0)/1000, ":0:", info), "NX", "PX", 60000)
		}
		minted = p.XAdd(c.t.Context(), &redis.XAddArgs{Stream: "fence", MaxLen: 1, Approx: true, Values: []string{"g", ""}})
		return nil
	})
	if err != nil {
		c.t.Fatalf("%v: %v", set, err)
	}
	time.Sleep(2 * time.Millisecond) // a renewal in the same ms would not make them last longer
	ms, seq, _ := strings.Cut(minted.Val(), "-")
	return number(ms)*1000 + number(seq)
}

// keepAs renews the leases of locks together, of which the holders know that fence.
func (c crowd) keepAs(fence int64, ttl int, all ...string) string {
	c.t.Helper()
	keys, _, heads := locks(all, func(string) string { return fmt.Sprint(fence, ":") })
	return seen(c.on(keys, script.BatchRenew(), append(append([]any{""}, heads...), ttl)...))
}

func (c crowd) free(all ...string) string {
	c.t.Helper()
	keys, _, heads := locks(all, nothing)
	return c.on(keys, script.BatchRelease(), heads...)
}

// alone runs a script for a single lock.
func (c crowd) alone(s script.Script, flags, lock string, args ...any) string {
	c.t.Helper()
	name, token, _ := strings.Cut(lock, "/")
	return c.on([]string{"{" + name + "}", "{" + name + "}:q", "fence"}, s, append([]any{flags, token}, args...)...)
}

func (c crowd) acquire(lock string) string {
	c.t.Helper()
	return c.alone(script.Acquire(), "t", lock, 60000, 0, 1, info)
}

// wait queues for a lock, as a waiter with a subscription.
func (c crowd) wait(lock string) {
	c.t.Helper()
	_, token, _ := strings.Cut(lock, "/")
	c.listen(token)
	c.expect("queued T P T 1 1 ours", seen(c.alone(script.Acquire(), "w", lock, 60000, 0, 1, info, claim, "channel-"+token, "")))
}

func (c crowd) value(key string) string { return c.rdb.Get(c.t.Context(), key).Val() }

// counts requires that the counter has this value.
func (c crowd) counts(want int64) {
	c.t.Helper()
	expect.Equal(c.t, "the counter", backend.LastFence(c.t, c.rdb, "fence"), want)
}

// fence returns the fence of a lock's holder, or "0" if there is none.
func (c crowd) fence(key string) string {
	if part := strings.Split(c.value(key), ":"); len(part) > 2 && part[0] == "hf2" {
		return part[2]
	}
	return "0"
}

// has requires that the lock has that holder's value, with a full minute left.
func (c crowd) has(lock string, fence int64) {
	c.t.Helper()
	name, token, _ := strings.Cut(lock, "/")
	c.expect(fmt.Sprintf("hf2:%s:%d:T:0:%s", token, fence, info), c.value("{"+name+"}"))
	c.lastsFor("{"+name+"}", 60000)
}

// only requires that no other locks exist.
func (c crowd) only(keys ...string) {
	c.t.Helper()
	if n, there := c.rdb.Keys(c.t.Context(), "{*}").Val(), c.rdb.Exists(c.t.Context(), keys...).Val(); len(n) != len(keys) || int(there) != len(keys) {
		c.t.Errorf("there are %q; want %q", n, keys)
	}
}

func TestBatchScripts(t *testing.T) {
	for name, test := range map[string]func(c crowd){
		"a fence is written by the first renewal": func(c crowd) {
			fence := c.take("a/A", "b/B", "c/C", "d/D")
			c.has("a/A", 0)
			c.wait("b/W")
			c.wait("d/V")
			c.expect("kept T", c.keepAs(fence, 60000, "a/A", "b/B"))
			c.has("a/A", fence)
			c.expect("renewed T P 0 0", seen(c.alone(script.Renew(), "", "c/C", 60000, 0, fence)))
			c.has("c/C", fence)
			c.expect("renewed T P 0 0", seen(c.alone(script.Renew(), "", "d/D", 60000, 0, fence)))
			for key, token := range map[string]string{"{b}": "B", "{d}": "D"} {
				if got := c.value(key); !strings.HasPrefix(got, fmt.Sprintf("hf2:%s:%d:", token, fence)) || !strings.HasSuffix(got, "+") {
					c.t.Errorf("a lock that is waited for is %q", got)
				}
			}
			// From then on no other fence will do.
			c.expect("kept T 1 2", c.keepAs(fence+1, 90000, "a/A", "c/C"))
			c.expect("gone T", seen(c.alone(script.Renew(), "", "c/C", 60000, 0, fence+1)))
			c.counts(fence)
		},
		"another's token has no fence to write": func(c crowd) {
			fence := c.take("a/AB", "b/A")
			c.expect("kept T 1 2", c.keepAs(fence, 90000, "a/A", "b/AB"))
			c.expect("gone T", seen(c.alone(script.Renew(), "", "a/A", 60000, 0, fence)))
			c.has("a/AB", 0)
			c.has("b/A", 0)
		},
		"each has a TTL of its own": func(c crowd) {
			fence := c.take("a/A", "b/B")
			keys, _, fenced := locks([]string{"a/A", "b/B"}, func(string) string { return fmt.Sprint(fence, ":") })
			c.expect("kept T", seen(c.on(keys, script.BatchRenew(), append(append([]any{""}, fenced...), 120000, 150000)...)))
			for i, key := range keys {
				c.lastsFor(key, []int64{120000, 150000}[i])
			}
		},
		"some are others'": func(c crowd) {
			c.take("ours/A", "others/X", "ever/E")
			c.rdb.Set(c.t.Context(), "{foreign}", "theirs", time.Minute)
			c.rdb.HSet(c.t.Context(), "{hash}", "a", "b")
			c.rdb.Persist(c.t.Context(), "{ever}")
			c.expect("kept T 2 3 4 5", c.keepAs(7, 90000, "ours/A", "others/A", "foreign/A", "hash/A", "missing/A"))
			c.expect("freed 2 3 4 5", c.free("ours/A", "others/A", "foreign/A", "hash/A", "none/A"))
			c.expect("kept T 1", c.keepAs(7, 90000, "ever/E"))
			expect.Equal(c.t, "what is left of a lock without an expiry", c.rdb.PTTL(c.t.Context(), "{ever}").Val(), -1)
			c.only("{others}", "{foreign}", "{hash}", "{ever}")
		},
		"queues": func(c crowd) {
			c.take("waited/A")
			c.wait("waited/W")
			c.expect("freed 1", c.free("waited/A"))
			c.expect("released T", seen(c.alone(script.Release(), "", "waited/A", "", 0))) // it hands over
			c.begins("hf2:W:", c.value("{waited}"))
			c.expect("freed", c.free("waited/W")) // nobody waits any more

			// A lock can be free while somebody waits. Then it has no mark, and its release serves the waiter all the same.
			c.acquire("passed/A")
			c.wait("passed/V")
			c.rdb.Del(c.t.Context(), "{passed}")
			c.take("passed/B")
			c.expect("released T", seen(c.alone(script.Release(), "", "passed/B", "", 0)))
			c.begins("hf2:V:", c.value("{passed}"))
		},
		"a waiter that was passed cannot be served": func(c crowd) {
			release := func(lock, want string) {
				c.t.Helper()
				c.rdb.Set(c.t.Context(), "fence", "theirs", 0)
				c.begins(want, c.alone(script.Release(), "", lock, "", 0))
				c.rdb.Del(c.t.Context(), "fence")
				c.only()
			}
			c.acquire("a/A")
			c.wait("a/V")
			release("a/A", "released")
			c.acquire("a/A")
			c.wait("a/W")
			c.rdb.Del(c.t.Context(), "{a}")
			c.take("a/B")
			release("a/B", "error BADFENCE")
		},
		"taken back": func(c crowd) {
			// What a token has without a fence is released, and its tombstone stands.
			c.take("a/A")
			c.expect("released T", seen(c.alone(script.Release(), "", "a/A", "", c.later(time.Hour))))
			c.expect("gone T", seen(c.acquire("a/A")))
			c.expect("granted T P T 1", seen(c.acquire("a/B")))
		},
		"as many as there may be": func(c crowd) {
			var all []string
			for n := range 128 {
				all = append(all, fmt.Sprintf("%d/T%d", n, n))
			}
			fence := c.take(all...)
			c.rdb.Del(c.t.Context(), "{77}")
			c.expect("kept T 78", c.keepAs(fence, 60000, all...))
			c.has("127/T127", fence)
			c.expect("freed 78", c.free(all...))
			c.only()
		},
		"whose it is": func(c crowd) {
			c.take("a/AB", "b/A")
			// A token that begins like another is not the other; nor does a token count elsewhere in a value.
			c.expect("freed 1 2", c.free("a/A", "b/AB"))
			c.rdb.Set(c.t.Context(), "{c}", "xhf2:A:1:1:0:{}", time.Minute)
			c.expect("freed 1", c.free("c/A"))
			c.expect("kept T 1", c.keepAs(1, 90000, "c/A"))
			// Tokens are text, not patterns.
			c.expect("freed 1", c.free("b/."))
			c.expect("kept T 1", c.keepAs(1, 90000, "b/."))
			c.rdb.Append(c.t.Context(), "{a}", "+")
			c.expect("freed 1", c.free("a/AB"))
			c.only("{a}", "{b}", "{c}")
		},
		"an expiry is not shortened": func(c crowd) {
			young := c.take("young/Y")
			c.expect("renewed T P 0 0", seen(c.alone(script.Renew(), "", "young/Y", 50000, 0, young)))
			c.has("young/Y", young)
			fence := c.take("longer/A", "shorter/A")
			c.rdb.PExpire(c.t.Context(), "{longer}", 30*time.Second)
			c.expect("kept T 2", c.keepAs(fence, 50000, "longer/A", "shorter/A"))
			for key, want := range map[string]int64{"{longer}": 50000, "{shorter}": 60000} {
				c.lastsFor(key, want)
			}
			c.expect("renewed T P 0 0", seen(c.alone(script.Renew(), "", "shorter/A", 50000, 0, fence)))
		},
	} {
		t.Run(name, func(t *testing.T) { onEach(t, func(_ *testing.T, b bench) { test(crowd{b}) }) })
	}
}

// Fault: The server has no memory. Leases can be renewed, without writing the fence, and released.
func TestBatchesWithoutMemory(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		c := crowd{b}
		fence := c.take("a/A", "b/B")
		c.rdb.PExpire(t.Context(), "{a}", 10*time.Second)
		c.configure("maxmemory", "1")
		c.expect("kept T", c.keepAs(fence, 60000, "a/A", "b/B"))
		c.expect("renewed T P 0 0", seen(c.alone(script.Renew(), "", "a/A", 60000, 0, fence)))
		c.lastsFor("{a}", 60000)
		c.expect("0", c.fence("{a}"))
		c.configure("maxmemory", "0")
		c.expect("renewed T P 0 0", seen(c.alone(script.Renew(), "", "a/A", 60000, 0, fence)))
		c.expect(fmt.Sprint(fence), c.fence("{a}"))
		c.expect("freed", c.free("a/A", "b/B"))
		c.only()
	})
}
