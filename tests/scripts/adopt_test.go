package scripts

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// adopters is the INFO of adopters, which differs from that of the first holder.
const adopters = `{"o":"you"}`

// ticket stands for a lock that was detached.
type ticket struct {
	token, fence string
	// tombstone is the server time until which an acquire of the token may still arrive.
	tombstone int64
}

// detach renews a token's lock, as its holder does before it gives a ticket away.
func (b bench) detach(token string) ticket {
	b.t.Helper()
	b.expect("renewed T P 0 0", b.renew(token, 60000, 0))
	return ticket{token: token, fence: b.fence()}
}

// fence returns the fence in the lock's value.
func (b bench) fence() string {
	b.t.Helper()
	fields := strings.Split(b.read(), ":")
	if len(fields) < 3 {
		b.t.Fatalf("the lock's value is %q", b.read())
	}
	return fields[2]
}

// adopt adopts a ticket's lock under a token, for a minute.
func (b bench) adopt(token string, of ticket) string {
	b.t.Helper()
	return b.eval(script.Adopt(), b.adoption("", token, of, 60000, b.later(time.Minute))...)
}

func (b bench) adoption(flags, token string, of ticket, ttl int, notAfter int64) []any {
	return []any{flags, token, ttl, notAfter, adopters, of.token, of.fence, of.tombstone}
}

// extend keeps a ticket's lock held for a minute.
func (b bench) extend(of ticket) string {
	b.t.Helper()
	return b.eval(script.Renew(), "", of.token, 60000, 0, of.fence)
}

func TestAdopt(t *testing.T) {
	cases(t, onEach, map[string]func(b bench){
		"adopted": func(b bench) {
			b.expect("granted T P T 3", b.eval(script.Acquire(), "t", "A", 60000, 0, 3, info))
			of := b.detach("A")
			b.expect("renewed T P 0 0", b.extend(of))
			b.expect("adopted T P T", b.adopt("N", of))
			b.expect("held T P 0 hf2:N:T:T:0:"+adopters, b.holder())
			if got := b.fence(); number(got) < number(of.fence)+3 {
				b.t.Errorf("the fence is %s; %s was one of three", got, of.fence)
			}
			// The earlier holder, and the ticket, can do nothing more.
			b.expect("gone T", b.extend(of))
			b.expect("gone T", b.release("A", "", 0))
			b.expect("kept T", b.eval(script.ReleaseByKey(), "", "A"))
			b.expect("renewed T P 0 0", b.renew("N", 60000, 0))
			b.expect("released T", b.release("N", "", 0))
			b.expect("absent T", b.extend(of))
			b.gone("keys that are left", "{k}", "{k}:q")
		},
		"once": func(b bench) {
			b.acquire("t", "A")
			of := b.detach("A")
			b.expect("adopted T P T", b.adopt("N", of))
			b.expect("gone T", b.adopt("M", of))
			b.expect("gone T", b.adopt("M", ticket{token: "N", fence: of.fence}))
			b.expect("released T", b.release("N", "", 0))
			b.expect("absent T", b.adopt("M", of))
			b.acquire("t", "B")
			b.expect("gone T", b.adopt("M", of))
			b.expect("gone T", b.adopt("N", of)) // neither token gets the lock again
			b.expect("renewed T P 0 0", b.renew("B", 60000, 0))
		},
		"before its fence is written": func(b bench) {
			b.acquire("t", "A")
			of := b.detach("A")
			b.unfence()
			b.expect("gone T", b.adopt("N", ticket{token: "B", fence: of.fence}))
			b.expect("adopted T P T", b.adopt("N", of))
			b.rises(number(of.fence), number(b.fence()))
			b.expect("gone T", b.adopt("M", of))
		},
		"sent again": func(b bench) {
			b.acquire("t", "A")
			of := b.detach("A")
			args := b.adoption("", "N", of, 60000, b.later(time.Minute))
			b.expect("adopted T P T", b.eval(script.Adopt(), args...))
			value := b.read()
			b.rdb.PExpire(b.t.Context(), "{k}", 20*time.Second)
			reply := b.run(script.Adopt(), args...)
			if want := " " + b.fence(); !strings.HasSuffix(reply, want) || b.read() != value {
				b.t.Errorf("the second run says %q, and leaves %q of %q", reply, b.read(), value)
			}
			b.expect("adopted T P T", seen(reply)) // with a full TTL
			b.rdb.Del(b.t.Context(), "{k}")
			b.expect("absent T", b.eval(script.Adopt(), args...))
		},
		"for as long as is left, or longer": func(b bench) {
			ttl := func() int64 { return b.rdb.PTTL(b.t.Context(), "{k}").Val().Milliseconds() }
			for left, asked := range map[int]int{60000: 10, 20000: 60000} {
				b.acquire("t", "A")
				of := b.detach("A")
				b.rdb.PExpire(b.t.Context(), "{k}", time.Duration(left)*time.Millisecond)
				b.expect("adopted T P T", b.eval(script.Adopt(), b.adoption("", "N", of, asked, 0)...))
				if !b.below(ttl(), 60000) {
					b.t.Errorf("%d ms were left, %d asked for: it lasts for %d", left, asked, ttl())
				}
				b.release("N", "", 0)
			}
		},
		"late": func(b bench) {
			b.acquire("t", "A")
			of := b.detach("A")
			b.expect("late T", b.eval(script.Adopt(), b.adoption("", "N", of, 60000, b.later(-time.Second))...))
			b.expect("renewed T P 0 0", b.extend(of))
			b.expect("adopted T P T", b.eval(script.Adopt(), b.adoption("", "N", of, 60000, 0)...))
			// A late copy finds that it already has the lock.
			b.expect("adopted T P T", b.eval(script.Adopt(), b.adoption("", "N", of, 60000, b.later(-time.Second))...))
		},
		"given up": func(b bench) {
			b.acquire("t", "A")
			of := b.detach("A")
			b.expect("gone T", b.release("N", "", b.later(time.Minute)))
			b.expect("gone T", b.adopt("N", of))
			b.expect("adopted T P T", b.adopt("M", of)) // the ticket is still valid
			// A request that was carried out is undone, and the ticket is used up.
			b.expect("released T", b.release("M", "", b.later(time.Minute)))
			b.expect("gone T", b.adopt("M", of))
			b.expect("absent T", b.adopt("L", of))
		},
		"of a token with an acquire under way": func(b bench) {
			b.acquire("t", "A")
			of := b.detach("A")
			of.tombstone = b.later(time.Minute)
			b.expect("granted T P T 1", b.acquire("t", "A")) // a copy that comes before the adoption
			b.expect("adopted T P T", b.adopt("N", of))
			b.expect("gone T", b.acquire("t", "A"))
			b.expect("released T", b.release("N", "", 0))
			b.expect("gone T", b.acquire("t", "A"))
			b.expect("gone T", b.acquire("w", "A"))
			b.expect("granted T P T 1", b.acquire("t", "B")) // the tombstone keeps nobody else out
		},
		"of another grant": func(b bench) {
			b.acquire("t", "A")
			of := b.detach("A")
			b.rdb.Del(b.t.Context(), "{k}") // by an operator
			b.expect("absent T", b.extend(of))
			b.expect("absent T", b.adopt("N", of))
			b.acquire("t", "A") // by a late copy
			b.expect("gone T", b.extend(of))
			b.expect("gone T", b.adopt("N", of))
		},
		"waited for": func(b bench) {
			b.acquire("t", "A")
			first, second := b.listen("B"), b.listen("C")
			b.acquire("w", "B")
			of := b.detach("A")
			b.expect("adopted T P T", b.adopt("N", of))
			b.expect("held T P 1 hf2:N:T:T:0:"+adopters+"+", b.holder())
			b.acquire("w", "C")
			b.expect("queued T P T 1 1 ours", b.acquire("l", "B"))
			b.expect("released T", b.release("N", "", 0))
			b.expect("hf2 grant B T P T {k}", b.heard(first))
			b.expect("hf2 standby C T T", b.heard(second))
			// A waiter for a ticket's lock gets it when the ticket expires.
			of = b.detach("B")
			b.rdb.Del(b.t.Context(), "{k}")
			b.expect("absent T", b.adopt("M", of))
			b.expect("granted T P T 1", b.acquire("l", "C"))
			b.expect("gone T", b.adopt("M", of))
		},
		"of another program": func(b bench) {
			b.acquire("t", "A")
			of := b.detach("A")
			b.take()
			b.expect("gone T", b.extend(of))
			b.expect("gone T", b.adopt("N", of))
			b.theirsIsIntact()
		},
		"of a shared key": func(b bench) {
			chain := func() string { return strings.Split(b.read(), ":")[4] }
			b.acquire("tk", "A")
			of, before := b.detach("A"), chain()
			expect.Begins(b.t, "the chain of a shared key", before, "0@")
			b.expect("adopted T P T", b.eval(script.Adopt(), b.adoption("k", "N", of, 60000, 0)...))
			expect.Equal(b.t, "the chain", chain(), before)
			b.release("N", "", 0)
			// A lock that was acquired by its name has no such flag yet.
			b.acquire("t", "A")
			of = b.detach("A")
			b.expect("adopted T P T", b.eval(script.Adopt(), b.adoption("k", "N", of, 60000, 0)...))
			b.begins("0@", chain())
		},
		"in a queue of another name": func(b bench) {
			b.acquire("tk", "A")
			of := b.detach("A")
			b.listen("B")
			b.expect("queued T P T 1 1 ours", b.acquire("wk", "B"))
			b.on([]string{"{k}", "p{k}:q", "{k}:f"}, script.Adopt(), b.adoption("k", "N", of, 60000, 0)...)
			// The adopter serves its own queue: waiters in the other one must look by themselves.
			b.expect("queued T P T 1 1 foreign", b.acquire("lk", "B"))
		},
		"in Cluster mode": func(b bench) {
			b.acquire("tc", "A")
			of := b.detach("A")
			b.expect("adopted T P T", b.eval(script.Adopt(), b.adoption("c", "N", of, 60000, 0)...))
			expect.Equal(b.t, "how long the counter of a slot lasts", b.rdb.TTL(b.t.Context(), "{k}:f").Val(), -1)
		},
		"errors": func(b bench) {
			b.acquire("t", "A")
			of := b.detach("A")
			of.tombstone = b.later(time.Minute)
			value, counter := b.read(), backend.LastFence(b.t, b.rdb, "{k}:f")
			const wrong = "error WRONGTYPE Operation against a key holding the wrong kind of value"
			b.rdb.Set(b.t.Context(), "{k}:f", "-1", 0)
			b.expect("error BADFENCE the fence counter {k}:f is not a stream", b.adopt("N", of))
			b.setCounter(counter)
			b.rdb.Set(b.t.Context(), "{k}:q", "x", 0)
			b.expect(wrong, b.adopt("N", of))
			if got := b.read(); got != value || backend.LastFence(b.t, b.rdb, "{k}:f") != counter {
				b.t.Errorf("the lock became %q; it was %q; or the counter is no longer %d", got, value, counter)
			}
			b.rdb.Del(b.t.Context(), "{k}")
			b.spoil()
			b.expect(wrong, b.adopt("M", of))
		},
	})
}
