package dataloss

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
	"github.com/redis/go-redis/v9"
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
