package mutants

import (
	"github.com/holdfast-go/holdfast/tests/internal/campaign"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

func edit(file, old, replacement string) overlay.Edit {
	return overlay.Edit{File: file, Old: old, New: replacement}
}

func script(name, old, replacement string) overlay.Edit {
	return edit("internal/script/"+name+".lua", old, replacement)
}

// byScript has all releases go by script, for mutants of those scripts.
var byScript = edit("batch.go", "if n == 1 && c.native.Load() {", "if false {")

// paused are the faults that bring to light who does not know that a lease is over.
var paused = []string{"process-pause-long", "server-pause-long"}

// All are the mutants.
var All = []Mutant{
	{
		Name: "release-anybodys", About: "release deletes the lock without asking whose it is",
		Edits: []overlay.Edit{
			script("release", "if value and string.sub(value, 1, #mine) == mine then\n    if", "if value then\n    if"),
			script("batch_release", "if value and string.find(value, ARGV[i], 1, true) == 1 and", "if value and"),
			byScript,
		},
		Kinds: paused, Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "renew-recreates", About: "a renewal brings back a lock that has expired",
		Edits: []overlay.Edit{
			script("renew", "  if not value then\n    on_master()\n    return 'absent ' .. whole(now)\n  end",
				"  if not value then\n    redis.call('SET', KEYS[1], granted .. '0:0:{}', 'PX', ttl)\n    value = granted\n  end"),
			script("batch_renew", "    local value = values[i]\n", "    local value = values[i]\n    if not value then\n      value = ARGV[1 + i] .. '0:0:{}'\n      redis.call('SET', KEYS[i], value, 'PX', 1)\n    end\n"),
		},
		Kinds: []string{"server-pause-long", "process-pause-long", "late-replies", "late-copy", "delayed-requests"}, Rules: []campaign.Rule{campaign.Overlap, campaign.Leak, campaign.Wakeup},
	},
	{
		Name: "renew-in-seconds", About: "a renewal counts in whole seconds: less than one deletes the lock, and the answer is that it was renewed",
		Edits: []overlay.Edit{
			script("prelude", "redis.call('PEXPIRE', KEYS[1], pttl)", "redis.call('EXPIRE', KEYS[1], math.floor(pttl / 1000))"),
			script("batch_renew", "redis.call('PEXPIRE', KEYS[i], ARGV[n + 1 + i] or ARGV[n + 2], 'GT') == 0", "redis.call('EXPIRE', KEYS[i], math.floor((ARGV[n + 1 + i] or ARGV[n + 2]) / 1000)) == 0"),
		},
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "deadline-from-reply", About: "deadlines count from the reply, not from the sending",
		Edits: []overlay.Edit{
			edit("attempt.go", "newGrant(a, sent, sent, term-drift(term), fence, block)", "newGrant(a, clock.Now(), clock.Now(), term-drift(term), fence, block)"),
			edit("grant.go", "g.anchor, g.valid = sent, valid", "g.anchor, g.valid = clock.Now(), valid"),
		},
		Kinds: []string{"delayed-replies", "late-replies", "server-pause", "server-pause-long"}, Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "reentry-not-counted", About: "the first release of a lock that was acquired again gives it up",
		Edits: []overlay.Edit{edit("grant.go", "	if !g.isJoined() {\n		return false\n	}\n", "	if g != nil {\n		return false\n	}\n")},
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "reentry-never-freed", About: "a lease that was acquired again stays counted when it is released",
		Edits: []overlay.Edit{edit("grant.go", "	*g.joined = others[:len(others)-1]\n	return true", "	return true")},
		Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup},
	},
	{
		Name: "loss-by-timer", About: "Err trusts a timer that a paused process does not run",
		Edits: []overlay.Edit{edit("lease.go", "l.ended == nil && l.g.expired(now)", "false && l.g.expired(now)")},
		Kinds: []string{"process-pause-long"}, Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "acquire-not-idempotent", About: "an acquire that is repeated does not know its own lock",
		Edits: []overlay.Edit{script("acquire", "local owner = value and string.sub(value, 1, #mine) == mine", "local owner = false")},
		Kinds: []string{"lost-reply"}, Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup},
	},
	{
		Name: "subscribe-after-check", About: "a waiter subscribes after it has looked, and misses what is published between",
		Edits: []overlay.Edit{
			edit("campaign.go", "up := c.sub.awaitUp(time.Second)", "up := true"),
			edit("campaign.go", "		if got.receivers == 0 {", "		if false {"),
			script("hand_over", "elseif owner and receivers(channel) > 0 then", "elseif owner then"),
			edit("campaign.go", "if c.sub.interrupted() || c.joined.Swap(false) || !c.stillFor(a) {", "if c.joined.Swap(false) || !c.stillFor(a) {"),
		},
		Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "no-tombstone", About: "a token that was given up can still acquire when its request comes late",
		Edits: []overlay.Edit{script("bury", "  if until_time <= now then", "  if true then")},
		Kinds: []string{"late-copy", "delayed-requests"}, Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup},
	},
	{
		Name: "token-per-process", About: "all acquires of a process have one token",
		Edits: []overlay.Edit{edit("attempt.go", "randomBetween(valueFormat, \":\")", "valueFormat + l.c.id + \":\"")},
		Rules: []campaign.Rule{campaign.Overlap, campaign.Fences},
	},
	{
		Name: "hand-over-untold", About: "a release hands the lock over and tells nobody",
		Edits: []overlay.Edit{script("hand_over", "local heard = send(channel,", "local heard = send('x' .. channel,")},
		Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "mark-forgotten", About: "a waiter does not mark the lock, so that its release does not look at the queue",
		Edits: []overlay.Edit{script("acquire", "mark_lock(value)", "kind = 'ours'")},
		Rules: []campaign.Rule{campaign.Wakeup},
	},
	{
		Name: "last-come-first-served", About: "the youngest waiter is served",
		Edits: []overlay.Edit{script("queue", "'ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'LIMIT'", "'ZREVRANGEBYSCORE', KEYS[2], '+inf', '0', 'LIMIT'")},
		Rules: []campaign.Rule{campaign.Order},
	},
	{
		Name: "barging", About: "a newcomer takes a free lock although others queue for it",
		Edits: []overlay.Edit{
			script("acquire", "not look and redis.call('EXISTS', KEYS[2]) == 0 then", "not look then"),
			script("many", "all or redis.call('EXISTS', KEYS[i], KEYS[n + i]) == 0", "all or redis.call('EXISTS', KEYS[i]) == 0"),
			script("lone", "redis.call('EXISTS', KEYS[1], KEYS[2]) > 0", "redis.call('EXISTS', KEYS[1]) > 0"),
		},
		Kinds: []string{"process-pause-long", "process-killed", "server-pause-long"}, Rules: []campaign.Rule{campaign.Order},
	},
	{
		Name: "one-fence", About: "every grant has the same fence",
		Edits: []overlay.Edit{script("mint", "return fence, n", "return 5, n"), script("lone", "return 'taken ' .. at .. ' ' .. fence", "return 'taken ' .. at .. ' 5'")},
		Rules: []campaign.Rule{campaign.Fences, campaign.StaleWrite},
	},
	{
		Name: "fence-without-floor", About: "fences begin anew when the counter is lost",
		Edits: []overlay.Edit{
			script("mint", "fence = math.max(fence + 1, now)", "fence = fence + 1"),
			script("lone", "local fence, last = at,", "local fence, last = '1',"),
			script("lone", "if last and (", "if last and (true or "),
			script("lone", "math.max(tonumber(last) + 1, tonumber(at))", "tonumber(last) + 1"),
		},
		Kinds: []string{"fences-deleted", "flushall", "wiped-restart"}, Rules: []campaign.Rule{campaign.Fences, campaign.StaleWrite},
	},
	{
		Name: "block-reused", About: "every lease that is passed on within the process has the same fence",
		Edits: []overlay.Edit{edit("grant.go", "	g.next++\n	return g.lease", "	return g.lease")},
		Rules: []campaign.Rule{campaign.Fences},
	},
	{
		Name: "passed-on-when-over", About: "a lease is passed on within the process after its deadline",
		Edits: []overlay.Edit{
			edit("lease.go", "	l.lookAt(now)\n	if lost, ok := l.ended.(*LostError); ok && g.over {\n		return nil, true, lost\n	}\n", ""),
			edit("lease.go", "	if l.ended == nil {\n		next := g.line.successor(g, now)", "	if l.ended != ErrReleased {\n		next := g.line.successor(g, now)"),
			edit("lease.go", "l.ended == nil && l.g.expired(now)", "false && l.g.expired(now)"),
			edit("line.go", "g.passed >= g.most || now.Sub(g.since) > maxPassing", "g.passed >= g.most || now.Sub(g.since) < 0"),
		},
		Kinds: paused, Rules: []campaign.Rule{campaign.Overlap, campaign.Fences},
	},
	{
		Name: "entry-left", About: "a waiter that gives up stays in the queue",
		Edits: []overlay.Edit{edit("attempt.go", "c.takeBack(a.l, a.token(), a.member,", "c.takeBack(a.l, a.token(), \"\",")},
		Kinds: []string{"cancelled-acquires"}, Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup, campaign.Order},
	},
	{
		Name: "crossed-grant-kept", About: "a grant that crosses a cancellation is given back by nobody",
		Edits: []overlay.Edit{
			edit("attempt.go", "c.takeBack(a.l, a.token(), a.member, a.unanswered, a.ending)", "_ = c"),
		},
		Kinds: []string{"cancelled-acquires"}, Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup},
	},
	{
		Name: "goroutine-left", About: "a client's scheduler outlives it",
		Edits: []overlay.Edit{edit("client.go", "	c.schedule.Close()\n", "")},
		Rules: []campaign.Rule{campaign.Leak},
	},
	{
		Name: "batch-barging", About: "a batch takes a free lock although others queue for it",
		Edits: []overlay.Edit{
			script("many", "all or redis.call('EXISTS', KEYS[i], KEYS[n + i]) == 0", "all or redis.call('EXISTS', KEYS[i]) == 0"),
			script("lone", "redis.call('EXISTS', KEYS[1], KEYS[2]) > 0", "redis.call('EXISTS', KEYS[1]) > 0"),
		},
		Kinds: []string{"process-pause-long", "process-killed", "server-pause-long"}, Rules: []campaign.Rule{campaign.Order},
	},
	{
		Name: "batch-takes-held", About: "a batch takes locks without looking whether they are free",
		Edits: []overlay.Edit{
			script("many", "local all = redis.call('EXISTS', unpack(KEYS, 1, 2 * n)) == 0", "local all = true"),
			script("many", "info, 'NX', 'PX', ttl)", "info, 'PX', ttl)"),
			script("lone", "redis.call('EXISTS', KEYS[1], KEYS[2]) > 0", "false"),
		},
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "batch-not-after", About: "a batch that comes late takes locks for those who have given up",
		Edits: []overlay.Edit{
			script("many", "if now >= tonumber(ARGV[2]) then", "if false then"),
			script("lone", "tonumber(at) >= tonumber(ARGV[2]) or ", ""),
			edit("batch.go", "		a.sent(mayBeDone(e.err), notAfter)", "		a.sent(mayBeDone(e.err), 0)"),
			edit("batch.go", "		a.sent(true, notAfter)", "		a.sent(true, 0)"),
		},
		Kinds: []string{"late-copy", "delayed-requests"}, Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup},
	},
	{
		Name: "batch-one-fence", About: "all grants of batches have one fence",
		Edits: []overlay.Edit{script("batch_acquire", "fence, minted = mint(n)", "fence, minted = 5, n"), script("lone", "local fence, last = at, redis.call('GET', KEYS[3])", "local fence, last = '5', false")},
		Rules: []campaign.Rule{campaign.Fences, campaign.StaleWrite},
	},
	{
		Name: "batch-frees-anybodys", About: "a batch deletes locks without asking whose they are",
		Edits: []overlay.Edit{script("batch_release", "if value and string.find(value, ARGV[i], 1, true) == 1 and", "if value and"), byScript},
		Kinds: []string{"late-copy"}, Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "batch-mark-ignored", About: "a batch deletes locks for which others wait",
		Edits: []overlay.Edit{script("batch_release", " and string.sub(value, -1) ~= '+' then", " then"), byScript},
		Rules: []campaign.Rule{campaign.Wakeup},
	},
	{
		Name: "batch-unanswered-not-sent", About: "a batch that was not answered counts as not sent",
		Edits: []overlay.Edit{edit("batch.go", "		a.sent(mayBeDone(e.err), notAfter)", "		a.sent(false, notAfter)"), edit("batch.go", "		a.sent(true, notAfter)", "		a.sent(false, notAfter)")},
		Kinds: []string{"cancelled-acquires", "late-copy", "delayed-requests", "lost-reply"}, Rules: []campaign.Rule{campaign.Leak, campaign.Wakeup},
	},
	{
		Name: "exists-then-set", About: "two commands: EXISTS, then SET", Naive: "exists-then-set",
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "setnx-then-expire", About: "two commands: SETNX, then PEXPIRE; a crash between leaves the lock for ever", Naive: "setnx-then-expire",
		Kinds: []string{"process-killed", "lost-request"}, Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "getset-client-clocks", About: "the time of expiry is in the value, by the clients' clocks, and taken with GETSET", Naive: "getset-client-clocks",
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "get-then-del", About: "release is two commands: GET, then DEL", Naive: "get-then-del",
		Kinds: []string{"delayed-requests", "slow-network"}, Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "plain-del", About: "release is a DEL", Naive: "plain-del",
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "millisecond-tokens", About: "the owner's token is the time in milliseconds", Naive: "millisecond-tokens",
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "never-told", About: "the holder is never told that its lease is over", Naive: "never-told",
		Kinds: paused, Rules: []campaign.Rule{campaign.Overlap},
	},

	{
		Name: "redisson-barging", About: "a newcomer takes a free lock in Redisson's form although others queue for it",
		Subject: campaign.Redisson{},
		Edits:   []overlay.Edit{script("acquire", "not look and redis.call('EXISTS', KEYS[2]) == 0 then", "not look then")},
		Kinds:   []string{"process-pause-long", "process-killed", "server-pause-long"}, Rules: []campaign.Rule{campaign.Order},
	},
	{
		Name: "redisson-for-ever", About: "a lock in Redisson's form has no expiry, and stays when its holder dies",
		Subject: campaign.Redisson{},
		Edits:   []overlay.Edit{script("lock", "    redis.call('PEXPIRE', KEYS[1], ttl)\n", "")},
		Kinds:   []string{"process-killed"}, Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "one-release-for-all", About: "a reader deletes the holds of the others",
		Subject: campaign.ReadWrite{},
		Edits:   []overlay.Edit{script("share_release", "    dismiss(token, hold)", "    redis.call('DEL', KEYS[1])\n    used, next_expiry, common_fence = 0, 9e15, nil")},
		Rules:   []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "one-ttl-for-all", About: "all holders have one TTL: who died holds on while others renew",
		Subject: campaign.ReadWrite{},
		Edits:   []overlay.Edit{script("shares", "if expiry and expiry <= now then", "if false then")},
		Kinds:   []string{"process-killed"}, Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "permits-leak", About: "the permits of who died stay taken",
		Subject: campaign.Permits{},
		Edits: []overlay.Edit{
			script("shares", "if expiry and expiry <= now then\n      gone", "if expiry and expiry <= now and kind ~= 'sem' then\n      gone"),
			script("shares", "not fixed and redis.call('PTTL', KEYS[1]) < ttl", "kind ~= 'sem'"),
		},
		Kinds: []string{"process-killed"}, Rules: []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "one-permit-more", About: "there is room for one more than the limit",
		Subject: campaign.Permits{},
		Edits:   []overlay.Edit{script("shares", "return used + weight <= limit", "return used + weight <= limit + 1")},
		Rules:   []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "light-first", About: "who wants little passes who wants much",
		Subject: campaign.Permits{},
		Edits:   []overlay.Edit{script("share_acquire", "if rest == 0 and not look and not first_waiter() and room(weight, who) then", "if rest == 0 and not look and room(weight, who) then")},
		Rules:   []campaign.Rule{campaign.Order},
	},
	{
		Name: "owner-not-asked", About: "whoever has an owner's lock lets everybody in",
		Subject: campaign.Owned{},
		Edits:   []overlay.Edit{script("shares", "used > 0 and who == holder", "used > 0")},
		Rules:   []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "owner-counted-once", About: "an owner's second lease is not counted: the first that is released gives the lock up",
		Subject: campaign.Owned{},
		Edits:   []overlay.Edit{script("shares", "  common_fence, holder = fence, who\n  used = used + weight", "  common_fence, holder = fence, who\n  used = kind == 'own' and 1 or used + weight")},
		Rules:   []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "joined-and-left", About: "the first of the readers that share a lease releases it for all",
		Subject: campaign.ReadWrite{},
		Edits:   []overlay.Edit{edit("grant.go", "	if !g.isJoined() {\n		return false", "	if g != nil {\n		return false")},
		Rules:   []campaign.Rule{campaign.Overlap},
	},

	{
		Name: "part-kept", About: "a part of several locks is kept when another cannot be had",
		Subject: campaign.Multi{},
		Edits:   []overlay.Edit{edit("multi.go", "			l.c.tasks.run(func() { _ = lease.Release(context.Background()) })", "			_ = lease")},
		Rules:   []campaign.Rule{campaign.Wakeup, campaign.Leak},
	},
	{
		Name: "no-canonical-order", About: "several locks are acquired in the order in which they are named",
		Subject: campaign.Multi{},
		Edits:   []overlay.Edit{edit("multi.go", "return strings.Compare(l.parts[i].keys.Lock, l.parts[j].keys.Lock)", "return i - j")},
		Rules:   []campaign.Rule{campaign.Wakeup},
	},
	{
		Name: "failure-counts", About: "a job's run counts though it failed",
		Subject: campaign.Once{},
		Edits:   []overlay.Edit{edit("once.go", "		result, err := f(ctx, lease)\n		if err == nil {", "		result, err := f(ctx, lease)\n		if err != ErrInvalid {")},
		Rules:   []campaign.Rule{campaign.Counting},
	},
	{
		Name: "begun-counts", About: "a job's run counts from when it begins, also if its process dies",
		Subject: campaign.Once{},
		Edits:   []overlay.Edit{script("once_begin", "  redis.call('HSET', record, 'tries', tries + 1, 'first', whole(first), 'last', fence)", "  redis.call('HSET', record, 'tries', tries + 1, 'first', whole(first), 'last', fence, 'done', whole(now), 'fence', fence, 'info', '{}', 'result', '', 'count', '1')")},
		Kinds:   []string{"process-killed"}, Rules: []campaign.Rule{campaign.Counting},
	},
	{
		Name: "completed-unlocked", About: "a run counts though its lock was lost, and another has run the job since",
		Subject: campaign.Once{},
		Edits: []overlay.Edit{
			script("once_complete", "  if not value or string.sub(value, 1, #mine) ~= mine then", "  if false then"),
			edit("once.go", "	if err := lease.Err(); err != nil {\n		return err\n	}\n	return ctx.Err()", "	return nil"),
		},
		Kinds: paused, Rules: []campaign.Rule{campaign.Counting},
	},
	{
		Name: "leads-on", About: "a leader does not look whether its lease is over",
		Subject: campaign.Election{},
		Edits: []overlay.Edit{
			edit("lease.go", "l.ended == nil && l.g.expired(now)", "!l.g.l.set.apart && l.ended == nil && l.g.expired(now)"),
			edit("grant.go", "	if g.expired(now) {\n		g.lose(g.expiry())", "	if g.expired(now) && g.l.set.apart {\n		return\n	}\n	if g.expired(now) {\n		g.lose(g.expiry())"),
		},
		Kinds: paused, Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "half-a-quorum", About: "N/2 nodes are enough",
		Subject: campaign.Quorum{},
		Edits:   []overlay.Edit{edit("quorum.go", "need: n/2 + 1", "need: n / 2")},
		Rules:   []campaign.Rule{campaign.Overlap, campaign.Fences},
	},
	{
		Name: "no-incarnation", About: "a node that restarted, or was emptied, grants at once",
		Subject: campaign.Quorum{},
		Edits:   []overlay.Edit{script("node", "local function refusal(mark, known)\n", "local function refusal(mark, known)\n  if true then\n    return nil\n  end\n")},
		Kinds:   []string{"wiped-restart", "flushall"}, Rules: []campaign.Rule{campaign.Overlap, campaign.Fences},
	},
	{
		Name: "fence-told-nobody", About: "a fence is not told to the nodes that are below it",
		Subject: campaign.Quorum{},
		Edits:   []overlay.Edit{edit("quorum_acquire.go", "	if known >= q.need {\n		return fence, nil\n	}", "	if known >= 0 {\n		return fence, nil\n	}")},
		Kinds:   []string{"server-pause-long", "refused-connections", "lost-reply"}, Rules: []campaign.Rule{campaign.Fences},
	},
	{
		// Who comes so late is past its own deadline, in any history: tests ask the node itself.
		Name: "second-phase-unowned", About: "a node is told of a fence without asking whose the lock is by then",
		Edits: []overlay.Edit{script("node_fence", "if not value or string.sub(value, 1, #mine) ~= mine then", "if false then")},
		Tests: []Test{{"scripts", "TestNodes"}, {"quorum", "TestNodeLosesTheLockBeforeItIsToldAFence"}},
	},
	{
		Name: "node-batch-takes-held", About: "a batch takes locks of a node without looking whether they are free",
		Subject: campaign.Quorum{},
		Edits: []overlay.Edit{
			script("many", "local all = redis.call('EXISTS', unpack(KEYS, 1, 2 * n)) == 0", "local all = true"),
			script("many", "info, 'NX', 'PX', ttl)", "info, 'PX', ttl)"),
		},
		Rules: []campaign.Rule{campaign.Overlap},
	},
	{
		Name: "node-batch-one-fence", About: "all grants of a node's batches have one fence",
		Subject: campaign.Quorum{},
		Edits:   []overlay.Edit{script("node_batch_acquire", "fence = (read_counter(known[1]) or now) + 1", "fence = 5")},
		Rules:   []campaign.Rule{campaign.Fences},
	},
	{
		// Nothing but a vote of this kind, of a node that was emptied, would show it in a history: tests ask
		// the node itself.
		Name: "node-batch-unrefused", About: "a batch takes locks of a node that counts for nothing",
		Edits: []overlay.Edit{script("node_batch_acquire", "if refused then", "if false then")},
		Tests: []Test{{"scripts", "TestNodeBatches"}},
	},
	{
		Name: "node-batch-not-after", About: "a batch that comes late takes locks of a node",
		Edits: []overlay.Edit{script("many", "if now >= tonumber(ARGV[2]) then", "if false then")},
		Tests: []Test{{"scripts", "TestNodeBatches"}},
	},
	{
		Name: "counter-forgotten", About: "a node that lost its fence counter is not told of those of the others",
		Subject: campaign.Quorum{},
		Edits:   []overlay.Edit{script("node_raise", "known > 0 and raise_counter(known) or read_counter() or 0", "read_counter() or 0")},
		Kinds:   []string{"older-restart"}, Rules: []campaign.Rule{campaign.Fences},
	},

	{
		Name: "counted-again", About: "a count-down that is sent again counts again",
		Subject: campaign.Latch{},
		Edits:   []overlay.Edit{script("latch_count", "local known = redis.call('ZSCORE', KEYS[2], 'd:' .. token)", "local known = false")},
		Kinds:   []string{"lost-reply"}, Rules: []campaign.Rule{campaign.Counted},
	},
	{
		Name: "counted-for-another", About: "who has not joined a latch counts down in the place of a party that has",
		Subject: campaign.Latch{},
		Edits:   []overlay.Edit{script("latch_count", "seats > 0 and used >= seats then", "false then")},
		Rules:   []campaign.Rule{campaign.Counted},
	},
	{
		Name: "opens-untold", About: "nobody is told that a latch is open",
		Subject: campaign.Latch{},
		Edits:   []overlay.Edit{script("parties", "    if count == 0 then\n      tell(kind)", "    if count < 0 then\n      tell(kind)")},
		Rules:   []campaign.Rule{campaign.Wakeup},
	},
	{
		Name: "dead-awaited", About: "a latch's party that died is waited for for ever",
		Subject: campaign.Latch{},
		Edits:   []overlay.Edit{script("shares", "if expiry and expiry <= now then\n      gone", "if expiry and expiry <= now and kind ~= 'latch' then\n      gone")},
		Kinds:   []string{"process-killed"}, Rules: []campaign.Rule{campaign.Wakeup},
	},
	{
		Name: "dead-counted", About: "a latch's party that died counts as one that has counted down",
		Subject: campaign.Latch{},
		Edits:   []overlay.Edit{script("parties", "if how ~= 'done' then", "if how == 'left' then")},
		Kinds:   []string{"process-killed", "process-pause-long"}, Rules: []campaign.Rule{campaign.Counted},
	},
	{
		Name: "one-party-fewer", About: "a barrier lets its parties pass when one has not arrived",
		Subject: campaign.Barrier{},
		Edits:   []overlay.Edit{script("barrier_await", "if arrived < limit then", "if arrived < limit - 1 then")},
		Rules:   []campaign.Rule{campaign.Phases},
	},
	{
		Name: "phase-stands", About: "a barrier's phase is not followed by another",
		Subject: campaign.Barrier{},
		Edits:   []overlay.Edit{script("barrier_await", "'phase', whole(phase + 1), 'arrived', '0', 'tripped'", "'phase', whole(phase), 'arrived', '0', 'tripped'")},
		Rules:   []campaign.Rule{campaign.Phases, campaign.Wakeup},
	},
	{
		Name: "arrives-at-every-look", About: "a barrier's party counts as often as it looks",
		Subject: campaign.Barrier{},
		Edits:   []overlay.Edit{script("barrier_await", "if last_phase ~= at or not inside then", "if true then")},
		Kinds:   []string{"lost-reply", "cut-subscriptions"}, Rules: []campaign.Rule{campaign.Phases},
	},
	{
		Name: "withdrawn-stays", About: "an arrival at a barrier that was given up counts",
		Subject: campaign.Barrier{},
		Edits:   []overlay.Edit{script("barrier_withdraw", "arrived = arrived - 1", "arrived = arrived - 0")},
		Kinds:   []string{"cancelled-acquires"}, Rules: []campaign.Rule{campaign.Phases},
	},
	{
		Name: "dead-at-the-barrier", About: "a barrier's party that died keeps its place",
		Subject: campaign.Barrier{},
		Edits: []overlay.Edit{
			script("shares", "if expiry and expiry <= now then\n      gone", "if expiry and expiry <= now and kind ~= 'bar' then\n      gone"),
			script("shares", "not fixed and redis.call('PTTL', KEYS[1]) < ttl", "kind ~= 'bar'"),
		},
		Kinds: []string{"process-killed"}, Rules: []campaign.Rule{campaign.Wakeup},
	},
	{
		Name: "unbroken", About: "a party that leaves a barrier, or dies, does not break its phase",
		Subject: campaign.Barrier{},
		Edits:   []overlay.Edit{script("parties", "elseif kind == 'bar' then\n    local phase", "elseif kind == 'rab' then\n    local phase")},
		Kinds:   []string{"process-killed", "cancelled-acquires"}, Rules: []campaign.Rule{campaign.Phases, campaign.Wakeup},
	},
}
