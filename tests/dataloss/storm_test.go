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

// storm runs f on every server. f makes clients acquire a lock in turn while their server loses its data that many times, and returns
// their load. In a soak the losses of all servers add up to inSoak; otherwise each server has as many as otherwise says. No leases may
// overlap.
func storm(t *testing.T, what string, inSoak, otherwise int, f func(t *testing.T, bin server.Binary, losses int) *load) {
	soak.Nightly(t)
	t.Parallel()
	binaries, lanes, losses := server.Binaries(t), 1, otherwise
	if soak.Long() { // several lanes on each server, so that together there are as many losses as asked for
		lanes = 3
		losses = (inSoak + lanes*len(binaries) - 1) / (lanes * len(binaries))
	}
	var mu sync.Mutex
	var all, grants, overlaps, stale int
	var longest time.Duration // after the end of a quarantine
	t.Run("lanes", func(t *testing.T) {
		for _, bin := range binaries {
			for lane := range lanes {
				t.Run(fmt.Sprintf("%s/%d", bin.Name, lane+1), func(t *testing.T) {
					t.Parallel()
					ld := f(t, bin, losses)
					found := ld.judge()
					for _, v := range found {
						t.Error(v)
					}
					mu.Lock()
					defer mu.Unlock()
					all, grants, overlaps, stale = all+losses, grants+int(ld.grants.Load()), overlaps+len(found), stale+ld.resource.Stale()
					longest = max(longest, ld.longest)
				})
			}
		}
	})
	// A soak's report quotes this line. How long waiters waited is judged only in a soak.
	t.Logf("strict: %d %s, %d grants, %d overlaps, %d stale writes offered and refused, granted at most %s after the end of a quarantine",
		all, what, grants, overlaps, stale, longest.Round(time.Millisecond))
	if soak.Long() && longest > 100*time.Millisecond {
		t.Errorf("the lock was granted only %s after the end of a quarantine", longest)
	}
}

// Fault: A Strict server comes back empty, or with older data, or is emptied by FLUSHALL. It grants nothing until the
// longest lease has ended, nothing overlaps, and then all is normal.
func TestStrictOverlapsNothingWhenDataIsLost(t *testing.T) {
	storm(t, "wipes", 1000, 3, func(t *testing.T, bin server.Binary, losses int) *load {
		s := server.Start(t, bin, server.Conf("appendonly", "yes"), server.Conf("appendfsync", "always"))
		b := &backend.Backend{Name: bin.Name, Server: s}
		ways := []func(){
			func() { s.Kill(); expect.OK(t, os.RemoveAll(aof(s))); s.Restart() },
			func() { s.Kill(); restoreAOF(t, s); s.Restart() },
			func() { do(t, s, "FLUSHALL") },
		}
		ld := startLoad(t, of(t, b), strict(loadTerm))
		for n := range losses {
			ld.awaitGrant(time.Now())
			copyAOF(t, s)
			ld.awaitGrant(time.Now())
			before := do(t, s, "GET", mark).(string)
			ways[n%len(ways)]()
			ld.awaitEnd(s, before)
		}
		return ld
	})
}

// Fault: A replica that missed locks is promoted, in Strict mode. It grants nothing until the longest lease has
// ended, and nothing overlaps.
//
// Bug: An unsynced replica is promoted, and grants what is held.
func TestStrictOverlapsNothingWhenAReplicaLags(t *testing.T) {
	storm(t, "lagging failovers", 500, 1, func(t *testing.T, bin server.Binary, losses int) *load {
		p := startPair(t, bin)
		cfg := strict(loadTerm)
		cfg.Quarantine = loadTerm // the old master is dead
		ld := startLoad(t, p.client, cfg)
		for range losses {
			ld.awaitGrant(time.Now())
			p.lag()
			ld.awaitGrant(time.Now())
			before := do(t, p.servers[p.master.Load()], "GET", mark).(string)
			p.fail()
			ld.awaitEnd(p.servers[p.master.Load()], before)
			p.servers[1-p.master.Load()].Restart()
			p.follow()
		}
		return ld
	})
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

	quarantines []quarantine  // that have begun
	longest     time.Duration // from the end of one to the next grant

	mu     sync.Mutex
	latest time.Time // latest grant
}

// quarantine is a period in which the server grants nothing, by its own clock.
type quarantine struct{ began, ready time.Time }

// startLoad makes clients acquire the lock again and again, and hold it for up to its longest lease, or until it is lost. One of them
// calls TryAcquire with a short RetryTimeout, so that it gets the lock as soon as the server grants it.
func startLoad(t *testing.T, open func(*holdfast.Config) *holdfast.Client, cfg *holdfast.Config) *load {
	initialise(t, open(cfg))
	ld := &load{t: t, recorder: history.NewRecorder(nil)}
	ld.ctx, ld.stop = context.WithCancel(context.Background())
	hasty := *cfg
	hasty.RetryTimeout = 20 * time.Millisecond
	acquires := []func(context.Context) (*holdfast.Lease, error){open(&hasty).Mutex("m").TryAcquire}
	for range 3 {
		acquires = append(acquires, open(cfg).Mutex("m").Acquire)
	}
	for n, acquire := range acquires {
		ld.running.Go(func() {
			for ld.ctx.Err() == nil {
				ld.turn(n, acquire)
				if n == 0 {
					time.Sleep(time.Millisecond)
				}
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

func (ld *load) turn(n int, acquire func(context.Context) (*holdfast.Lease, error)) {
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
	case <-time.After(rand.N(loadTerm)):
	case <-lease.Done():
	case <-ld.ctx.Done():
	}
	ld.resource.Write(lease.Fence())
	attempt.Released(lease.Deadline())
	_ = lease.Release(context.Background()) // it fails if the lock was lost, which is expected here
}

// awaitGrant waits for a grant after that time, and returns its time.
func (ld *load) awaitGrant(after time.Time) (at time.Time) {
	ld.t.Helper()
	for end := time.Now().Add(time.Minute); !at.After(after); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			ld.t.Fatalf("nobody has got the lock since %s", after)
		}
		ld.mu.Lock()
		at = ld.latest
		ld.mu.Unlock()
	}
	return at
}

// awaitEnd waits until the quarantine that follows a mark is over, and the lock was granted. A promoted replica may have an even older
// mark until somebody asks for the lock: only a mark of its own shows the end.
func (ld *load) awaitEnd(s *server.Server, mark string) {
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
	ld.longest = max(ld.longest, ld.awaitGrant(ready).Sub(ready))
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
