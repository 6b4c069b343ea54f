package scripts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
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

func nodeLockOf(name string) codec.Lock {
	l := mutexOf(name)
	l.Keys.CaughtUp, l.Keys.Mark, l.Flags = "caught", "mark", codec.Node+codec.Strict(time.Minute, 0)
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

// The scripts build a lock's value, and so does the library, which deletes by it. Both are the same, byte for
// byte.
func TestValuesAreBuiltAlike(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, back *backend.Backend) {
		b := newBench(t, back)
		head := wire.NewHead("A")
		for _, info := range infos {
			b.rdb.FlushAll(t.Context())
			value := func(fence uint64, now int64) string { return head.Value(fence, now/1000, info) }

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
			b.expectValue("hand-over", b.valueOf(l), wire.NewHead("B").Value(fence, released.Now/1000, info))

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
			h := codec.ShareAcquire{Acquire: acquireOf(shareOf("s"), codec.Try, "A", info), Share: codec.Share{Kind: codec.Semaphore, Limit: 3, Weight: 2}}
			hold := ask(b, codec.Granted, &h)
			k := shareOf("s").Keys
			text := b.rdb.Eval(t.Context(), (&codec.Holders{}).Call().Script.Source, []string{k.Lock, k.Queue, k.Fence, k.Holds}, "", "", "0", 500).Val().(string)
			if _, line, _ := strings.Cut(text, "\n"); !strings.HasSuffix(line, " 2 "+value(hold.Grant.Fence, hold.Now)) {
				t.Errorf("a hold is told as %q, want %q", line, value(hold.Grant.Fence, hold.Now))
			}
		}
	})
}

func TestValuesOnNodesAreBuiltAlike(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, back *backend.Backend) {
		b := newBench(t, back)
		head, l := wire.NewHead("A"), nodeLockOf("k")
		for _, info := range infos {
			b.rdb.FlushAll(t.Context())
			b.serves(l)
			got := ask(b, codec.Granted, &codec.NodeAcquire{Lock: l, Token: "A", TTL: time.Minute, NotAfter: b.later(time.Minute), Info: info})
			b.expectValue("node", b.valueOf(l), head.Value(got.Grant.Fence, got.Now/1000, info))
		}
	})
}

// serves admits a new node of a quorum, so that it grants locks.
func (b bench) serves(l codec.Lock) {
	b.t.Helper()
	ask(b, codec.Ready, &codec.Init{Flags: l.Flags, Mark: l.Keys.Mark})
	behind := ask(b, codec.Behind, &codec.NodeCounter{Lock: l})
	ask(b, codec.Raised, &codec.NodeRaise{Lock: l, Counter: behind.Counter, Stands: behind.Refusal.Stands})
}

// The scripts build a waiter's member, and so does the library, which leaves the queue by it.
func TestMembersAreBuiltAlike(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, back *backend.Backend) {
		b := newBench(t, back)
		type waiter struct {
			codec.Request[codec.AcquireReply]
			queue, member string
		}
		for _, info := range infos {
			b.rdb.FlushAll(t.Context())
			var all []waiter
			for _, token := range []string{"A", "B"} {
				m := acquireOf(mutexOf("m"), codec.Wait, token, info)
				s := codec.ShareAcquire{Acquire: acquireOf(shareOf("s"), codec.Wait, token, info), Share: codec.Share{Kind: codec.Semaphore, Limit: 1, Weight: 1}}
				o := codec.ShareAcquire{Acquire: acquireOf(shareOf("o"), codec.Wait, token, info), Share: codec.Share{Kind: codec.Owned, Limit: 9, Weight: 1, Owner: "owner of " + token}}
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

// The codec reads the replies of every script, with most of its words.
func TestCodecReadsWhatScriptsReply(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(b bench){
		"mutex": func(b bench) {
			l := mutexOf("k")
			asks := func(mode codec.Mode, token string) *codec.Acquire {
				q := acquireOf(l, mode, token, info)
				return &q
			}
			renewal := func(token string, fence uint64) *codec.Renew {
				return &codec.Renew{Lock: l, Token: token, TTL: 2 * time.Minute, Fence: fence}
			}
			ask(b, codec.Free, &codec.WhoHolds{Lock: l})
			ask(b, codec.Absent, renewal("A", 7))
			ask(b, codec.Kept, &codec.ReleaseByKey{Lock: l, Token: "A"})
			grant := ask(b, codec.Granted, asks(codec.Try, "A")).Grant
			if grant.Block != 1 || !b.below(grant.TTL.Milliseconds(), 60000) {
				b.t.Errorf("the grant is %+v", grant)
			}
			late := asks(codec.Try, "B")
			late.NotAfter = 1
			ask(b, codec.Late, late)
			held := ask(b, codec.Held, asks(codec.Try, "B")).Holder
			if !held.Ours || held.Value.Token != "A" || held.Value.Fence != grant.Fence || held.Value.Info.Owner != "me" || held.Waiters != 0 {
				b.t.Errorf("the holder is %+v", held)
			}
			ask(b, codec.Gone, asks(codec.Look, "B"))
			b.listen("B")
			place := ask(b, codec.Queued, asks(codec.Wait, "B")).Place
			if place.Rank != 1 || place.Receivers != 1 || place.Foreign || place.Score == 0 {
				b.t.Errorf("the place is %+v", place)
			}
			look := asks(codec.Look, "B")
			look.Score = place.Score
			if again := ask(b, codec.Queued, look).Place; again.Score != place.Score {
				b.t.Errorf("the place was %+v and is %+v", place, again)
			}
			if h := ask(b, codec.Held, &codec.WhoHolds{Lock: l}); h.Waiters != 1 || h.Holder.Value.Token != "A" {
				b.t.Errorf("the holder is %+v", h)
			}
			if r := ask(b, codec.Renewed, renewal("A", grant.Fence)).Grant; r.Block != 0 || !b.below(r.TTL.Milliseconds(), 120000) {
				b.t.Errorf("the renewal is %+v", r)
			}
			more := renewal("A", grant.Fence)
			more.Fences, more.FencesAlone, more.Channel = 3, 5, "channel-B"
			if r := ask(b, codec.Renewed, more).Grant; r.Block != 5 || r.Fence <= grant.Fence {
				b.t.Errorf("the renewal is %+v, after the fence %d", r, grant.Fence)
			}
			ask(b, codec.Gone, renewal("B", grant.Fence))
			ask(b, codec.LeftQueue, &codec.Release{Lock: l, Token: "B", Member: look.Member()})
			ask(b, codec.Gone, &codec.Release{Lock: l, Token: "B", Tombstone: b.later(time.Minute)})
			ask(b, codec.Gone, asks(codec.Try, "B"))
			ask(b, codec.Released, &codec.Release{Lock: l, Token: "A"})
			ask(b, codec.Granted, asks(codec.Try, "A"))
			ask(b, codec.Released, &codec.ReleaseByKey{Lock: l, Token: "A"})
			ask(b, codec.Late, &codec.Reassert{Lock: l, Token: "A", TTL: time.Minute, NotAfter: 1, Fence: 7, Reserved: 7, Info: info, GrantedAt: 7})
			ask(b, codec.Absent, &codec.Reassert{Lock: l, Token: "A", TTL: time.Minute, NotAfter: b.later(time.Minute), Fence: 7, Reserved: 7, Info: info, GrantedAt: 7})
			if got := ask(b, codec.KeyHolds, &codec.WhatIs{Lock: l}).What; got != codec.HoldsNothing {
				b.t.Errorf("the key holds %q", got)
			}
			if n := ask(b, codec.Told, &codec.Announce{Lock: l, Channel: "channel-B"}).Receivers; n != 1 {
				b.t.Errorf("%d were told", n)
			}
			ask(b, codec.SettingsAre, &codec.Survey{Lock: l})

			b.rdb.Set(b.t.Context(), l.Keys.Lock, "theirs", time.Minute)
			if h := ask(b, codec.Held, asks(codec.Try, "A")).Holder; h.Ours {
				b.t.Errorf("another program's lock is held by %+v", h)
			}
			b.listen("A")
			if p := ask(b, codec.Queued, asks(codec.Wait, "A")).Place; !p.Foreign {
				b.t.Errorf("behind another program the place is %+v", p)
			}
			if got := ask(b, codec.KeyHolds, &codec.WhatIs{Lock: l}).What; got != codec.HoldsOther {
				b.t.Errorf("the key holds %q", got)
			}
		},
		"several": func(b bench) {
			q := &codec.MultiAcquire{
				Locks: []codec.TokenOf{{Keys: mutexOf("a").Keys, Token: "A1"}, {Keys: mutexOf("b").Keys, Token: "A2"}}, TTL: time.Minute, Info: info,
			}
			ask(b, codec.Late, q)
			q.NotAfter = b.later(time.Minute)
			if r := ask(b, codec.Granted, q); len(r.Fences) != 2 || r.Fences[0] >= r.Fences[1] {
				b.t.Errorf("the fences are %d", r.Fences)
			}
			ask(b, codec.Released, &codec.Release{Lock: mutexOf("a"), Token: "A1"})
			other := *q
			other.Locks = []codec.TokenOf{{Keys: mutexOf("a").Keys, Token: "B1"}, {Keys: mutexOf("b").Keys, Token: "B2"}}
			if r := ask(b, codec.Held, &other); r.Index != 1 || r.Holder.Value.Token != "A2" {
				b.t.Errorf("held by %+v", r)
			}
			ask(b, codec.Queued, q) // a request of its own is gone
		},
		"batches": func(b bench) {
			renew := codec.NewBatchRenew(2)
			mine, other := acquireOf(mutexOf("a"), codec.Try, "A", info), acquireOf(mutexOf("b"), codec.Try, "X", info)
			fence := ask(b, codec.Granted, &mine).Grant.Fence
			ask(b, codec.Granted, &other)
			renew.Add("{a}", "hf2:A:", fence, 2*time.Minute)
			renew.Add("{b}", "hf2:A:", fence+1, 2*time.Minute)
			if r := ask(b, codec.Kept, &renew); !slices.Equal(r.Left, []int{1}) {
				b.t.Errorf("kept: %+v", r)
			}
		},
		"shares": func(b bench) {
			l := shareOf("k")
			asks := func(mode codec.Mode, token string, weight int) *codec.ShareAcquire {
				return &codec.ShareAcquire{Acquire: acquireOf(l, mode, token, info), Share: codec.Share{Kind: codec.ReadWrite, Limit: 9, Weight: weight}}
			}
			writer := ask(b, codec.Granted, asks(codec.Try, "A", 9)).Grant
			ask(b, codec.Held, asks(codec.Try, "B", 1))
			b.listen("B")
			ask(b, codec.Queued, asks(codec.Wait, "B", 1))
			weighed := ask(b, codec.Weighed, &codec.Weigh{Lock: l, Token: "A", Weight: 1, Fence: writer.Fence, LeaseFence: writer.Fence + 1})
			if weighed.Fence != writer.Fence+1 {
				b.t.Errorf("weighed: %+v, after the fence %d", weighed, writer.Fence)
			}
			ask(b, codec.Held, &codec.Weigh{Lock: l, Token: "A", Weight: 9, Fence: weighed.Fence, LeaseFence: weighed.Fence})
			ask(b, codec.Gone, &codec.Weigh{Lock: l, Token: "X", Weight: 9, Fence: 7, LeaseFence: 7})
			holders := ask(b, codec.HoldersAre, &codec.Holders{Lock: l, Cursor: "0", Count: 500, Kind: codec.ReadWrite})
			if len(holders.Holds) != 2 || !holders.IsLast() || holders.Used != 2 || holders.Limit != 9 || holders.Holds[0].Weight != 1 || !holders.Holds[0].Ours || holders.Holds[0].Token != holders.Holds[0].Value.Token {
				b.t.Errorf("the holders are %+v", holders)
			}
			renewal := codec.ShareRenew{Renew: codec.Renew{Lock: l, Token: "A", TTL: 2 * time.Minute, Fence: weighed.Fence}}
			ask(b, codec.Renewed, &renewal)
			renewal.Fences = 2
			if r := ask(b, codec.Renewed, &renewal).Grant; r.Block != 2 {
				b.t.Errorf("renewed: %+v", r)
			}
			renewal.Token = "X"
			ask(b, codec.Gone, &renewal)
			if got := ask(b, codec.KeyHolds, &codec.WhatIs{Lock: l}).What; got != codec.ReadWrite {
				b.t.Errorf("the key holds %q", got)
			}
			ask(b, codec.Released, &codec.ShareRelease{Release: codec.Release{Lock: l, Token: "A"}})
			ask(b, codec.Gone, &codec.ShareRelease{Release: codec.Release{Lock: l, Token: "A"}})
			if r := ask(b, codec.Resized, &codec.Resize{Lock: shareOf("s"), Kind: codec.Semaphore, Limit: 5}); r.Limit != 5 || r.Used != 0 {
				b.t.Errorf("resized: %+v", r)
			}
		},
		"owned": func(b bench) {
			l := shareOf("k")
			asks := func(token, owner string) *codec.ShareAcquire {
				return &codec.ShareAcquire{Acquire: acquireOf(l, codec.Try, token, info), Share: codec.Share{Kind: codec.Owned, Limit: 2, Weight: 1, Owner: owner}}
			}
			disowns := func(id, owner string) *codec.Disown {
				return &codec.Disown{Lock: l, ID: id, Owner: owner, NotAfter: b.later(time.Minute)}
			}
			ask(b, codec.Free, disowns("0", "me"))
			ask(b, codec.Granted, asks("A", "me"))
			ask(b, codec.Granted, asks("B", "me"))
			if n := ask(b, codec.Deep, asks("C", "me")).Holds; n != 2 {
				b.t.Errorf("the owner has %d holds", n)
			}
			ask(b, codec.Held, disowns("1", "you"))
			if n := ask(b, codec.Released, disowns("2", "me")).Left; n != 1 {
				b.t.Errorf("%d holds are left", n)
			}
			late := disowns("3", "me")
			late.NotAfter = 1
			ask(b, codec.Late, late)
		},
		"latches": func(b bench) {
			l := shareOf("k")
			counts := func(id string) *codec.CountDown {
				return &codec.CountDown{Lock: l, ID: id, Parties: 2, NotAfter: b.later(time.Minute)}
			}
			first := ask(b, codec.CountIs, &codec.LookAtLatch{Lock: l, Parties: 2})
			if first.Left != 2 || first.TTL >= 0 || first.Since == 0 {
				b.t.Errorf("the count is %+v", first)
			}
			join := codec.ShareAcquire{Acquire: acquireOf(l, codec.Try, "A", info), Share: codec.Share{Kind: codec.Latch, Limit: 2, Weight: 1}}
			ask(b, codec.Granted, &join)
			if n := ask(b, codec.Counted, counts("1")).Left; n != 1 {
				b.t.Errorf("%d parties are left", n)
			}
			if n := ask(b, codec.Taken, counts("2")).Left; n != 1 {
				b.t.Errorf("%d parties are left", n)
			}
			late := counts("3")
			late.NotAfter = 1
			ask(b, codec.Late, late)
			ask(b, codec.Released, &codec.ShareRelease{Release: codec.Release{Lock: l, Token: "A"}, Ending: codec.Left})
			if got := ask(b, codec.CountIs, &codec.LookAtLatch{Lock: l, Parties: 2, Since: first.Since}); got.Left != 0 || got.Missing != 1 {
				b.t.Errorf("the count is %+v", got)
			}
			resets := func(id string, parties int) *codec.ResetLatch {
				return &codec.ResetLatch{Lock: l, ID: id, Parties: parties, NotAfter: b.later(time.Minute)}
			}
			ask(b, codec.Reset, resets("4", 2))
			if got := ask(b, codec.Opened, &codec.LookAtLatch{Lock: l, Parties: 2, Since: first.Since}); got.Missing != 1 {
				b.t.Errorf("the count is %+v", got)
			}
			second := ask(b, codec.CountIs, &codec.LookAtLatch{Lock: l, Parties: 2})
			ask(b, codec.Reset, resets("5", 0))
			ask(b, codec.Reset, &codec.LookAtLatch{Lock: l, Parties: 2, Since: second.Since})
			over := resets("6", 2)
			over.NotAfter = 1
			ask(b, codec.Late, over)
		},
		"barriers": func(b bench) {
			l := shareOf("k")
			for _, token := range []string{"A", "B"} {
				join := codec.ShareAcquire{Acquire: acquireOf(l, codec.Try, token, info), Share: codec.Share{Kind: codec.Barrier, Limit: 2, Weight: 1}}
				ask(b, codec.Granted, &join)
			}
			awaits := func(token string, number, phase uint64) *codec.Await {
				return &codec.Await{Lock: l, Token: token, Number: number, Phase: phase, Parties: 2}
			}
			if r := ask(b, codec.Waiting, awaits("A", 1, 0)); r.Phase != 1 || r.Arrived != 1 || !b.below(r.TTL.Milliseconds(), 60000) {
				b.t.Errorf("waiting: %+v", r)
			}
			ask(b, codec.Withdrawn, &codec.Withdraw{Lock: l, Token: "A", Number: 1})
			ask(b, codec.Stale, awaits("A", 1, 0))
			ask(b, codec.Waiting, awaits("A", 2, 1))
			if r := ask(b, codec.Tripped, awaits("B", 1, 0)); r.Phase != 1 {
				b.t.Errorf("tripped: %+v", r)
			}
			ask(b, codec.Stale, &codec.Withdraw{Lock: l, Token: "A", Number: 1})
			ask(b, codec.Gone, &codec.Withdraw{Lock: l, Token: "X", Number: 1})
			ask(b, codec.Gone, awaits("X", 1, 0))
			ask(b, codec.Released, &codec.ShareRelease{Release: codec.Release{Lock: l, Token: "B"}, Ending: codec.Died})
			if r := ask(b, codec.Broken, awaits("A", 3, 2)); r.Phase != 2 || r.Present != 3 || !r.Died || r.Info.Owner != "me" {
				b.t.Errorf("broken: %+v", r)
			}
		},
		"jobs": func(b bench) {
			l, job := mutexOf("k"), codec.Job{Lock: "{k}", Record: "{k}:once"}
			begins := func(token string, fence uint64) *codec.BeginRun {
				return &codec.BeginRun{Job: job, Token: token, Window: time.Hour, Keep: time.Hour, Fence: fence, MaxTries: 1}
			}
			completes := func(fence uint64) *codec.CompleteRun {
				return &codec.CompleteRun{Job: job, Token: "A", Keep: time.Hour, Fence: fence, Info: info, Result: "one\ntwo three"}
			}
			if r := ask(b, codec.NeverDone, &codec.LookAtJob{Job: job, Window: time.Hour}); r.Begun != 0 {
				b.t.Errorf("never done: %+v", r)
			}
			ask(b, codec.Absent, begins("A", 7))
			ask(b, codec.Absent, completes(7))
			q := acquireOf(l, codec.Try, "A", info)
			ask(b, codec.Granted, &q)
			if r := ask(b, codec.Begun, begins("A", 7)); r.Tries != 1 {
				b.t.Errorf("begun: %+v", r)
			}
			if r := ask(b, codec.Spent, begins("A", 8)); r.Tries != 1 {
				b.t.Errorf("spent: %+v", r)
			}
			done := ask(b, codec.Completed, completes(7))
			want := codec.Run{Completed: done.Completed, Fence: 7, Try: 1, Counts: true, Result: "one\ntwo three"}
			for what, got := range map[string]codec.Run{
				"begin": ask(b, codec.Done, begins("A", 8)).Run,
				"look":  ask(b, codec.Done, &codec.LookAtJob{Job: job, Window: time.Hour}).Run,
			} {
				if got.Info.Owner != "me" || got.Completed != want.Completed || got.Fence != want.Fence || got.Try != want.Try || !got.Counts || got.Result != want.Result {
					b.t.Errorf("%s: the run is %+v, want %+v", what, got, want)
				}
			}
			time.Sleep(5 * time.Millisecond)
			over := begins("A", 7)
			over.Window = time.Millisecond
			ask(b, codec.Used, over)
			if r := ask(b, codec.Done, &codec.LookAtJob{Job: job, Window: time.Millisecond}).Run; r.Counts {
				b.t.Errorf("the run is %+v, whose window is over", r)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend.Each(t, func(t *testing.T, back *backend.Backend) { test(newBench(t, back)) })
		})
	}
}

func TestCodecReadsWhatNodesReply(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, back *backend.Backend) {
		b := newBench(t, back)
		l := nodeLockOf("k")
		votes := func(token string, ticket codec.Ticket) *codec.NodeAcquire {
			return &codec.NodeAcquire{Lock: l, Token: token, TTL: time.Minute, NotAfter: b.later(time.Minute), Info: info, Ticket: ticket, Keep: time.Minute}
		}
		ask(b, codec.Unmarked, &codec.Init{Flags: l.Flags, Mark: "mark", Mode: codec.LookAtMark})
		for _, quarantine := range []time.Duration{
			ask(b, codec.Quarantined, votes("A", "")).Refusal.Quarantine,
			ask(b, codec.Quarantined, &codec.NodeCounter{Lock: l}).Refusal.Quarantine,
			ask(b, codec.Quarantined, &codec.NodeFence{Lock: l, Token: "A", Fence: 7}).Refusal.Quarantine,
			ask(b, codec.Quarantined, &codec.NodeRaise{Lock: l}).Refusal.Quarantine,
			ask(b, codec.Quarantined, &codec.Init{Flags: l.Flags, Mark: "mark"}).Refusal.Quarantine,
			ask(b, codec.Quarantined, &codec.Renew{Lock: l, Token: "A", TTL: time.Minute}).Refusal.Quarantine,
			ask(b, codec.Quarantined, &codec.MultiAcquire{Flags: l.Flags, Locks: []codec.TokenOf{{Keys: l.Keys, Token: "A"}}, Mark: "mark", TTL: time.Minute, Info: info}).Refusal.Quarantine,
		} {
			if !b.below(quarantine.Milliseconds(), 60000) {
				t.Errorf("a quarantine of %s", quarantine)
			}
		}
		strict := acquireOf(l, codec.Try, "A", info)
		ask(b, codec.Quarantined, &strict)
		ask(b, codec.Known, &codec.Init{Flags: l.Flags, Mark: "mark", Mode: codec.LookAtMark})
		ask(b, codec.Ready, &codec.Init{Flags: l.Flags, Mark: "mark", Mode: codec.AdmitKnown})

		stands := ask(b, codec.Behind, votes("A", "")).Refusal.Stands
		for _, again := range []string{
			ask(b, codec.Behind, &codec.NodeCounter{Lock: l}).Refusal.Stands,
			ask(b, codec.Behind, &codec.NodeFence{Lock: l, Token: "A", Fence: 7}).Refusal.Stands, ask(b, codec.Behind, &codec.NodeRaise{Lock: l, Stands: "another"}).Refusal.Stands,
		} {
			if again != stands {
				t.Errorf("the node stands as %q and %q", stands, again)
			}
		}
		if n := ask(b, codec.Raised, &codec.NodeRaise{Lock: l, Counter: 7, Stands: stands}).Counter; n != 7 {
			t.Errorf("the counter was raised to %d", n)
		}
		if n := ask(b, codec.CounterIs, &codec.NodeCounter{Lock: l}).Counter; n != 7 {
			t.Errorf("the counter is %d", n)
		}
		if g := ask(b, codec.Granted, votes("A", "")).Grant; g.Fence != 8 || !b.below(g.TTL.Milliseconds(), 60000) {
			t.Errorf("the grant is %+v", g)
		}
		ask(b, codec.Fenced, &codec.NodeFence{Lock: l, Token: "A", Fence: 9})
		ask(b, codec.Gone, &codec.NodeFence{Lock: l, Token: "B", Fence: 9})
		ask(b, codec.Held, votes("B", "1"))
		if r := ask(b, codec.Held, votes("C", "2")); r.Ahead != 1 || r.Holder.Value.Token != "A" || r.Holder.Waiters != 0 {
			t.Errorf("held: %+v", r)
		}
		ask(b, codec.Released, &codec.Release{Lock: l, Token: "A"})
		if n := ask(b, codec.Wanted, votes("C", "2")).Ahead; n != 1 {
			t.Errorf("%d come before", n)
		}
		ask(b, codec.LeftQueue, &codec.Release{Lock: l, Token: "B", Member: codec.Ticket("1").Member()})
		ask(b, codec.Granted, votes("C", "2"))
		late := votes("D", codec.FirstTicket)
		late.NotAfter = 1
		ask(b, codec.Late, late)
	})
}
