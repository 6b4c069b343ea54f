package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// cluster is a fake with two masters that takes a millisecond to answer. One master has the locks
// whose names begin with "a". Of the first calls that are sent together, one is not answered until
// its context has ended.
type cluster struct {
	fake
	together int         // locks that were asked for together with others
	spread   int         // calls for several locks
	renewed  int         // calls of renewal scripts
	refusal  string      // error that refuses commands sent in place of scripts, together with others; "" if they are allowed
	released int         // calls of release.lua
	deleted  int         // locks that the command deleted
	refuses  refusal     // of a script
	answers  bool        // even the first calls that are sent together are all answered
	version  string      // of Valkey; "" for one that has DELIFEQ
	hangs    atomic.Bool // the first master does not answer

	spreadAt  []time.Time // when calls for several locks came
	refusedAt []time.Time // and when one of them was refused
}

// refusal is how a server refuses a script.
type refusal struct {
	script string          // its name; "" for none
	err    string          // of the whole call; or ""
	locks  func(n int) int // of the call's n locks, how many it refuses commands for: the first ones
}

// hang waits until ctx ends, if the master that has the key hangs.
func (d *cluster) hang(ctx context.Context, key string) error {
	if d.hangs.Load() && d.Node(key) == "a" {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(time.Millisecond)
	return nil
}

// note counts calls.
func (d *cluster) note(calls ...driver.Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if strings.HasSuffix(calls[0].Script.Name, "renew") {
		d.renewed++
	}
	if calls[0].Script.Name == "release" {
		d.released++
	}
	if len(calls) > 1 {
		d.together += len(calls)
	}
	if name := calls[0].Script.Name; strings.HasPrefix(name, "spread_") {
		all, each := spreadItems(name, calls[0].Args)
		d.together += (len(calls[0].Args) - all) / each
		d.spread++
		d.spreadAt = append(d.spreadAt, time.Now())
	}
}

func (d *cluster) Probe(ctx context.Context) (driver.ServerInfo, error) {
	info, err := d.fake.Probe(ctx)
	info.Cluster, info.Server, info.Version = true, "valkey", cmp.Or(d.version, "9.0.0")
	return info, err
}

func (d *cluster) Node(key string) string {
	if key[len("holdfast:{")] == 'a' {
		return "a"
	}
	return "b"
}

func (d *cluster) Run(ctx context.Context, call driver.Call) (string, error) {
	d.note(call)
	if err := d.hang(ctx, call.Keys[0]); err != nil {
		return "", err
	}
	if call.Script.Name == d.refuses.script {
		return d.refuse(ctx, call)
	}
	return d.run(ctx, call)
}

// refuse answers a script that the server refuses.
func (d *cluster) refuse(ctx context.Context, call driver.Call) (string, error) {
	d.mu.Lock()
	d.refusedAt = append(d.refusedAt, time.Now())
	d.mu.Unlock()
	if d.refuses.err != "" {
		return "", driver.ReplyError(d.refuses.err)
	}
	all, each := spreadItems(call.Script.Name, call.Args)
	refused := d.refuses.locks((len(call.Args) - all) / each)
	call.Args = slices.Delete(slices.Clone(call.Args), all, all+refused*each)
	reply, err := d.run(ctx, call)
	before, left, _ := strings.Cut(reply, " 0")
	reply = fmt.Sprint(before, " ", refused)
	if call.Script.Name == "spread_acquire" {
		return reply + strings.Repeat(" 0", refused) + left, err
	}
	for i := range refused {
		reply += fmt.Sprint(" ", i+1)
	}
	for _, one := range strings.Fields(left) {
		i, _ := strconv.Atoi(one)
		reply += fmt.Sprint(" ", refused+i)
	}
	return reply, err
}

// run answers a script, or the command that takes its place.
func (d *cluster) run(ctx context.Context, c driver.Call) (string, error) {
	if c.Script.Command == "" {
		return d.fake.Run(ctx, driver.Call{Script: c.Script, Keys: c.Keys, Args: c.Args, Urgent: true})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.holders[c.Keys[0]] != strings.Split(c.Args[0], ":")[1] {
		return "0", nil
	}
	delete(d.holders, c.Keys[0])
	d.deleted++
	return "1", nil
}

func (d *cluster) RunAll(ctx context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	d.mu.Lock()
	silent := -1
	if d.together == 0 && !d.answers {
		silent = len(calls) / 2
	}
	d.mu.Unlock()
	d.note(calls...)
	err := d.hang(ctx, calls[0].Keys[0])
	for i, c := range calls {
		if err != nil {
			tell(i, "", err)
			continue
		}
		if d.Node(c.Keys[0]) != d.Node(calls[0].Keys[0]) {
			panic("locks of two masters are sent together")
		}
		if i != silent {
			reply, err := "", error(driver.ReplyError(d.refusal))
			if c.Script.Command == "" || d.refusal == "" {
				reply, err = d.run(ctx, c)
			}
			tell(i, reply, err)
		}
	}
	if silent >= 0 && err == nil {
		<-ctx.Done()
		time.Sleep(time.Second)
		reply, err := d.run(ctx, calls[silent])
		tell(silent, reply, err)
	}
}

// goApart makes the locks of both masters go apart, as if these had refused a batch.
func (d *cluster) goApart(t *testing.T, c *Client) {
	lease, err := c.Mutex("a").Acquire(t.Context()) // now the client knows that the server is a Cluster
	if err == nil {
		err = lease.Release(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	d.deleted = 0
	for _, name := range []string{"a", "b"} {
		groups, _ := c.groupsFor(c.Mutex(name))
		groups.apartUntil.Store(math.MaxInt64)
	}
}

// Fault: One of the locks that go out together to a master of a Cluster, each in a call of its own, is not answered. It is given
// up without the others.
func TestLocksOfAMasterGoOutTogether(t *testing.T) {
	t.Run("in one call", func(t *testing.T) { testLocksOfAMaster(t, false) })
	t.Run("apart", func(t *testing.T) { testLocksOfAMaster(t, true) })
}

func testLocksOfAMaster(t *testing.T, apart bool) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(clock.SetBoot(func() time.Duration { return 0 }))
		server := &cluster{fake: fake{holders: map[string]string{}}, answers: !apart}
		c, err := New(server, nil)
		if err != nil {
			t.Fatal(err)
		}
		if apart {
			server.goApart(t, c)
		}
		var all sync.WaitGroup
		var givenUp atomic.Int32
		for i := range 40 {
			name := fmt.Sprintf("%c%d", "ab"[i/20], i%20)
			all.Go(func() {
				began := time.Now()
				lease, err := c.Mutex(name, TTL(time.Minute)).Acquire(t.Context())
				took := time.Since(began)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				if took >= c.cfg.CommandTimeout {
					givenUp.Add(1)
					took -= c.cfg.CommandTimeout
				}
				if took > 100*time.Millisecond {
					t.Errorf("%s took %s", name, took)
				}
				time.Sleep(5 * time.Second) // until the call that hung is answered
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		all.Wait()
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := givenUp.Load(); len(server.holders) != 0 || (n == 1) != apart || n > 1 {
			t.Errorf("%d locks are left, want 0; %d acquires were given up once", len(server.holders), n)
		}
		if (server.spread == 0) != apart {
			t.Errorf("%d calls for several locks", server.spread)
		}
		if server.together < 60 {
			t.Errorf("%d of 80 scripts were sent with others", server.together)
		}
	})
}

// Fault: A master does not run scripts for locks in several slots, or refuses most of the commands in them. It is not asked
// again and again. If it refuses fewer, or a lock that goes alone, the others go on together.
func TestAMasterThatRefusesBatchesIsAskedApart(t *testing.T) {
	for _, op := range []string{"acquire", "release", "renew"} {
		for _, r := range []struct {
			what    string
			refuses refusal
			apart   bool
		}{
			{"all calls", refusal{script: "spread_" + op, err: "ERR Script attempted to access keys that were not declared"}, true},
			{"all locks", refusal{script: "spread_" + op, locks: func(n int) int { return n }}, true},
			{"most locks", refusal{script: "spread_" + op, locks: func(n int) int { return n/2 + 1 }}, true},
			{"half of the locks", refusal{script: "spread_" + op, locks: func(n int) int { return n / 2 }}, false},
			{"a lock that goes alone", refusal{script: "batch_" + op, err: "NOPERM this user has no permissions to access one of the keys"}, false},
		} {
			t.Run(op+", "+r.what, func(t *testing.T) { testRefusedBatches(t, r.refuses, r.apart) })
		}
	}
}

func testRefusedBatches(t *testing.T, refuses refusal, apart bool) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(clock.SetBoot(func() time.Duration { return 0 }))
		server := &cluster{fake: fake{holders: map[string]string{}}, answers: true, version: "8.1.0", refuses: refuses}
		c, err := New(server, nil)
		if err != nil {
			t.Fatal(err)
		}
		const ttl = 3 * time.Second
		// Each lock is acquired, renewed and released, the first one alone, the others together.
		for _, n := range []int{1, 20, 20, 20, 20, 20} {
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() {
					lease, err := c.Mutex(fmt.Sprint("a", i), TTL(ttl)).Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(ttl + ttl/2)
					if err := errors.Join(lease.Err(), lease.Release(t.Context())); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if len(server.holders) > 0 {
				t.Errorf("%d locks are left", len(server.holders))
			}
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		soon := 0 // calls for several locks after the first refusal
		for _, sent := range server.spreadAt {
			for i, refused := range server.refusedAt {
				const answered = 2 * time.Millisecond
				if after := sent.Sub(refused); after > answered && after < apartFor {
					if apart {
						t.Errorf("a call for several locks %s after one was refused", after)
					} else if i == 0 {
						soon++
					}
				}
			}
		}
		if !apart && soon < 3 {
			t.Errorf("%d calls for several locks after a refusal", soon)
		}
		if apart && len(server.refusedAt) < 2 || len(server.refusedAt) == 0 {
			t.Errorf("refused at %v: the master is not asked again", server.refusedAt)
		}
	})
}

// Fault: One master of a Cluster hangs, with more leases than can be renewed singly at once. Its leases are lost;
// those of the other master are renewed as before, together or singly.
func TestAMasterThatHangsHoldsUpNoRenewalsOfOthers(t *testing.T) {
	t.Run("together", func(t *testing.T) { testAMasterThatHangs(t, 2*maxRenewing, Renew(true), 2*maxRenewing) })
	t.Run("by themselves", func(t *testing.T) { testAMasterThatHangs(t, 8*maxRenewing, MaxHold(time.Hour), math.MaxInt) })
}

// testAMasterThatHangs has n leases at each of two masters. One of the masters hangs; the leases
// may be renewed with at most that many calls.
func testAMasterThatHangs(t *testing.T, n int, option Option, sendings int) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(clock.SetBoot(func() time.Duration { return 0 }))
		server := &cluster{fake: fake{holders: map[string]string{}}}
		c, err := New(server, nil)
		if err != nil {
			t.Fatal(err)
		}
		const ttl = 10 * time.Second
		leases := make([]Lease, 2*n)
		var all sync.WaitGroup
		for i := range leases {
			all.Go(func() {
				lease, err := c.Mutex(fmt.Sprintf("%c%d", "ab"[i/n], i%n), TTL(ttl), option).Acquire(t.Context())
				if err != nil {
					t.Error(err)
				}
				leases[i] = lease
			})
		}
		all.Wait()
		if t.Failed() {
			t.FailNow()
		}
		server.hangs.Store(true)
		time.Sleep(3 * ttl)
		for _, l := range leases[:n] {
			// A renewal that is only sent when it is too late has not failed yet.
			if lost := (*LostError)(nil); !errors.As(l.Err(), &lost) || lost.Reason != LossUnreachable && lost.Reason != LossExpired {
				t.Fatalf("%s, whose master hangs: %v", l.Name(), l.Err())
			}
		}
		for _, l := range leases[n:] {
			if l.Err() != nil {
				t.Fatalf("%s, whose master is well: %v", l.Name(), l.Err())
			}
		}
		server.mu.Lock()
		if server.renewed > sendings {
			t.Errorf("%d leases are renewed for %s in %d sendings", n, 3*ttl, server.renewed)
		}
		server.mu.Unlock()
		server.hangs.Store(false)
		for _, l := range leases {
			all.Go(func() { _ = l.Release(t.Context()) })
		}
		all.Wait()
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Releases that go out together are native commands if the server has them and permits them,
// otherwise scripts.
func TestReleasesOfAMasterAreCommands(t *testing.T) {
	for _, refusal := range []string{"", "NOPERM this user has no permissions to run the 'delifeq' command", "ERR unknown command 'delifeq'"} {
		t.Run(refusal, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				t.Cleanup(clock.SetBoot(func() time.Duration { return 0 }))
				// A server's fences are not behind its clock.
				server := &cluster{fake: fake{holders: map[string]string{}, fence: uint64(time.Now().Add(time.Hour).UnixMicro())}, refusal: refusal, answers: true}
				c, err := New(server, nil)
				if err != nil {
					t.Fatal(err)
				}
				server.goApart(t, c)
				const n = 100
				var all sync.WaitGroup
				for i := range n {
					all.Go(func() {
						lease, err := c.Mutex(fmt.Sprint("a", i)).Acquire(t.Context())
						if err == nil {
							began := time.Now()
							err = lease.Release(t.Context())
							if took := time.Since(began); took > 100*time.Millisecond {
								t.Errorf("a release took %s", took)
							}
						}
						if err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if (server.deleted == n) != (refusal == "") || len(server.holders) != 0 {
					t.Errorf("%d of %d locks were deleted by command, %d are left", server.deleted, n, len(server.holders))
				}
				if server.released > 0 {
					t.Errorf("%d locks that nobody waits for were released by release.lua", server.released)
				}
				if c.server.HasDeleteIfEqual() != (refusal == "") {
					t.Errorf("HasDeleteIfEqual: %v", c.server.HasDeleteIfEqual())
				}
				if err := c.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Renewals that go together do so at the start of a slot, on average after a third of the TTL.
func TestRenewalsFallIntoSlots(t *testing.T) {
	c, err := New(&fake{holders: map[string]string{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	lease, err := c.Mutex("m").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lease.Release(t.Context()) }()
	const n, ttl = 10_000, 48 * time.Second
	var sum time.Duration
	for i := range n {
		sent := clock.Awake().Add(time.Duration(i) * 7 * time.Millisecond)
		at := lease.(*holdLease).g.renewalAfter(sent, ttl)
		if off := at.Mono.Sub(c.epoch) % time.Second; off != 0 {
			t.Fatalf("a renewal is %s after the start of a slot", off)
		}
		sum += at.Sub(sent)
	}
	if mean := sum / n; (mean - ttl/3).Abs() > 100*time.Millisecond {
		t.Errorf("on average renewals come after %s", mean)
	}
}

// However many locks have been contended, those that are contended now are known.
func TestContendedLocksAreRememberedForAsLongAsTheyAreAskedFor(t *testing.T) {
	c, err := New(&fake{holders: map[string]string{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, often := &c.batches, c.Mutex("often")
	b.note(often, true)
	for i := range 3 * maxContended {
		l := c.Mutex(fmt.Sprint("lock", i))
		b.note(l, true)
		if !b.isContended(l) || i%1000 == 0 && !b.isContended(often) {
			t.Fatalf("after %d contended locks, one of them is not known", i)
		}
	}
	if n := len(b.contended) + len(b.olderContended); n > maxContended {
		t.Errorf("%d are remembered, want %d at most", n, maxContended)
	}
	b.note(often, false)
	if b.isContended(often) {
		t.Error("a lock that is no longer contended is remembered")
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
