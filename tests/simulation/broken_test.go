package simulation

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/race"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// broken is a lock with one thing wrong. A layer between library and driver breaks it; no code of the library
// knows of it.
type broken struct {
	name  string
	wrap  func(drivertest.Driver) drivertest.Driver
	find  string // part of the violation, which shows that this very mistake was found
	where Temper
	form  form // of all locks; "" leaves it to the seed
}

// These are the checks that find violations.
const (
	believes = "believes"
	fences   = "fence:"
	idle     = "was free from"
	overlaps = "overlap:"
	again    = "was begun"
	leftover = "is left"
	passing  = "passed although"
	phases   = "passed phase"
	number   = "counted as"
	missing  = "missing although"
	sleeping = "waited for although"
	dead     = "which had died"
	later    = "later than"
	reused   = "adopted twice"
	unused   = "that nobody had used"
	anything = ""
)

var brokenLocks = []broken{
	{"a release deletes whatever is there", rewriting("release",
		"if is_mine(value) then\n    if string.sub(value, -1)", "if value then\n    if string.sub(value, -1)"), believes, Rough, mutual},
	{"an acquire looks at the queue only", rewriting("acquire",
		"if rest == 0 and not value and not look and", "if not look and"), believes, Rough, mutual},
	{"a lock has no expiry", rewriting("acquire", "'PX', ttl", "'KEEPTTL'"), anything, Rough, mutual},
	{"a lock that is handed over is not set", rewriting("",
		"write_lock(waiter_token, new_value(waiter_token, fence, chain, info, follower), claim)", "redis.call('DEL', KEYS[1])"), believes, Rough, mutual},
	{"a claim is set for less than it is announced", rewriting("", "new_value(waiter_token, fence, chain, info, follower), claim)", "new_value(waiter_token, fence, chain, info, follower), math.ceil(claim / 2))"), believes, Rough, mutual},
	{"a fence is a second", rewriting("", "local fence, seq = fence_of(id)", "local fence, seq = math.floor(now / 1000000), '0'"), fences, Rough, mutual},
	{"a queue is never cleared", func(d drivertest.Driver) drivertest.Driver {
		return rewriting("", "redis.call('PEXPIRE', key,", "redis.call('EXISTS', key,")(
			rewriting("", "redis.call('PEXPIRE', KEYS[2],", "redis.call('EXISTS', KEYS[2],")(d))
	}, leftover, Rough, mutual},
	{"a deadline counts from the reply", changed(func(term, took time.Duration) time.Duration { return term + took }), believes, Rough, mutual},
	{"a deadline allows for no drift", changed(func(term, _ time.Duration) time.Duration { return term + term/99 + 2*time.Millisecond }), believes, Rough, mutual},
	{"nobody hears that a lock was handed over", deaf, idle, Calm, mutual},
	{"a lock that is held is set", onTheWay("*6\r\n$3\r\nSET\r\n", "*5\r\n$3\r\nSET\r\n", "\r\n$2\r\nNX\r\n", "\r\n"), believes, Rough, mutual},
	{"a lock that is set expires before its lease", sooner, believes, Rough, mutual},
	{"a token that was set is not ended", unended, anything, Calm, mutual},
	{"a copy of releases together deletes whatever is there", scriptOnTheWay(script.BatchRelease(), "string.find(value, ARGV[i], 1, true) == 1", "true", 5*time.Second), believes, Rough, mutual},
	{"releases together delete a lock for which others wait", scriptOnTheWay(script.BatchRelease(), " and string.sub(value, -1) ~= '+'", "", 0), idle, Calm, mutual},
	{"a copy of the server's own command deletes whatever is there", deletesBy("return redis.call('DEL', KEYS[1])", 5*time.Second), believes, Rough, mutual},
	{"the server's own command is not asked whether it did anything", deletesBy("redis.call('GET', KEYS[1]) return 1", 0), idle, Calm, mutual},
	{"a copy of a batch of renewals brings locks back", func(d drivertest.Driver) drivertest.Driver {
		return rewriting("batch_renew", "local value, granted = values[i], ARGV[1 + i]",
			"local granted = ARGV[1 + i]\n    local value = values[i] or redis.call('SET', KEYS[i], granted .. '0:0:{}', 'PX', 1) and granted")(twice(d, "batch_renew", 20*time.Second))
	}, anything, Calm, mutual},
	{"a releasing process does not tell the server", silent, idle, Calm, mutual},

	{"a writer does not wait for readers", rewriting("", "return used + weight <= limit", "return used + 1 <= limit"), overlaps, Calm, readWrite},
	{"readers leave with one of them", rewriting("", "used, holds = used - weight, holds - 1", "used, holds = 0, holds - 1"), overlaps, Calm, readWrite},
	{"the last permit is given twice", rewriting("", "return used + weight <= limit", "return used + weight <= limit + 1"), overlaps, Calm, counted},
	{"a hold ends in half its time", rewriting("", "now + ttl * 1000", "now + ttl * 500"), believes, Calm, counted},
	{"who has the lock is not asked for its owner", rewriting("", "owner == lock_owner", "true"), overlaps, Calm, owned},
	{"an owner's second lease is not counted", rewriting("", "used = used + weight\n  write_hold", "used = 1\n  write_hold"), overlaps, Calm, owned},
	{"an owner's lease has a fence of its own that is of before", rewriting("", "fence, n = common_fence, 1", "fence, n = common_fence - 1, 1"), fences, Calm, owned},
	{"no share is handed over", rewriting("share_release", "pcall(serve_or_notify)", "pcall(first_waiter)"), idle, Calm, counted},

	{"a ticket is good whoever has the lock", rewriting("adopt", "string.sub(value, 1, #ticket) ~= ticket", "false"), reused, Calm, carried},
	{"a ticket is good for nothing", rewriting("adopt", "if not value then", "if true then"), unused, Calm, carried},
	{"an adopted lock has no new fence", rewriting("adopt", "local fence = mint(1)", "local fence = tonumber(ARGV[7])"), fences, Calm, carried},

	{"several locks are taken although one is held", rewriting("multi_acquire", "elseif value then\n      local waiters", "elseif false then\n      local waiters"), believes, Calm, mutual},
	{"a run that was completed does not count", rewriting("once_begin", "if counts(done, window) then", "if false then"), again, Calm, onceOnly},
	{"a quorum of one node less than a majority", agreeable, believes, Calm, agreed},
	{"the second phase does not ask whose lock it is", func(d drivertest.Driver) drivertest.Driver {
		return bereft(&rewritten{d, "node_fence", "if not is_mine(value) then", "if false then"})
	}, believes, Rough, agreed},
	{"a node that came back empty counts at once", rewriting("", "ready = now + longest * 1000", "ready = now"), overlaps, Rough, agreed},
	{"a fence is told to no other node", rewriting("node_fence", "raise_counter(tonumber(ARGV[3]))", ""), fences, Rough, agreed},
	{"a job is done for half its window", rewriting("", "now < done + window * 1000", "now < done + window * 500"), again, Rough, onceOnly},

	{"a latch opens when one party is left", rewriting("latch_look", "' ' .. whole(seats) .. ' ' .. f[2]", "' ' .. whole(math.max(seats - 1, 0)) .. ' ' .. f[2]"), passing, Calm, latched},
	{"a count-down that is sent again counts again", func(d drivertest.Driver) drivertest.Driver {
		return rewriting("latch_count", "elseif not known then", "elseif true then")(twice(d, "latch_count", 0))
	}, passing, Calm, latched},
	{"a count-down that was refused counts by a copy", func(d drivertest.Driver) drivertest.Driver {
		return rewriting("latch_count", "if refused or not known", "if not known")(twice(d, "latch_count", 2*time.Second))
	}, anything, Calm, latched},
	{"a count-down is forgotten", rewriting("latch_count", "depart(kind, 1, 'done')", "insist()"), number, Calm, latched},
	{"a party that counts down is missing, too", rewriting("", "if how ~= 'done' then", "if true then"), missing, Calm, latched},
	{"a party that left is not missing", rewriting("", "if how ~= 'done' then", "if false then"), anything, Calm, latched},
	{"a party of a latch that has died is counted for ever", rewriting("", "depart(kind, #gone, 'died', info_of_dead)", "insist()"), number, Calm, latched},
	{"a reset leaves parties what they have", rewriting("latch_reset", "in_parts('HDEL', KEYS[1], redis.call('ZRANGE', expiries, '0', '-1'))", ""), anything, Rough, latched},
	{"nobody hears that a latch is open", deaf, sleeping, Calm, latched},
	{"a latch is kept for ten days", rewriting("", "latch_ttl, deleted_latch_ttl = 86400000", "latch_ttl, deleted_latch_ttl = 864000000"), leftover, Rough, latched},

	{"a barrier is passed with one party too few", rewriting("barrier_await", "if arrived < limit then", "if arrived < limit - 1 then"), phases, Calm, gathered},
	{"a party that looks arrives again", rewriting("barrier_await", "if last_phase ~= target or not inside then", "if true then"), phases, Calm, gathered},
	{"an arrival that is taken back counts", rewriting("barrier_withdraw", "arrived = arrived - 1", "arrived = arrived"), phases, Calm, gathered},
	{"who leaves a barrier breaks nothing", rewriting("share_release", "depart(kind, 1, ending, info)", "insist()"), anything, Calm, gathered},
	{"who has died at a barrier breaks nothing", rewriting("", "depart(kind, #gone, 'died', info_of_dead)", "insist()"), dead, Calm, gathered},
	{"a barrier has one party too many", rewriting("", "return used + weight <= limit", "return used + weight <= limit + 1"), overlaps, Calm, gathered},
	{"nobody hears that a phase is over", deaf, later, Calm, gathered},

	{"a lock of Redisson's clients is not looked at", rewriting("", "command('EXISTS', KEYS[1]) == 1 and ''", "false"), overlaps, Calm, redisson},
	{"Redisson's clients do not hear of a release", rewriting("", "pcall(redis.call, 'PUBLISH', channel, '0')", "pcall(redis.call, 'EXISTS', channel)"), idle, Calm, redisson},
	{"a lock in Redisson's form has no expiry", rewriting("", "redis.call('PEXPIRE', KEYS[1], ttl)\n  end)", "redis.call('PERSIST', KEYS[1])\n  end)"), anything, Rough, redisson},
	{"a release deletes a lock of Redisson's clients", rewriting("release",
		"if is_mine(value) then\n    if string.sub(value, -1)", "if value then\n    if string.sub(value, -1)"), overlaps, Rough, redisson},
}

// bereftLock is a quorum whose nodes lose locks before they tell the fence.
var bereftLock = broken{name: "a lock is lost before its fence is told", where: Rough, form: agreed,
	wrap: bereft}

func brokenLock(t *testing.T, name string) broken {
	for _, b := range append(brokenLocks, bereftLock) {
		if b.name == name {
			return b
		}
	}
	t.Fatalf("no broken lock is called %q", name)
	return broken{}
}

// world returns a world for a broken lock.
func (b broken) world(seed uint64) spec {
	return spec{seed: seed, form: b.form, temper: b.where, length: 20 * time.Minute, broken: b.name}
}

// TestBrokenLocksAreFound shows that the simulation can fail.
func TestBrokenLocksAreFound(t *testing.T) {
	if os.Getenv(envHours) == "" && !soak.Long() {
		t.Skip("SKIPPED: part of make nightly, which sets " + envHours)
	}
	for _, b := range brokenLocks {
		t.Run(strings.ReplaceAll(b.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			const most = 20
			for seed := uint64(1); seed <= most; seed++ {
				r := expect.Of(b.world(seed).run()).OK(t)
				for _, v := range r.Violations {
					if strings.Contains(v, b.find) {
						t.Logf("found with seed %d (%s, %d grants): %s", seed, r.Temper, r.Grants, v)
						return
					}
				}
			}
			t.Errorf("not found in %d worlds", most)
		})
	}
}

// TestLostLocksAreNoMistake shows that TestBrokenLocksAreFound finds the broken second phase, and not that
// locks are lost before it.
func TestLostLocksAreNoMistake(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: part of make nightly")
	}
	worlds := uint64(3)
	if race.Detector {
		worlds = 1
	}
	for seed := uint64(1); seed <= worlds; seed++ {
		r := expect.Of(bereftLock.world(seed).run()).OK(t)
		for _, v := range r.Violations {
			if strings.Contains(v, believes) || strings.Contains(v, overlaps) || strings.Contains(v, fences) {
				t.Errorf("seed %d: %s", seed, v)
			}
		}
	}
}

// TestBrokenScriptsAreBroken shows that every replacement finds its text: otherwise it would break nothing.
func TestBrokenScriptsAreBroken(t *testing.T) {
	for _, b := range brokenLocks {
		wrapped := b.wrap(nil)
		if outer, is := wrapped.(middle); is {
			wrapped = outer.Driver
		}
		for d, is := wrapped.(*rewritten); is; d, is = d.Driver.(*rewritten) {
			found := false
			for _, s := range script.All() {
				found = found || d.rewrite(s).Source != s.Source
			}
			expect.Equal(t, fmt.Sprintf("%s: a script has %q", b.name, d.old), found, true)
		}
	}
}

// rewriting replaces something in the script with that name, or in all that contain it.
func rewriting(name, old, new string) func(drivertest.Driver) drivertest.Driver {
	return func(d drivertest.Driver) drivertest.Driver { return &rewritten{d, name, old, new} }
}

type rewritten struct {
	drivertest.Driver
	name, old, new string
}

func (d *rewritten) rewrite(s driver.Script) driver.Script {
	if d.name != "" && d.name != s.Name || !strings.Contains(s.Source, d.old) {
		return s
	}
	other := driver.NewScript("test", strings.ReplaceAll(s.Source, d.old, d.new))
	other.Name = s.Name
	return other
}

func (d *rewritten) Run(ctx context.Context, call driver.Call) (string, error) {
	return d.Driver.Run(ctx, driver.Call{Script: d.rewrite(call.Script), Keys: call.Keys, Args: call.Args, Urgent: call.Urgent})
}

// middle is a driver that carries out scripts in a way of its own.
type middle struct {
	drivertest.Driver
	run func(ctx context.Context, d drivertest.Driver, call driver.Call) (string, error)
}

func (b middle) Run(ctx context.Context, call driver.Call) (string, error) {
	return b.run(ctx, b.Driver, call)
}

// changed tells the library other terms than the server gave, so that it computes other deadlines. took is how
// long the answer took.
func changed(term func(term, took time.Duration) time.Duration) func(drivertest.Driver) drivertest.Driver {
	return func(d drivertest.Driver) drivertest.Driver {
		return middle{d, func(ctx context.Context, d drivertest.Driver, call driver.Call) (string, error) {
			sent := time.Now()
			reply, err := d.Run(ctx, call)
			words := strings.Fields(reply)
			if err != nil || len(words) < 3 || words[0] != "granted" && words[0] != "renewed" {
				return reply, err
			}
			ms, err := strconv.Atoi(words[2])
			if err != nil {
				return "", err
			}
			words[2] = strconv.FormatInt(term(time.Duration(ms)*time.Millisecond, time.Since(sent)).Milliseconds(), 10)
			return strings.Join(words, " "), nil
		}}
	}
}

// twice sends a script again after it was answered, or a copy of it some time later, whose answer is dropped.
func twice(d drivertest.Driver, name string, later time.Duration) drivertest.Driver {
	return middle{d, func(ctx context.Context, d drivertest.Driver, call driver.Call) (string, error) {
		reply, err := d.Run(ctx, call)
		if call.Script.Name != name || err != nil {
			return reply, err
		}
		if later > 0 {
			time.AfterFunc(later, func() { _, _ = d.Run(context.WithoutCancel(ctx), call) })
			return reply, err
		}
		return d.Run(ctx, call)
	}}
}

// agreeable is a quorum's first node that agrees to everything and keeps nothing. So one node fewer than a
// majority has the lock.
func agreeable(d drivertest.Driver) drivertest.Driver {
	return middle{d, func(ctx context.Context, d drivertest.Driver, call driver.Call) (string, error) {
		now := strconv.FormatInt(time.Now().UnixMicro(), 10)
		if strings.HasSuffix(d.Addr(), ":0") {
			switch call.Script.Name {
			case "node_acquire":
				return "granted " + now + " " + call.Args[2] + " " + now, nil
			case "node_fence":
				return "fenced " + now + " 1", nil
			case "renew":
				return "renewed " + now + " " + call.Args[2] + " 0 0", nil
			case "release":
				return "released " + now, nil
			}
		}
		return d.Run(ctx, call)
	}}
}

var lost = driver.NewScript("test", "redis.call('DEL', KEYS[1]) return ''")

// bereft is a quorum's node that loses a lock before it is told the fence.
func bereft(d drivertest.Driver) drivertest.Driver {
	return middle{d, func(ctx context.Context, d drivertest.Driver, call driver.Call) (string, error) {
		if call.Script.Name == "node_fence" {
			if _, err := d.Run(ctx, driver.Call{Script: lost, Keys: call.Keys, Args: call.Args, Urgent: call.Urgent}); err != nil {
				return "", err
			}
		}
		return d.Run(ctx, call)
	}}
}

var released atomic.Int64

// silent drops every other release.
func silent(d drivertest.Driver) drivertest.Driver {
	return middle{d, func(ctx context.Context, d drivertest.Driver, call driver.Call) (string, error) {
		if call.Script.Name == "release" && released.Add(1)%2 == 0 {
			return "released " + strconv.FormatInt(time.Now().UnixMicro(), 10), nil
		}
		return d.Run(ctx, call)
	}}
}

// deaf drops all messages.
func deaf(d drivertest.Driver) drivertest.Driver { return unhearing{d} }

type unhearing struct{ drivertest.Driver }

func (d unhearing) Subscribe(s driver.Subscription) (cancel func()) {
	s.Message = func(string) {}
	return d.Driver.Subscribe(s)
}
