package scripts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/script"
)

// ask sends a request, and returns its reply, whose first word must be want.
func ask[R any](b bench, want codec.Word, q codec.Request[R]) R {
	b.t.Helper()
	call := q.Call()
	args := make([]any, len(call.Args))
	for i, arg := range call.Args {
		args[i] = arg
	}
	text, err := b.rdb.Eval(b.t.Context(), call.Script.Source, call.Keys, args...).Text()
	if err != nil {
		b.t.Fatalf("%s %q: %v", call.Script.Name, call.Args, err)
	}
	reply, err := q.Parse(text)
	if err != nil {
		b.t.Fatalf("%s %q: %q: %v", call.Script.Name, call.Args, text, err)
	}
	if word, _, _ := strings.Cut(text, " "); codec.Word(word) != want {
		b.t.Fatalf("%s %q: %q, want %q", call.Script.Name, call.Args, text, want)
	}
	return reply
}

// These are the keys and flags of locks. Those of nodes are nodeKeys and nodeFlags.
func mutexOf(name string) codec.Lock {
	return codec.Lock{Keys: codec.Keys{Lock: "{" + name + "}", Queue: "{" + name + "}:q", Fence: "fence"}}
}

func shareOf(name string) codec.Lock {
	l := mutexOf(name)
	l.Keys.Holds = l.Keys.Queue + ":e"
	return l
}

// infos are encoded infos that a careless parser would confuse with the fields of a value or of a member.
var infos = []string{
	info, `{"o":"a:b+","h":"é\n","p":7,"m":{"":"hf2:"}}`, `{"o":""}`, "", "not JSON",
}

// acquireOf returns a request for a lock for a minute.
func acquireOf(l codec.Lock, mode codec.Mode, token, info string) codec.Acquire {
	return codec.Acquire{
		Lock: l, Mode: mode, Token: token, TTL: time.Minute, Fences: 1, Info: info,
		Claim: claim * time.Millisecond, Channel: "channel-" + token,
	}
}

func (b bench) valueOf(l codec.Lock) string {
	b.t.Helper()
	return b.rdb.Get(b.t.Context(), l.Keys.Lock).Val()
}

func (b bench) expectValue(about, got string, want ...string) {
	b.t.Helper()
	if !slices.Contains(want, got) {
		b.t.Errorf("%s: the value is\n  %q, the library builds\n  %q", about, got, want)
	}
}

// valueOf returns the value of a lock granted at that server time, in µs, as package pipe builds it, with its fence.
func valueOf(token string, fence uint64, now int64, info string) string {
	return fmt.Sprintf("hf2:%s:%d:%d:0:%s", token, fence, now/1000, info)
}

// The scripts build a lock's value, and so does the library, which deletes by it. Both are the same, byte for
// byte.
func TestValuesAreBuiltAlike(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		for _, info := range infos {
			b.rdb.FlushAll(t.Context())
			value := func(fence uint64, now int64) string { return valueOf("A", fence, now, info) }

			l := mutexOf("one")
			q := acquireOf(l, codec.Try, "A", info)
			got := ask(b, codec.Granted, &q)
			want := value(got.Grant.Fence, got.Now)
			b.expectValue("acquire", b.valueOf(l), want)
			b.listen("B")
			waiter := acquireOf(l, codec.Wait, "B", info)
			ask(b, codec.Queued, &waiter)
			b.expectValue("acquire of a lock that is waited for", b.valueOf(l), want+"+")
			// The lock is handed over.
			released := ask(b, codec.Released, &codec.Release{Lock: l, Token: "A"})
			fence := uint64(number(strings.Split(b.valueOf(l), ":")[2]))
			b.expectValue("hand-over", b.valueOf(l), valueOf("B", fence, released.Now, info))

			// The server has lost the lock together with its fence counter.
			b.rdb.FlushAll(t.Context())
			again := ask(b, codec.Renewed, &codec.Reassert{
				Lock: l, Token: "A", TTL: time.Minute, NotAfter: b.later(time.Minute), Fence: got.Grant.Fence, Reserved: got.Grant.Fence, Info: info, GrantedAt: got.Now, Asked: got.Now,
			})
			b.expectValue("reassertion", b.valueOf(l), value(got.Grant.Fence, again.Now))

			several := ask(b, codec.Granted, &codec.MultiAcquire{
				Locks: []codec.TokenOf{{Keys: mutexOf("m1").Keys, Token: "A"}, {Keys: mutexOf("m2").Keys, Token: "A"}}, TTL: time.Minute, NotAfter: b.later(time.Minute), Info: info,
			})
			for i, name := range []string{"m1", "m2"} {
				b.expectValue("several", b.valueOf(mutexOf(name)), value(several.Fences[i], several.Now))
			}

			// A hold has the form of a value.
			h := acquireOf(shareOf("s"), codec.Try, "A", info)
			h.Share = codec.Share{Kind: codec.Semaphore, Limit: 3, Weight: 2}
			hold := ask(b, codec.Granted, &h)
			k := shareOf("s").Keys
			text := b.rdb.Eval(t.Context(), script.Status().Source, []string{k.Lock, k.Queue}, "", "", "sem", "0", 500, 0).Val().(string)
			if _, line, _ := strings.Cut(text, "\n"); !strings.HasSuffix(line, " 2 "+value(hold.Grant.Fence, hold.Now)) {
				t.Errorf("a hold is told as %q, want %q", line, value(hold.Grant.Fence, hold.Now))
			}
		}
	})
}

func TestValuesOnNodesAreBuiltAlike(t *testing.T) {
	onEachReal(t, func(t *testing.T, b bench) {
		l := mutexOf("k")
		l.Keys.CaughtUp, l.Keys.Mark, l.Flags = "caught", "mark", codec.Node+codec.Strict(time.Minute, 0)
		for _, info := range infos {
			b.rdb.FlushAll(t.Context())
			ask(b, codec.Ready, codec.Init(l.Flags, l.Keys.Mark, codec.Admit))
			behind := ask(b, codec.Behind, codec.NodeCounter(l))
			ask(b, codec.Raised, codec.NodeRaise(l, behind.Count, behind.Refusal.Stands))
			got := ask(b, codec.Granted, &codec.NodeAcquire{Lock: l, Token: "A", TTL: time.Minute, NotAfter: b.later(time.Minute), Info: info})
			b.expectValue("node", b.valueOf(l), valueOf("A", got.Grant.Fence, got.Now, info))
		}
	})
}

// The scripts build a waiter's member, and so does the library, which leaves the queue by it.
func TestMembersAreBuiltAlike(t *testing.T) {
	onEach(t, func(t *testing.T, b bench) {
		type waiter struct {
			codec.Request[codec.Reply]
			queue, member string
		}
		for _, info := range infos {
			b.rdb.FlushAll(t.Context())
			var all []waiter
			for _, token := range []string{"A", "B"} {
				m := acquireOf(mutexOf("m"), codec.Wait, token, info)
				s, o := acquireOf(shareOf("s"), codec.Wait, token, info), acquireOf(shareOf("o"), codec.Wait, token, info)
				s.Share = codec.Share{Kind: codec.Semaphore, Limit: 1, Weight: 1}
				o.Share = codec.Share{Kind: codec.Owned, Limit: 9, Weight: 1, Owner: "owner of " + token}
				all = append(all, waiter{&m, m.Lock.Keys.Queue, m.Member()}, waiter{&s, s.Lock.Keys.Queue, s.Member()}, waiter{&o, o.Lock.Keys.Queue, o.Member()})
			}
			for _, w := range all[:3] {
				ask(b, codec.Granted, w.Request)
			}
			for _, w := range all[3:] {
				ask(b, codec.Queued, w.Request)
				if got := b.rdb.ZRange(t.Context(), w.queue, 0, -1).Val(); len(got) != 1 || got[0] != w.member {
					t.Errorf("the queue has %q, the library's member is %q", got, w.member)
				}
			}
		}
	})
}
