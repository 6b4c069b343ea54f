//go:build unix

package processes

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// kind is a kind of lock as guests use it, and what is required of its history.
type kind struct {
	name    string
	nodes   int // servers; 0 for one
	config  holdfast.Config
	turns   func(g *table, goroutine int) func()
	judge   func(events []history.Event, completed []completion) []string
	locks   func(c *holdfast.Client) []*holdfast.Lock // nobody holds them in the end
	stays   []string                                  // parts of the names of keys that are not locks
	skipped bool                                      // turns may be skipped, if another has done the job
}

// kinds returns all of them. Every kind in it is part of the storms.
func kinds() []kind {
	exclusive := func(events []history.Event, _ []completion) []string { return told(history.Check(events)) }
	a := func(c *holdfast.Client) []*holdfast.Lock { return []*holdfast.Lock{c.Mutex("a")} }
	return []kind{
		{name: "mutex", turns: mutexTurns, judge: exclusive, locks: a},
		{
			name: "redisson", turns: redissonTurns, judge: exclusive,
			locks: func(c *holdfast.Client) []*holdfast.Lock { return []*holdfast.Lock{redissons(c)} },
		},
		{
			name: "rwmutex", turns: rwmutexTurns,
			judge: func(events []history.Event, _ []completion) []string {
				// There are fewer readers than this.
				return told(history.Crowding(events, 1000), history.Turns(events), written(events))
			},
			locks: func(c *holdfast.Client) []*holdfast.Lock { return []*holdfast.Lock{c.RWMutex("a").Writer()} },
		},
		{
			// Permits are not passed on within a process, so that fences show the server's order.
			name: "semaphore", config: holdfast.Config{MaxLocalHandovers: -1}, turns: semaphoreTurns,
			judge: func(events []history.Event, _ []completion) []string {
				return told(history.Crowding(events, permits), history.Twins(events), history.Later(events))
			},
			locks: func(c *holdfast.Client) []*holdfast.Lock {
				return []*holdfast.Lock{c.Semaphore("a", permits).Permits(permits)}
			},
		},
		{
			name: "owned", turns: ownerTurns,
			judge: func(events []history.Event, _ []completion) []string {
				whose := func(a, b history.Event) bool { return a.Share == b.Share }
				return told(history.Strangers(events), history.SharedFences(events, true, whose))
			},
			locks: func(c *holdfast.Client) []*holdfast.Lock { return []*holdfast.Lock{owned(c, 0)} },
		},
		{
			name: "multi", turns: multiTurns, judge: exclusive,
			locks: func(c *holdfast.Client) (all []*holdfast.Lock) {
				for _, name := range multiNames {
					all = append(all, c.Mutex(name))
				}
				return append(all, c.Multi(multiNames))
			},
		},
		{
			name: "once", turns: onceTurns, stays: []string{":once"}, skipped: true,
			judge: func(events []history.Event, completed []completion) []string {
				return append(told(history.Check(events)), repeated(completed)...)
			},
			locks: func(c *holdfast.Client) []*holdfast.Lock {
				return []*holdfast.Lock{c.Mutex("every"), c.Mutex("slots")}
			},
		},
		{name: "election", turns: electionTurns, judge: exclusive, locks: a},
		{
			name: "quorum", nodes: 5, config: holdfast.Config{Strict: true, MaxTTL: longest, TTL: guestTTL},
			turns: quorumTurns, judge: exclusive, locks: a, stays: []string{"holdfast:incarnation", "holdfast:caughtup"},
		},
	}
}

func kindOf(name string) kind {
	all := kinds()
	return all[slices.IndexFunc(all, func(k kind) bool { return k.name == name })]
}

func (k kind) client(rdb *redis.Client) (*holdfast.Client, error) {
	k.config.CommandTimeout = patient.CommandTimeout
	return holdfastgoredis.New(rdb, &k.config)
}

// told returns violations as text.
func told(violations ...[]history.Violation) (all []string) {
	for _, v := range slices.Concat(violations...) {
		all = append(all, v.String())
	}
	return all
}

// written returns the faults of a history's writers; it ignores readers.
func written(events []history.Event) []history.Violation {
	return history.Check(slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return e.Share != 0 }))
}

// repeated returns runs that were completed in a window with an earlier completed run: in the same slot or, by
// the server's clock, within a window after its end.
func repeated(completed []completion) (wrong []string) {
	slots := map[string]completion{}
	var last completion
	for _, c := range slices.SortedFunc(slices.Values(completed), func(a, b completion) int { return cmp.Compare(a.At, b.At) }) {
		before, known := slots[c.Slot], c.Slot != ""
		switch {
		case known && before.At != 0:
			wrong = append(wrong, fmt.Sprintf("slot %s: completed with fence %d, and again with %d", c.Slot, before.Fence, c.Fence))
		case known:
			slots[c.Slot] = c
		default:
			if last.At != 0 && (c.At-last.At < window.Microseconds() || c.Fence <= last.Fence) {
				wrong = append(wrong, fmt.Sprintf("completed with fence %d, and %d µs later with %d", last.Fence, c.At-last.At, c.Fence))
			}
			last = c
		}
	}
	return wrong
}

// storms says how many members of each fate a storm has at a time, how many die, and in which time.
type storms struct {
	survivors, mortals, deaths int
	duration                   time.Duration
}

// Fault: Processes that take turns with a lock of any kind are killed at random moments, and others take their
// places. Survivors go on, no more hold the lock than may, fences rise, and nothing is left of the dead.
func TestEveryLockOutlivesItsDead(t *testing.T) {
	program, servers := os.Args[0], []server.Binary{server.One(t)}
	s := storms{survivors: 3, mortals: 3, deaths: 100, duration: time.Minute}
	if soak.Long() {
		program, servers = light(t), server.Binaries(t)
	} else {
		s.deaths, s.duration = int(100*soak.Duration(t)/s.duration), soak.Duration(t)
	}
	for _, bin := range servers {
		t.Run(bin.Name, func(t *testing.T) {
			for _, k := range kinds() {
				t.Run(k.name, func(t *testing.T) {
					t.Parallel()
					s.rage(t, program, bin, k)
				})
			}
		})
	}
}

func (s storms) rage(t *testing.T, program string, bin server.Binary, k kind) {
	args := []string{k.name}
	var clients []*holdfast.Client
	var servers []*redis.Client
	for range max(k.nodes, 1) {
		node := server.Start(t, bin)
		args = append(args, node.Addr())
		rdb := redis.NewClient(&redis.Options{Addr: node.Addr()})
		t.Cleanup(func() { _ = rdb.Close() })
		c, err := k.client(rdb)
		if err != nil {
			t.Fatal(err)
		}
		backend.CloseWith(t, c)
		servers, clients = append(servers, rdb), append(clients, c)
	}
	if k.nodes > 1 {
		q, err := holdfast.NewQuorum(clients, nil)
		if err == nil {
			err = q.Admit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var survivors, mortals []*member
	for range s.survivors {
		survivors = append(survivors, enlist(t, program, "guest", args...))
	}
	for range s.mortals {
		mortals = append(mortals, enlist(t, program, "guest", args...))
	}
	outlast(t, survivors, guestGoroutines, 0, k.skipped)

	begun := time.Now()
	var doomed sync.WaitGroup // waiting for it must not delay the others
	for killed, at := range moments(s.deaths, s.duration) {
		time.Sleep(time.Until(begun.Add(at)))
		if killed%4 == 1 {
			doomed.Go(mortals[killed].doom)
		} else {
			mortals[killed].kill()
		}
		mortals = append(mortals, enlist(t, program, "guest", args...))
	}
	doomed.Wait()
	last, all := time.Now(), files(append(slices.Clone(survivors), mortals...))
	survivors = append(survivors, mortals[s.deaths:]...)
	outlast(t, survivors, guestGoroutines, history.Now(), k.skipped)
	recovered := time.Since(last)
	dismiss(t, survivors)

	events, err := history.ReadFiles(exist(t, all)...)
	if err != nil {
		t.Fatal(err)
	}
	completed := completions(t, all)
	grants, left := 0, 0
	for _, e := range events {
		if e.Granted != 0 {
			grants++
			if e.Released == 0 {
				left++
			}
		}
	}
	wrong := k.judge(events, completed)
	for i, w := range wrong {
		if i == 5 {
			t.Errorf("and %d more", len(wrong)-i)
			break
		}
		t.Error(w)
	}
	if k.skipped && len(completed) == 0 {
		t.Error("no run was completed")
	}
	t.Logf("%d processes of the %s killed within %s, %d of them while they held it; %d grants, %d violations; within %s after the last death all %d goroutines of survivors have had a turn",
		s.deaths, k.name, last.Sub(begun).Round(time.Millisecond), left, grants, len(wrong), recovered.Round(time.Millisecond), len(survivors)*guestGoroutines)
	for i, rdb := range servers {
		k.cleaned(t, clients[i], rdb)
	}
}

// moments draws the times at which processes die.
func moments(n int, d time.Duration) []time.Duration {
	var all []time.Duration
	for range n {
		all = append(all, rand.N(d))
	}
	slices.Sort(all)
	return all
}

// exist leaves out files that do not exist, of members that died at once.
func exist(t *testing.T, paths []string) (some []string) {
	t.Helper()
	for _, path := range paths {
		_, err := os.Stat(path)
		if err == nil {
			some = append(some, path)
		} else if !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return some
}

// routine is a goroutine of a member.
type routine struct{ process, goroutine int }

// outlast waits until every goroutine of each survivor has had a turn since now or, if turns may be skipped,
// has skipped one.
func outlast(t *testing.T, survivors []*member, goroutines int, since int64, skipped bool) {
	t.Helper()
	served := map[routine]bool{}
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		for _, m := range survivors {
			for _, e := range m.news() {
				if e.Granted > since || skipped && e.GaveUp > since {
					served[routine{e.Process, e.Goroutine}] = true
				}
			}
		}
		if len(served) == len(survivors)*goroutines {
			return
		}
		if took := time.Since(begun); took > 2*time.Minute {
			t.Fatalf("only %d goroutines of %d processes have had a turn within %s\n%s", len(served), len(survivors), took, machine.Report(begun))
		}
	}
}

// completions reads the recorded runs. The last line of a process that was killed may be unfinished.
func completions(t *testing.T, files []string) (all []completion) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file + ".completed")
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				continue
			}
			var c completion
			if err := json.Unmarshal(line, &c); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			all = append(all, c)
		}
	}
	return all
}

// cleaned requires that the locks are free, and that nothing is left of them on a server.
func (k kind) cleaned(t *testing.T, c *holdfast.Client, rdb *redis.Client) {
	t.Helper()
	var left []string
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		left = left[:0]
		for _, l := range k.locks(c) {
			// A waiter that died stays in the queue until somebody is served.
			lease, err := l.TryAcquire(t.Context())
			if err == nil {
				err = lease.Release(t.Context())
			}
			switch {
			case err == nil:
			case errors.Is(err, holdfast.ErrHeld):
				left = append(left, l.Name()+", which is held")
			case errors.Is(err, holdfast.ErrUnavailable):
				left = append(left, err.Error())
			default:
				t.Fatal(err)
			}
		}
		keys, err := rdb.Keys(t.Context(), "*").Result()
		channels, err2 := rdb.PubSubChannels(t.Context(), "*").Result()
		if err := errors.Join(err, err2); err != nil {
			left = append(left, err.Error())
		}
		for _, key := range keys {
			if key != "holdfast:fences" && !slices.ContainsFunc(k.stays, func(part string) bool { return strings.Contains(key, part) }) {
				left = append(left, key)
			}
		}
		left = append(left, channels...)
		if len(left) == 0 {
			return
		}
		if time.Since(begun) > 30*time.Second && !machine.Stalled(begun) || time.Since(begun) > time.Minute {
			t.Fatalf("left: %q\n%s", left, machine.Report(begun))
		}
	}
}
