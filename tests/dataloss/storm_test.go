package dataloss

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// loadTerm is the longest lease in tests in which servers lose data again and again, and so the quarantine. Clients that could not reach
// the server for a while reach it again within that time.
const loadTerm = 3 * time.Second

// How often the server loses its data: over all servers in a soak, and for each of them otherwise.
const (
	wipesInSoak, wipes         = 1000, 3
	failoversInSoak, failovers = 500, 1
)

// verdict adds up the results of one test on all servers.
type verdict struct {
	mu       sync.Mutex
	losses   int
	grants   int64
	overlaps int
	stale    int
	longest  time.Duration // after the end of a quarantine
}

func (v *verdict) add(ld *load, losses, overlaps int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.losses += losses
	v.grants += ld.grants.Load()
	v.overlaps += overlaps
	v.stale += ld.resource.Stale()
}

func (v *verdict) waited(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.longest = max(v.longest, d)
}

// eachLane runs f on every server. In a soak each has several lanes, so that together there are as many losses
// as asked for.
func eachLane(t *testing.T, inSoak, otherwise int, f func(t *testing.T, bin server.Binary, losses int)) {
	binaries, lanes, losses := server.Binaries(t), 1, otherwise
	if soak.Long() {
		lanes = 3
		losses = (inSoak + lanes*len(binaries) - 1) / (lanes * len(binaries))
	}
	for _, bin := range binaries {
		for lane := range lanes {
			t.Run(fmt.Sprintf("%s/%d", bin.Name, lane+1), func(t *testing.T) {
				t.Parallel()
				f(t, bin, losses)
			})
		}
	}
}

// Fault: A Strict server comes back empty, or with older data, or is emptied by FLUSHALL. It grants nothing until the
// longest lease has ended, nothing overlaps, and then all is normal.
func TestStrictOverlapsNothingWhenDataIsLost(t *testing.T) {
	soak.Nightly(t)
	t.Parallel()
	var all verdict
	t.Run("lanes", func(t *testing.T) {
		eachLane(t, wipesInSoak, wipes, func(t *testing.T, bin server.Binary, losses int) {
			s := server.Start(t, bin, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"))
			b := &backend.Backend{Name: bin.Name, Server: s}
			ways := []func(){
				func() { s.Kill(); removeAOF(t, s); s.Restart() },
				func() { s.Kill(); restoreAOF(t, s); s.Restart() },
				func() { do(t, s, "FLUSHALL") },
			}
			initialise(t, b.Client(t, strict(loadTerm)))
			ld := startLoad(t, []*holdfast.Client{b.Client(t, strict(loadTerm)), b.Client(t, strict(loadTerm)), b.Client(t, strict(loadTerm))}, loadTerm)
			ld.try(b.Client(t, trier(*strict(loadTerm))), loadTerm)
			for n := range losses {
				ld.awaitGrant(time.Now())
				copyAOF(t, s)
				ld.awaitGrant(time.Now())
				before := do(t, s, "GET", mark).(string)
				ways[n%len(ways)]()
				all.waited(ld.awaitEnd(s, before))
			}
			overlaps := ld.judge()
			for _, v := range overlaps {
				t.Error(v)
			}
			all.add(ld, losses, len(overlaps))
		})
	})
	all.report(t, "wipes")
}

// awaitEnd waits until the quarantine that follows a mark is over, and the lock was granted. It returns how
// long that took. A promoted replica may have an even older mark until somebody asks for the lock: only a mark
// of its own shows the end.
func (ld *load) awaitEnd(s *server.Server, mark string) time.Duration {
	ld.t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer rdb.Close()
	own := "hf2:" + s.Info("server")["run_id"] + "/" + s.Info("replication")["master_replid"] + ":"
	var ready time.Time
	backend.Eventually(ld.t, "a quarantine begins", func() bool {
		text, err := rdb.Get(context.Background(), "holdfast:incarnation").Result()
		if err != nil || text == mark || !strings.HasPrefix(text, own) {
			return false
		}
		us, err := strconv.ParseInt(strings.Split(text, ":")[2], 10, 64)
		ready = time.UnixMicro(us)
		return err == nil && ready.After(time.UnixMicro(0))
	})
	ld.quarantines = append(ld.quarantines, quarantine{ready.Add(-loadTerm), ready})
	return ld.awaitGrant(ready).Sub(ready)
}

// report logs the result in a line that a soak's report quotes. How long waiters waited is judged only in a
// soak.
func (v *verdict) report(t *testing.T, what string) {
	t.Helper()
	t.Logf("strict: %d %s, %d grants, %d overlaps, %d stale writes offered and refused, granted at most %s after the end of a quarantine",
		v.losses, what, v.grants, v.overlaps, v.stale, v.longest.Round(time.Millisecond))
	if soak.Long() && v.longest > 100*time.Millisecond {
		t.Errorf("the lock was granted only %s after the end of a quarantine", v.longest)
	}
}

// Fault: A replica that missed locks is promoted, in Strict mode. It grants nothing until the longest lease has
// ended, and nothing overlaps.
//
// Bug: An unsynced replica is promoted, and grants what is held.
func TestStrictOverlapsNothingWhenAReplicaLags(t *testing.T) {
	soak.Nightly(t)
	t.Parallel()
	var all verdict
	t.Run("lanes", func(t *testing.T) {
		eachLane(t, failoversInSoak, failovers, func(t *testing.T, bin server.Binary, losses int) {
			p := startPair(t, bin)
			cfg := strict(loadTerm)
			cfg.Quarantine = loadTerm // the old master is dead
			initialise(t, p.client(cfg))
			ld := startLoad(t, []*holdfast.Client{p.client(cfg), p.client(cfg), p.client(cfg)}, loadTerm)
			ld.try(p.client(trier(*cfg)), loadTerm)
			for range losses {
				ld.awaitGrant(time.Now())
				p.lag()
				ld.awaitGrant(time.Now())
				before := do(t, p.servers[p.master.Load()], "GET", mark).(string)
				p.fail()
				all.waited(ld.awaitEnd(p.servers[p.master.Load()], before))
				p.servers[1-p.master.Load()].Restart()
				p.follow()
			}
			overlaps := ld.judge()
			for _, v := range overlaps {
				t.Error(v)
			}
			all.add(ld, losses, len(overlaps))
		})
	})
	all.report(t, "lagging failovers")
}

func removeAOF(t *testing.T, s *server.Server) {
	t.Helper()
	expect.OK(t, os.RemoveAll(aof(s)))
}

// load is clients that acquire the same lock in turn, and their history.
type load struct {
	t        *testing.T
	recorder *history.Recorder
	ctx      context.Context // until the end of the load
	stop     context.CancelFunc
	running  sync.WaitGroup
	grants   atomic.Int64
	resource backend.Resource

	quarantines []quarantine // that have begun

	mu     sync.Mutex
	latest time.Time // latest grant
}

// quarantine is a period in which the server grants nothing, by its own clock.
type quarantine struct{ began, ready time.Time }

// trier returns the configuration of a client that acquires the lock as soon as the server grants it: it tries
// again and again, and does not wait for servers.
func trier(cfg holdfast.Config) *holdfast.Config {
	cfg.RetryTimeout = 20 * time.Millisecond
	return &cfg
}

// try acquires the lock whenever it is free.
func (ld *load) try(c *holdfast.Client, hold time.Duration, opts ...holdfast.MutexOption) {
	ld.running.Go(func() {
		for ld.ctx.Err() == nil {
			ld.turn(-1, c.Mutex("m", opts...).TryAcquire, hold)
			time.Sleep(time.Millisecond)
		}
	})
}

// startLoad makes each client acquire the lock again and again, and hold it for up to hold, or until it is
// lost.
func startLoad(t *testing.T, clients []*holdfast.Client, hold time.Duration, opts ...holdfast.MutexOption) *load {
	ld := &load{t: t, recorder: history.NewRecorder(nil)}
	ld.ctx, ld.stop = context.WithCancel(context.Background())
	for n, c := range clients {
		ld.running.Go(func() {
			for ld.ctx.Err() == nil {
				ld.turn(n, c.Mutex("m", opts...).Acquire, hold)
			}
		})
	}
	t.Cleanup(ld.end)
	return ld
}

func (ld *load) end() {
	ld.stop()
	ld.running.Wait()
}

func (ld *load) turn(n int, acquire func(context.Context) (*holdfast.Lease, error), hold time.Duration) {
	attempt := ld.recorder.Ask(n, "m")
	lease, err := acquire(ld.ctx)
	if err != nil {
		attempt.GaveUp()
		if ld.ctx.Err() == nil && !errors.Is(err, holdfast.ErrHeld) {
			time.Sleep(5 * time.Millisecond) // the server refuses everything at the moment
		}
		return
	}
	attempt.Granted(lease.Fence(), lease.Deadline())
	ld.mu.Lock()
	ld.latest = time.Now()
	ld.mu.Unlock()
	ld.grants.Add(1)
	ld.resource.Write(lease.Fence())
	select {
	case <-time.After(rand.N(hold)):
	case <-lease.Done():
	case <-ld.ctx.Done():
	}
	ld.resource.Write(lease.Fence())
	attempt.Released(lease.Deadline())
	_ = lease.Release(context.Background()) // it fails if the lock was lost, which is expected here
}

// latestGrant returns when the latest grant was reported.
func (ld *load) latestGrant() time.Time {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	return ld.latest
}

// awaitGrant waits for a grant after that time, and returns its time.
func (ld *load) awaitGrant(after time.Time) time.Time {
	ld.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if at := ld.latestGrant(); at.After(after) {
			return at
		}
		if time.Now().After(end) {
			ld.t.Fatalf("nobody has got the lock since %s", after)
		}
	}
}

// judge ends the load and returns the overlaps. It fails the test if fences do not rise, or if there was a
// grant within a quarantine: a fence is the server's time of the grant, in µs.
func (ld *load) judge() (overlaps []history.Violation) {
	ld.t.Helper()
	ld.end()
	events := expect.Of(ld.recorder.Events()).OK(ld.t)
	for _, v := range history.Check(events) {
		if v.Rule == history.Exclusion {
			overlaps = append(overlaps, v)
		} else {
			ld.t.Error(v)
		}
	}
	for _, e := range events {
		at := time.UnixMicro(int64(e.Fence)).Add(time.Millisecond) // it was not later
		for _, q := range ld.quarantines {
			if e.Granted != 0 && at.After(q.began) && at.Before(q.ready) {
				ld.t.Errorf("fence %d was granted at %s, within the quarantine from %s to %s", e.Fence, at, q.began, q.ready)
			}
		}
	}
	return overlaps
}

// Fault: A server that is short of memory evicts a lock, its queue and, if the policy allows, the fence counter,
// again and again under load. Holders may overlap, which are counted; fences rise, every waiter is served, and
// nothing is left.
func TestEvictionUnderLoad(t *testing.T) {
	soak.Nightly(t)
	t.Parallel()
	for _, policy := range []string{"volatile-random", "allkeys-lru"} {
		t.Run(policy, func(t *testing.T) {
			backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
				do(t, b.Server, "CONFIG", "SET", "maxmemory-policy", policy)
				var clients []*holdfast.Client
				for range 4 {
					clients = append(clients, b.Client(t, nil))
				}
				ld := startLoad(t, clients, 20*time.Millisecond, holdfast.TTL(term))
				ld.try(b.Client(t, trier(holdfast.Config{})), 20*time.Millisecond, holdfast.TTL(term))
				const evictions = 20
				for range evictions {
					ld.awaitGrant(time.Now())
					time.Sleep(rand.N(50 * time.Millisecond))
					do(t, b.Server, "CONFIG", "SET", "maxmemory", "1")
					time.Sleep(rand.N(5 * time.Millisecond))
					do(t, b.Server, "CONFIG", "SET", "maxmemory", "0")
				}
				ld.awaitGrant(time.Now())
				overlaps := 0
				ld.end()
				events := expect.Of(ld.recorder.Events()).OK(t)
				for _, v := range history.Check(events) {
					// If two clients were granted the lock at about the same time, the first may have been told
					// last.
					crossed := v.Rule == history.Fencing && v.Second.Fence != v.First.Fence && v.Second.Asked < v.First.Granted
					if v.Rule != history.Exclusion && !crossed {
						t.Error(v)
						continue
					}
					overlaps++
				}
				evicted := b.Server.Info("stats")["evicted_keys"]
				expect.Equal(t, "nothing was evicted", evicted == "0", false)
				t.Logf("%s: %s keys evicted, %d grants, %d overlaps, %d late writes refused", policy, evicted, ld.grants.Load(), overlaps, ld.resource.Stale())
				b.Cleaned(t)
			})
		})
	}
}
