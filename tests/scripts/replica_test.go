package scripts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// asking returns a function that makes requests to scripts that have these keys.
func (b bench) asking(keys ...string) func(s script.Script, args ...any) func() error {
	return func(s script.Script, args ...any) func() error {
		return func() error { return b.rdb.Eval(b.t.Context(), s.Source, keys, args...).Err() }
	}
}

// Fault: A script reaches a replica. It answers questions about holders only, and a batch that of whose the locks are: its data may be
// outdated, and a client that it answered would stay with it. The error is the one that connection pools understand.
func TestScriptsRefuseAReplica(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		mutex, share := b.asking("{k}", "{k}:q", "{k}:f"), b.asking("{s}", "{s}:q", "{k}:f", "{s}:q:e")
		nothing := b.asking("{n}", "{n}:q", "{k}:f", "{n}:q:e")
		latch, barrier := b.asking("{l}", "{l}:q", "{k}:f", "{l}:q:e"), b.asking("{b}", "{b}:q", "{k}:f", "{b}:q:e")
		once, node := b.asking("{k}", "{k}:once"), b.asking(nodeKeys...)
		multi, batch := b.asking("{a}", "{a}:q", "{k}:f", "{a}2", "{a}2:q", "{k}:f"), b.asking("{a}", "{a}2")
		soon, late := b.later(time.Minute), b.later(-time.Second)

		wait := func(mode, token string) []any {
			return []any{mode, token, 60000, 0, 1, info, claim, "channel-" + token, ""}
		}
		shared := func(mode, token string) []any {
			args := []any{mode, token, 60000, 0, 1, info, "sem", 1, 1}
			if mode != "t" {
				args = append(args, claim, "channel-"+token, "")
			}
			return args
		}
		several := func(token string) []any { return []any{"", token + "1", 60000, soon, info, token + "2"} }
		voted := func(token string) []any { return []any{nodeFlags, token, 60000, soon, info} }
		id, above := b.admit(), b.later(time.Hour)
		b.node(script.NodeRaise(), "", 7, id)
		b.vote("A")
		b.listen("B") // otherwise it would be removed
		for _, write := range []func() error{
			mutex(script.Release(), "", "X", "", b.later(time.Hour)), share(script.ShareRelease(), "", "X", "", b.later(time.Hour)),
			mutex(script.Acquire(), "t", "A", 60000, 0, 1, info), mutex(script.Acquire(), wait("w", "B")...),
			share(script.ShareAcquire(), shared("t", "A")...), share(script.ShareAcquire(), shared("w", "B")...),
			latch(script.ShareAcquire(), "t", "A", 60000, 0, 1, info, "latch", 3, 1), latch(script.LatchCount(), "", "Y", 3, soon),
			barrier(script.ShareAcquire(), "t", "A", 60000, 0, 1, info, "bar", 3, 1), once(script.OnceBegin(), "", "A", 0, keep, "7", 0),
			multi(script.MultiAcquire(), several("A")...),
		} {
			expect.OK(t, write())
		}
		held := func(key string) string {
			return fmt.Sprint(b.rdb.Get(t.Context(), key).Val(), b.rdb.PExpireTime(t.Context(), key).Val())
		}
		before, fence := held("{a}"), b.fence()
		if err := b.rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil { // nobody listens there
			t.Fatal(err)
		}
		for what, ask := range map[string]func() error{
			"held":                   mutex(script.Acquire(), "t", "C", 60000, 0, 1, info),
			"taken before":           mutex(script.Acquire(), "t", "A", 60000, 0, 1, info),
			"queues":                 mutex(script.Acquire(), wait("w", "C")...),
			"queued before":          mutex(script.Acquire(), wait("w", "B")...),
			"looks":                  mutex(script.Acquire(), wait("l", "B")...),
			"looks, not queued":      mutex(script.Acquire(), wait("l", "C")...),
			"renewed":                mutex(script.Renew(), "", "A", 60000, 0, 7),
			"renewed by another":     mutex(script.Renew(), "", "C", 60000, 0, 7),
			"too late":               mutex(script.Acquire(), "t", "C", 60000, late, 1, info),
			"too late for nothing":   nothing(script.Acquire(), "t", "C", 60000, late, 1, info),
			"given up":               mutex(script.Acquire(), "t", "X", 60000, 0, 1, info),
			"renewed, not there":     nothing(script.Renew(), "", "A", 60000, 0, 7),
			"asserted too late":      mutex(script.Reassert(), "", "C", 60000, late, 7, 7, info, 7, 0, 7),
			"asserted again":         mutex(script.Reassert(), "", "C", 60000, soon, 7, 7, info, 7, 0, 7),
			"released":               mutex(script.Release(), "", "A", "", 0),
			"released by another":    mutex(script.Release(), "", "C", "", 0),
			"leaves":                 mutex(script.Release(), "", "B", member("B"), 0),
			"dropped":                mutex(script.ReleaseByKey(), "", "A"),
			"adopted":                mutex(script.Adopt(), "", "N", 60000, 0, info, "A", fence, 0),
			"adopted before":         mutex(script.Adopt(), "", "A", 60000, 0, info, "Z", 7, 0),
			"adopted too late":       mutex(script.Adopt(), "", "N", 60000, late, info, "A", 7, 0),
			"adopts another's":       mutex(script.Adopt(), "", "N", 60000, 0, info, "C", 7, 0),
			"adopts, given up":       mutex(script.Adopt(), "", "X", 60000, 0, info, "A", 7, 0),
			"adopts nothing":         nothing(script.Adopt(), "", "N", 60000, 0, info, "A", 7, 0),
			"announced":              mutex(script.Announce(), "", "", "channel"),
			"several: held":          multi(script.MultiAcquire(), several("B")...),
			"several: taken before":  multi(script.MultiAcquire(), several("A")...),
			"a batch: released":      batch(script.BatchRelease(), "hf2:A1:", "hf2:A2:"),
			"a batch: renewed":       batch(script.BatchRenew(), "", "hf2:A1:"+strings.Split(before, ":")[2]+":", "hf2:A2:7:", 90000),
			"share: given up":        share(script.ShareAcquire(), shared("t", "X")...),
			"share: held":            share(script.ShareAcquire(), shared("t", "C")...),
			"share: taken before":    share(script.ShareAcquire(), shared("t", "A")...),
			"share: too late":        share(script.ShareAcquire(), "t", "C", 60000, late, 1, info, "sem", 1, 1),
			"share: queues":          share(script.ShareAcquire(), shared("w", "C")...),
			"share: queued before":   share(script.ShareAcquire(), shared("w", "B")...),
			"share: looks":           share(script.ShareAcquire(), shared("l", "B")...),
			"share: looks, no place": share(script.ShareAcquire(), shared("l", "C")...),
			"share: renewed":         share(script.ShareRenew(), "", "A", 60000, 0, 7),
			"share: another's":       share(script.ShareRenew(), "", "C", 60000, 0, 7),
			"share: weighed":         share(script.ShareWeigh(), "", "C", 1, 7, 7),
			"share: released":        share(script.ShareRelease(), "", "A", "", 0),
			"share: by another":      share(script.ShareRelease(), "", "C", "", 0),
			"share: resized":         share(script.ShareResize(), "", "", "sem", 2),
			"counts":                 latch(script.LatchCount(), "", "X", 3, soon),
			"counted before":         latch(script.LatchCount(), "", "Y", 3, soon),
			"counts too late":        latch(script.LatchCount(), "", "X", 3, late),
			"looks at a count":       latch(script.LatchLook(), "", "", 3, 0),
			"looks back":             latch(script.LatchLook(), "", "", 3, 7),
			"resets":                 latch(script.LatchReset(), "", "X", 3, soon),
			"reset before":           latch(script.LatchReset(), "", "Y", 3, soon),
			"resets too late":        latch(script.LatchReset(), "", "X", 3, late),
			"counted down before":    latch(script.ShareRelease(), "", "Y", "", 0, "done"),
			"awaits":                 barrier(script.BarrierAwait(), "", "A", 1, 0, 3, 0),
			"awaits what has broken": barrier(script.BarrierAwait(), "", "A", 1, 7, 3, 6),
			"another awaits":         barrier(script.BarrierAwait(), "", "X", 1, 0, 3, 0),
			"withdraws":              barrier(script.BarrierWithdraw(), "", "A", 1),
			"another withdraws":      barrier(script.BarrierWithdraw(), "", "X", 1),
			"a job: begun":           once(script.OnceBegin(), "", "A", 0, keep, "8", 0),
			"a job: begun before":    once(script.OnceBegin(), "", "A", 0, keep, "7", 0),
			"a job: of another":      once(script.OnceBegin(), "", "B", 0, keep, "8", 0),
			"a job: no tries left":   once(script.OnceBegin(), "", "A", 0, keep, "8", 1),
			"a job: completed":       once(script.OnceComplete(), "", "A", keep, "7", info, ""),
			"a job: not completed":   once(script.OnceComplete(), "", "B", keep, "8", info, ""),
			"a node: acquired":       node(script.NodeAcquire(), voted("B")...),
			"a node: had":            node(script.NodeAcquire(), voted("A")...),
			"a node: fenced":         node(script.NodeFence(), nodeFlags, "A", above),
			"a node: counted":        node(script.NodeCounter(), nodeFlags, ""),
			"a node: raised":         node(script.NodeRaise(), nodeFlags, "", above, id),
		} {
			if err := ask(); !redis.HasErrorPrefix(err, "READONLY") {
				t.Errorf("%s: the replica says %v", what, err)
			}
		}
		for what, ask := range map[string]func() error{
			"a job":  once(script.OnceLook(), "", "", 0),
			"status": mutex(script.Status(), "", "x", "mutex", 0, 500, 1000), "scan": mutex(script.Scan(), "", "x", 0, 10, "*"),
			"a batch of another's": batch(script.BatchRelease(), "hf2:X:", "hf2:X:"),
		} {
			expect.Err(t, what, ask(), nil)
		}
		expect.Equal(t, "the lock", held("{a}"), before)
	})
}

// strictly is the flags of Strict mode with leases of up to a minute.
const strictly = "s60000+0"

// strict runs a script in Strict mode. Its keys are those of keysFor, and the server's mark.
func (b bench) strict(s script.Script, args ...any) string {
	b.t.Helper()
	return seen(b.on(append(keysFor(s), "mark"), s, args...))
}

// ready ends a quarantine. One begins when the mark is deleted.
func (b bench) ready() {
	b.t.Helper()
	b.on([]string{"mark"}, script.Init(), "f"+strictly, "x")
}

// A waiter has the lock when the server enters quarantine, for instance because its first replica connects. A
// late request of that waiter changes nothing.
func TestALateCopyInQuarantineFreesNothing(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		for kind, send := range map[string]func(mode string) string{
			"mutex": func(mode string) string {
				return b.strict(script.Acquire(), mode+strictly, "A", 60000, 0, 1, info, claim, "channel-A", "")
			},
			"writer": func(mode string) string {
				return b.strict(script.ShareAcquire(), mode+strictly, "A", 60000, 0, 1, info, "rw", everything, everything, claim, "channel-A", "")
			},
		} {
			b.rdb.FlushAll(t.Context())
			b.ready()
			b.expect("granted T P T 1", send("w"))
			state := func() string {
				return b.rdb.Get(t.Context(), "{k}").Val() + fmt.Sprint(b.rdb.HGetAll(t.Context(), "{k}").Val())
			}
			before := state()
			b.rdb.Del(t.Context(), "mark")
			for _, mode := range []string{"l", "w"} {
				reply := send(mode)
				b.expect("queued T P T 1 0 ours", reply)
				if pttl := number(strings.Fields(reply)[2]); !b.below(pttl, time.Minute.Milliseconds()) {
					t.Errorf("%s: %d ms are left", kind, pttl)
				}
			}
			if after, n := state(), b.rdb.ZCard(t.Context(), "{k}:q").Val(); after != before || n != 0 {
				t.Errorf("%s: the lock became %q, from %q; %d are in the queue", kind, after, before, n)
			}
			b.begins("quarantined ", send("t"))
			// A waiter that was not told of it is told when the quarantine is over.
			b.ready()
			b.expect("granted T P T 1", send("l"))
		}
	})
}

// In Strict mode an adoption is a grant: after a loss of data the server may have an older state, from before
// the lock was adopted, released and acquired by another.
func TestNothingIsAdoptedInQuarantine(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		b.ready()
		b.expect("granted T P T 1", b.strict(script.Acquire(), "t"+strictly, "A", 60000, 0, 1, info))
		of := ticket{token: "A", fence: b.fence()}
		adopt := func() string { return b.strict(script.Adopt(), b.adoption(strictly, "N", of, 60000, 0)...) }
		b.rdb.Del(t.Context(), "mark")
		b.expect("quarantined T P", adopt())
		b.expect("renewed T P 0 0", b.strict(script.Renew(), strictly, "A", 60000, 0, of.fence)) // the ticket can be extended meanwhile
		b.ready()
		b.expect("adopted T P T", adopt())
		value := b.read()
		b.rdb.Del(t.Context(), "mark")
		b.expect("quarantined T P", adopt()) // also when sent again
		expect.Equal(t, "the lock", b.read(), value)
		b.ready()
		b.expect("adopted T P T", adopt())
	})
}
