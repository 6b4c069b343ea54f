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

// crowd runs batch scripts for many locks with one fence counter, and the single scripts for the locks that a
// batch leaves. A lock and its token are written NAME/TOKEN.
type crowd struct{ bench }

func (c crowd) ask(s script.Script, keys []string, args ...any) (string, error) {
	return c.rdb.Eval(c.t.Context(), s.Source, keys, args...).Text()
}

// said is ask for a server that must answer.
func (c crowd) said(s script.Script, keys []string, args ...any) string {
	c.t.Helper()
	reply, err := c.ask(s, keys, args...)
	if err != nil {
		c.t.Fatalf("%s %q: %v", s.Name, args, err)
	}
	return reply
}

// seen returns a reply without the parts that differ between runs.
func seen(reply string) string { return volatile.ReplaceAllString(reply, "T") }

// locks returns the keys of locks, the keys of their queues, and heads in which after(lock) follows the token.
func locks(all []string, after func(lock string) string) (keys, queues []string, heads []any) {
	for _, one := range all {
		name, token, _ := strings.Cut(one, "/")
		keys, queues = append(keys, "{"+name+"}"), append(queues, "{"+name+"}:q")
		heads = append(heads, "hf1:"+token+":"+after("{"+name+"}"))
	}
	return keys, queues, heads
}

func nothing(string) string { return "" }

// request returns the keys and arguments of batch_acquire.lua.
func (c crowd) request(flags string, notAfter int64, all ...string) (keys []string, args []any) {
	keys, queues, heads := locks(all, nothing)
	return append(append(keys, queues...), "fence"), append(append([]any{flags, notAfter}, heads...), 60000, info)
}

// take acquires locks together, and returns the reply unchanged.
func (c crowd) take(all ...string) string {
	c.t.Helper()
	keys, args := c.request("", c.later(time.Minute), all...)
	return c.said(script.BatchAcquire(), keys, args...)
}

func (c crowd) free(all ...string) string {
	c.t.Helper()
	keys, _, heads := locks(all, nothing)
	return c.said(script.BatchRelease(), keys, heads...)
}

// keep renews the leases of locks together, with their present fences.
func (c crowd) keep(ttl int, all ...string) string {
	c.t.Helper()
	keys, _, heads := locks(all, func(key string) string { return c.fence(key) + ":" })
	return seen(c.said(script.BatchRenew(), keys, append(append([]any{""}, heads...), ttl)...))
}

// alone runs a script for a single lock.
func (c crowd) alone(s script.Script, flags, lock string, args ...any) string {
	c.t.Helper()
	name, token, _ := strings.Cut(lock, "/")
	return c.said(s, []string{"{" + name + "}", "{" + name + "}:q", "fence"}, append([]any{flags, token}, args...)...)
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
	if got := backend.LastFence(c.t, c.rdb, "fence"); got != want {
		c.t.Errorf("the counter is %d, want %d", got, want)
	}
}

// fence returns the fence of a lock's holder, or "0" if there is none.
func (c crowd) fence(key string) string {
	if part := strings.Split(c.value(key), ":"); len(part) > 2 && part[0] == "hf1" {
		return part[2]
	}
	return "0"
}

// has requires that the lock has that holder's value, with a full minute left.
func (c crowd) has(lock string, fence int64) {
	c.t.Helper()
	name, token, _ := strings.Cut(lock, "/")
	c.expect(fmt.Sprintf("hf1:%s:%d:T:0:%s", token, fence, info), c.value("{"+name+"}"))
	if left := c.rdb.PTTL(c.t.Context(), "{"+name+"}").Val().Milliseconds(); !c.below(left, 60000) {
		c.t.Errorf("%s lasts for %d ms", name, left)
	}
}

// only requires that no other locks exist.
func (c crowd) only(keys ...string) {
	c.t.Helper()
	if n, there := c.rdb.Keys(c.t.Context(), "{*}").Val(), c.rdb.Exists(c.t.Context(), keys...).Val(); len(n) != len(keys) || int(there) != len(keys) {
		c.t.Errorf("there are %q; want %q", n, keys)
	}
}

// first returns the fence with which a reply of batch_acquire.lua begins.
func first(reply string) int64 { return number(strings.Fields(reply)[2]) }

func TestBatchScripts(t *testing.T) {
	for name, test := range map[string]func(c crowd){
		"all are free": func(c crowd) {
			reply := c.take("a/A", "b/B", "c/C")
			c.expect("taken T T", seen(reply))
			fence := first(reply)
			for i, lock := range []string{"a/A", "b/B", "c/C"} {
				c.has(lock, fence+int64(i))
			}
			c.counts(fence + 2)
			c.only("{a}", "{b}", "{c}")
			// The same request again, alone, is answered with the fence that it has.
			c.expect(fmt.Sprintf("granted T P %d 1", fence+1), volatile.ReplaceAllStringFunc(c.acquire("b/B"), func(n string) string {
				if n == fmt.Sprint(fence+1) {
					return n
				}
				return "T"
			}))
			c.has("b/B", fence+1)
			// Together with others it is left, and nothing changes.
			c.expect("taken T T 1 3", seen(c.take("a/A", "d/D", "c/C")))
			c.has("a/A", fence)
			c.expect("kept T", c.keep(90000, "b/B", "c/C"))
			c.expect("renewed T P 0 0", seen(c.alone(script.Renew(), "", "a/A", 10, 0, fence)))
			c.expect("released T", seen(c.alone(script.Release(), "", "a/A", "", 0)))
			c.expect("freed", c.free("b/B", "c/C", "d/D"))
			c.only()
		},
		"each has a TTL and an info of its own": func(c crowd) {
			keys, queues, heads := locks([]string{"a/A", "b/B"}, nothing)
			args := append(append([]any{"", c.later(time.Minute)}, heads...), 60000, 90000, `{"o":"a"}`, `{"o":"b"}`)
			c.expect("taken T T", seen(c.said(script.BatchAcquire(), append(append(keys, queues...), "fence"), args...)))
			expect := func(ttls ...int64) {
				c.t.Helper()
				for i, key := range keys {
					if left := c.rdb.PTTL(c.t.Context(), key).Val().Milliseconds(); !c.below(left, ttls[i]) {
						c.t.Errorf("%s lasts for %d ms, want %d", key, left, ttls[i])
					}
				}
			}
			expect(60000, 90000)
			if a, b := c.value("{a}"), c.value("{b}"); !strings.HasSuffix(a, `:{"o":"a"}`) || !strings.HasSuffix(b, `:{"o":"b"}`) {
				c.t.Errorf("the values are %q and %q", a, b)
			}
			_, _, fenced := locks([]string{"a/A", "b/B"}, func(key string) string { return c.fence(key) + ":" })
			c.expect("kept T", seen(c.said(script.BatchRenew(), keys, append(append([]any{""}, fenced...), 120000, 150000)...)))
			expect(120000, 150000)
			// Another token, with the present fences, changes nothing.
			_, _, others := locks([]string{"a/X", "b/B"}, func(key string) string { return c.fence(key) + ":" })
			c.expect("kept T 1", seen(c.said(script.BatchRenew(), keys, append(append([]any{""}, others...), 180000)...)))
			expect(120000, 180000)
		},
		"some are held": func(c crowd) {
			c.acquire("ours/A")
			c.acquire("others/X")
			c.rdb.Set(c.t.Context(), "{foreign}", "theirs", time.Minute)
			c.rdb.HSet(c.t.Context(), "{hash}", "a", "b")
			c.rdb.Set(c.t.Context(), "{ever}", "hf1:E:7:1:0:{}", 0)
			before := map[string]string{}
			for _, key := range []string{"{ours}", "{others}", "{foreign}", "{ever}"} {
				before[key] = c.value(key)
			}
			reply := c.take("ours/A", "one/A", "others/A", "foreign/A", "hash/A", "two/B", "ever/A")
			c.expect("taken T T 1 3 4 5 7", seen(reply))
			c.has("one/A", first(reply)+1)
			c.has("two/B", first(reply)+5)
			for key, value := range before {
				if got := c.value(key); got != value {
					c.t.Errorf("%s was %q and is %q", key, value, got)
				}
			}
			if left := c.rdb.PTTL(c.t.Context(), "{ever}").Val(); left != -1 {
				c.t.Errorf("a lock without an expiry has %d ms", left)
			}
			// These are the replies of the single scripts for the locks that were left.
			c.expect("granted T P T 1", seen(c.acquire("ours/A")))
			c.expect("held T P 0 hf1:X:T:T:0:"+info, seen(c.acquire("others/A")))
			c.expect("held T P 0 theirs", seen(c.acquire("foreign/A")))
			c.expect("error WRONGTYPE Operation against a key holding the wrong kind of value", c.acquire("hash/A"))
			c.expect("kept T 2 3 4", c.keep(90000, "ours/A", "others/A", "foreign/A", "hash/A"))
			c.expect("freed 2 3 4 5", c.free("ours/A", "others/A", "foreign/A", "hash/A", "none/A", "one/A"))
			c.only("{others}", "{foreign}", "{hash}", "{two}", "{ever}")
		},
		"queues": func(c crowd) {
			c.acquire("waited/A")
			c.wait("waited/W")
			c.expect("taken T 0 1", seen(c.take("waited/A")))
			c.expect("kept T", c.keep(90000, "waited/A")) // the mark does not matter
			if !strings.HasSuffix(c.value("{waited}"), "+") {
				c.t.Error("the mark is gone")
			}
			c.expect("freed 1", c.free("waited/A"))
			c.expect("released T", seen(c.alone(script.Release(), "", "waited/A", "", 0))) // it hands over
			if got := c.value("{waited}"); !strings.HasPrefix(got, "hf1:W:") {
				c.t.Errorf("after the hand-over the lock is %q", got)
			}
			c.expect("freed", c.free("waited/W")) // nobody waits any more

			// A lock can be free while somebody waits.
			c.acquire("passed/A")
			c.wait("passed/V")
			c.rdb.Del(c.t.Context(), "{passed}")
			c.expect("taken T 0 1", seen(c.take("passed/B")))
			c.expect("held T P 0 hf1:V:T:T:0:"+info, seen(c.acquire("passed/B"))) // it serves the waiter

			// A token was given up, and copies of its request may still come.
			c.expect("absent T", seen(c.alone(script.Release(), "", "over/A", "", c.later(time.Hour))))
			c.expect("taken T T 1", seen(c.take("over/A", "beside/A")))
			c.expect("gone T", seen(c.acquire("over/A")))
			c.expect("granted T P T 1", seen(c.acquire("over/B")))

			// A queue has expired.
			c.rdb.ZAdd(c.t.Context(), "{past}:q", redis.Z{Score: 1, Member: member("P")})
			c.rdb.PExpire(c.t.Context(), "{past}:q", 20*time.Millisecond)
			backend.Eventually(c.t, "the queue stays", func() bool {
				return c.rdb.Exists(c.t.Context(), "{past}:q").Val() == 0
			})
			c.expect("taken T T", seen(c.take("past/A")))
		},
		"the same lock twice": func(c crowd) {
			reply := c.take("a/A", "a/B", "b/C", "a/A", "a/B")
			c.expect("taken T T 2 4 5", seen(reply))
			c.has("a/A", first(reply))
			c.has("b/C", first(reply)+2)
			// The lock already lasts that long, or a ms less if the clock advances during a script.
			if said := c.keep(90000, "a/A", "a/B", "a/A"); said != "kept T 2 3" && said != "kept T 2" {
				c.t.Errorf("a lock twice in a batch: %q", said)
			}
			if said := c.alone(script.Renew(), "", "a/A", 90000, 0, c.fence("{a}")); !strings.HasPrefix(said, "renewed ") {
				c.t.Errorf("what a batch has left is %q", said)
			}
			c.expect("freed 2", c.free("a/A", "a/B", "b/C", "a/A"))
			c.only()
			c.expect("freed 1", c.free("a/A"))
		},
		"too late": func(c crowd) {
			now := c.later(0)
			for _, notAfter := range []int64{now - 1_000_000, now} { // it is earlier than the time at which the script runs
				keys, args := c.request("", notAfter, "a/A", "b/B")
				c.expect("taken T 0 1 2", seen(c.said(script.BatchAcquire(), keys, args...)))
			}
			c.only()
			if n := c.rdb.Exists(c.t.Context(), "fence").Val(); n != 0 {
				c.t.Error("fences were issued for nothing")
			}
			c.expect("late T", seen(c.alone(script.Acquire(), "t", "a/A", 60000, now, 1, info)))
		},
		"fences rise": func(c crowd) {
			last := int64(0)
			rises := func(what string, from, n int64) {
				c.t.Helper()
				if from <= last {
					c.t.Errorf("%s: fence %d follows %d", what, from, last)
				}
				last = from + n - 1
			}
			for n := range 20 {
				rises("alone", number(strings.Fields(c.acquire("a/A"))[3]), 1)
				c.free("a/A")
				rises("together", first(c.take("a/A", "b/B", fmt.Sprintf("c%d/C", n))), 3)
				rises("together, but the first", first(c.take("a/A", "d/D")), 2)
				rises("one", first(c.take("e/E")), 1)
				c.expect("freed", c.free("a/A", "b/B", "d/D", "e/E"))
			}
		},
		"the counter is ahead by less than a second": func(c crowd) {
			// On a slow machine the server's clock may catch up with the counter meanwhile.
			for range 20 {
				ahead := c.later(900*time.Millisecond) / 1000 * 1000 // batches leave locks whose fences would be of two ms
				backend.SetCounter(c.t, c.rdb, "fence", ahead)
				three := c.take("a/A", "b/B", "c/C")
				stored := backend.LastFence(c.t, c.rdb, "fence")
				one := c.take("d/D")
				if c.later(0) >= ahead {
					c.free("a/A", "b/B", "c/C", "d/D")
					continue
				}
				c.expect("taken T T", seen(three))
				if first(three) != ahead+1 || stored != ahead+3 {
					c.t.Errorf("fences from %d to %d follow %d", first(three), stored, ahead)
				}
				c.expect("taken T T", seen(one))
				c.has("d/D", ahead+4)
				if first(one) != ahead+4 {
					c.t.Errorf("fence %d follows %d", first(one), ahead+3)
				}
				c.counts(ahead + 4)
				return
			}
			c.t.Error("the server took 0.9 s for a few commands, 20 times in a row")
		},
		"the counter is far ahead": func(c crowd) {
			ahead := c.later(time.Hour) / 1000 * 1000
			backend.SetCounter(c.t, c.rdb, "fence", ahead)
			reply := c.take("a/A", "b/B", "c/C")
			c.expect("taken T T 2 3", seen(reply))
			c.has("a/A", ahead+1)
			c.only("{a}")
			c.counts(ahead + 1)
			c.expect("granted T P T 1", seen(c.acquire("b/B")))
			if got := c.fence("{b}"); got != fmt.Sprint(ahead+2) {
				c.t.Errorf("fence %s follows %d", got, ahead+1)
			}
			// The present fence would be for the first lock, and that is held.
			c.expect("taken T T 1 2", seen(c.take("a/X", "c/C")))
			c.only("{a}", "{b}")
			c.expect("taken T 0 1", seen(c.take("a/X")))
			c.expect("taken T T", seen(c.take("c/C")))
			got := number(c.fence("{c}"))
			if got <= ahead+2 {
				c.t.Errorf("fence %d follows %d", got, ahead+2)
			}
			c.counts(got)
		},
		"the counter is none": func(c crowd) {
			for _, spoil := range []func(){
				func() { c.rdb.Set(c.t.Context(), "fence", "1600000000000000", 0) },
				func() { c.rdb.HSet(c.t.Context(), "fence", "a", "b") },
			} {
				c.rdb.Del(c.t.Context(), "fence")
				spoil()
				c.expect("error BADFENCE the fence counter is not a stream", c.take("a/A", "b/B"))
				c.expect("taken T 0 1", seen(c.take("a/A")))
			}
			backend.SetCounter(c.t, c.rdb, "fence", 9_999_999_999_999_999)
			c.expect(strings.Replace(farAhead, "{k}:f", "fence", 1), c.take("a/A", "b/B"))
			c.expect("taken T 0 1", seen(c.take("a/A")))
			c.only()
		},
		"in a Cluster": func(c crowd) {
			keys, args := c.request("c", c.later(time.Minute), "a/A")
			c.expect("taken T T", seen(c.said(script.BatchAcquire(), keys, args...)))
			if left := c.rdb.TTL(c.t.Context(), "fence").Val(); left != -1 {
				c.t.Errorf("the counter of a slot lasts for %v", left)
			}
		},
		"as many as there may be": func(c crowd) {
			var all []string
			for n := range 128 {
				all = append(all, fmt.Sprintf("%d/T%d", n, n))
			}
			c.acquire("77/X")
			reply := c.take(all...)
			c.expect("taken T T 78", seen(reply))
			c.has("127/T127", first(reply)+127)
			c.expect("kept T 78", c.keep(90000, all...))
			c.expect("freed 78", c.free(all...))
			c.only("{77}")
		},
		"whose it is": func(c crowd) {
			c.take("a/AB", "b/A")
			// A token that begins like another is not the other; nor does a token count elsewhere in a value.
			c.expect("freed 1 2", c.free("a/A", "b/AB"))
			c.rdb.Set(c.t.Context(), "{c}", "xhf1:A:1:1:0:{}", time.Minute)
			c.expect("freed 1", c.free("c/A"))
			c.expect("kept T 1", seen(c.said(script.BatchRenew(), []string{"{c}"}, "", "hf1:A:1:", 90000)))
			// Tokens are text, not patterns.
			c.expect("freed 1", c.free("b/."))
			c.rdb.Append(c.t.Context(), "{a}", "+")
			c.expect("freed 1", c.free("a/AB"))
			c.only("{a}", "{b}", "{c}")
		},
		"renewed": func(c crowd) {
			c.take("longer/A", "shorter/A", "ever/A", "fence/A")
			ctx := c.t.Context()
			c.rdb.PExpire(ctx, "{longer}", 30*time.Second)
			c.rdb.Persist(ctx, "{ever}")
			fence := number(c.fence("{fence}"))
			c.expect("kept T 2 3", c.keep(50000, "longer/A", "shorter/A", "ever/A"))
			if left := c.rdb.PTTL(ctx, "{longer}").Val().Milliseconds(); !c.below(left, 50000) {
				c.t.Errorf("it lasts for %d ms, not 50000", left)
			}
			if left := c.rdb.PTTL(ctx, "{shorter}").Val().Milliseconds(); !c.below(left, 60000) {
				c.t.Errorf("a renewal has made 60000 ms %d", left)
			}
			if left := c.rdb.PTTL(ctx, "{ever}").Val(); left != -1 {
				c.t.Errorf("a lock without an expiry has got one: %v", left)
			}
			c.expect("renewed T P 0 0", seen(c.alone(script.Renew(), "", "shorter/A", 50000, 0, c.fence("{shorter}"))))
			for _, head := range []string{fmt.Sprintf("hf1:A:%d:", fence+1), fmt.Sprintf("hf1:A:%d:", fence/10), fmt.Sprintf("hf1:B:%d:", fence)} {
				c.expect("kept T 1", seen(c.said(script.BatchRenew(), []string{"{fence}"}, "", head, 90000)))
			}
			c.expect("gone T", seen(c.alone(script.Renew(), "", "fence/A", 90000, 0, fence+1)))
			if left := c.rdb.PTTL(ctx, "{fence}").Val().Milliseconds(); !c.below(left, 60000) {
				c.t.Errorf("a renewal with another fence or token has made 60000 ms %d", left)
			}
			c.expect("kept T 1", c.keep(60000, "missing/A"))
			if n := c.rdb.Exists(ctx, "{missing}").Val(); n != 0 {
				c.t.Error("a renewal has made a lock")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend.Each(t, func(t *testing.T, back *backend.Backend) {
				back.Redis(t).FlushAll(t.Context())
				test(crowd{newBench(t, back)})
			})
		})
	}
}

// Fault: The server has no memory when a batch arrives. It grants nothing, not even part of it; leases can be renewed
// and released.
func TestBatchesWithoutMemory(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, back *backend.Backend) {
		c := crowd{newBench(t, back)}
		reply := c.take("a/A", "b/B")
		c.rdb.PExpire(t.Context(), "{a}", 10*time.Second)
		fence := backend.LastFence(t, c.rdb, "fence")
		if err := c.rdb.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
			t.Fatal(err)
		}
		if said := c.take("c/C", "d/D"); !strings.HasPrefix(said, "error OOM ") {
			t.Errorf("a server without memory says %q", said)
		}
		c.only("{a}", "{b}")
		c.counts(fence)
		c.expect("kept T", c.keep(60001, "a/A", "b/B"))
		if left := c.rdb.PTTL(t.Context(), "{a}").Val().Milliseconds(); !c.below(left, 60001) {
			t.Errorf("it lasts for %d ms", left)
		}
		c.expect("freed", c.free("a/A", "b/B"))
		c.only()
		if err := c.rdb.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
			t.Fatal(err)
		}
		if next := c.take("c/C"); first(next) <= first(reply)+1 {
			t.Errorf("%q follows %q", next, reply)
		}
	})
}

// Fault: A batch has a key that its user may not access. It is refused as a whole, before it has any effect.
func TestBatchWithAForbiddenKey(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, back *backend.Backend) {
		c := crowd{newBench(t, back)}
		if err := c.rdb.ACLSetUser(t.Context(), "half", "on", ">secret", "+@all", "~{a}*", "~{c}*", "~fence").Err(); err != nil {
			t.Fatal(err)
		}
		half := back.Redis(t, func(o *redis.Options) { o.Username, o.Password = "half", "secret" })
		keys, args := c.request("", c.later(time.Minute), "a/A", "b/B", "c/C")
		err := half.Eval(t.Context(), script.BatchAcquire().Source, keys, args...).Err()
		if !redis.HasErrorPrefix(err, "NOPERM") {
			t.Errorf("a batch with a key that is forbidden: %v", err)
		}
		c.only()
	})
}

// Fault: A batch reaches a replica. It is refused with the error that connection pools understand.
func TestBatchesRefuseAReplica(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, back *backend.Backend) {
		c := crowd{newBench(t, back)}
		c.take("a/A", "b/B")
		before := c.value("{a}")
		c.rdb.PExpire(t.Context(), "{a}", 30*time.Second)
		taken, wanted := c.request("", c.later(time.Minute), "c/C", "d/D")
		keys, _, heads := locks([]string{"a/A", "b/B"}, nothing)
		_, _, renewed := locks([]string{"a/A", "b/B"}, func(key string) string { return c.fence(key) + ":" })
		_, _, strangers := locks([]string{"a/X", "b/X"}, nothing)
		if err := c.rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil { // nobody listens there
			t.Fatal(err)
		}
		for what, ask := range map[string]func() (string, error){
			"acquired": func() (string, error) { return c.ask(script.BatchAcquire(), taken, wanted...) },
			"released": func() (string, error) { return c.ask(script.BatchRelease(), keys, heads...) },
			"renewed": func() (string, error) {
				return c.ask(script.BatchRenew(), keys, append(append([]any{""}, renewed...), 90000)...)
			},
		} {
			if said, err := ask(); !redis.HasErrorPrefix(err, "READONLY") {
				t.Errorf("%s: the replica says %q, %v", what, said, err)
			}
		}
		c.expect("freed 1 2", c.said(script.BatchRelease(), keys, strangers...))
		c.only("{a}", "{b}")
		if left := c.rdb.PTTL(t.Context(), "{a}").Val(); c.value("{a}") != before || left > 30*time.Second {
			t.Errorf("the lock was %q and is %q, for %v", before, c.value("{a}"), left)
		}
	})
}
