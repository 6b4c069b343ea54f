package scripts

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

const redissonChannel = "redisson_lock__channel:{k}"

// redissonHears returns a function that returns what Redisson's clients were told of the lock since its last
// call.
func (b bench) redissonHears() func() []string {
	b.t.Helper()
	messages := b.messages(b.rdb.Subscribe(b.t.Context(), redissonChannel))
	return func() (all []string) {
		b.t.Helper()
		b.rdb.Publish(b.t.Context(), redissonChannel, "end")
		for m := range messages {
			if m.Payload == "end" {
				break
			}
			all = append(all, m.Payload)
		}
		return all
	}
}

// holds requires that the hash is a lock that the token holds.
func (b bench) holds(token string) {
	b.t.Helper()
	hash := b.rdb.HGetAll(b.t.Context(), "{k}").Val()
	if len(hash) != 2 || hash[token+":1"] != "1" || !strings.HasPrefix(hash["holdfast"], "hf2:"+token+":") {
		b.t.Errorf("the lock of %s is kept as %q", token, hash)
	}
}

func TestRedissonsForm(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.form = rlock
		told := b.redissonHears()
		hears := func(what string, want ...string) {
			t.Helper()
			expect.Same(t, what+": Redisson's clients are told", told(), want)
		}
		ttl := func() int64 { return b.rdb.PTTL(t.Context(), "{k}").Val().Milliseconds() }

		b.acquire("tk", "A")
		b.holds("A")
		b.lastsFor("{k}", 60000)
		b.listen("B")
		b.acquire("wk", "B")
		b.holds("A")
		hears("acquired, and waited for")

		b.expect("released T", b.eval(script.Release(), "", "A", "", 0))
		b.holds("B")
		expect.Between(t, "the claim's time in ms", ttl(), 1, claim)
		hears("handed over")
		b.expect("granted T P T 1", b.acquire("lk", "B"))
		b.holds("B")
		hears("confirmed")

		b.expect("released T", b.eval(script.Release(), "", "B", "", 0))
		hears("released", "0")
		b.expect("absent T", b.eval(script.Release(), "", "B", "", 0))
		hears("released again")

		b.acquire("tk", "A")
		b.acquire("wk", "deaf")
		b.expect("released T", b.eval(script.Release(), "", "A", "", 0))
		hears("released, and nobody there hears", "0")

		b.acquire("tk", "A")
		b.acquire("wk", "deaf")
		b.rdb.Del(t.Context(), "{k}")
		b.expect("granted T P T 1", b.acquire("tk", "A"))
		hears("free before, and nobody there hears")

		b.expect("released T", b.eval(script.ReleaseByKey(), "", "A"))
		hears("dropped", "0")

		b.acquire("tk", "A")
		b.acquire("wk", "B")
		time.Sleep(55 * time.Millisecond) // longer than a chain
		b.expect("released T", b.eval(script.Release(), "k", "A", "", 0))
		hears("released after a chain", "0")
		b.expect("left T", b.eval(script.Release(), "k", "B", member("B"), 0))
		told()
		b.rdb.FlushAll(t.Context()) // the gap, too

		b.acquire("tk", "A")
		b.acquire("wk", "B")
		b.rdb.Set(t.Context(), "{k}:f", "x", 0)
		b.expect("released T", b.eval(script.Release(), "", "A", "", 0))
		hears("released, and there is no fence for the next", "0")
		b.gone("a lock that could not be handed over", "{k}")
	})
}

// A client of Redisson that has entered again, or whose lock has no expiry, is a holder like any other.
func TestRedissonsHoldersAreForeign(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		b.form = rlock
		b.take()
		b.take()
		b.expect("held T P 0 ", b.acquire("tk", "A"))
		b.rdb.Persist(t.Context(), "{k}")
		b.expect("held T -1 0 ", b.acquire("tk", "A"))
		b.listen("A")
		b.expect("queued T -1 T 1 1 foreign", b.acquire("wk", "A"))
		b.expect("absent T", func() string { b.rdb.Del(t.Context(), "{k}"); return b.eval(script.Renew(), "k", "A", 10, 0, 0) }())
		b.expect("granted T P T 1", b.acquire("lk", "A"))
		// Their clients do not enter a hash of ours: they look for their own field.
		if b.rdb.HExists(t.Context(), "{k}", theirs).Val() || !maps.Equal(b.rdb.HGetAll(t.Context(), "{k}").Val(), map[string]string{"A:1": "1", "holdfast": b.read()}) {
			t.Errorf("our hash is %q", b.rdb.HGetAll(t.Context(), "{k}").Val())
		}
	})
}
