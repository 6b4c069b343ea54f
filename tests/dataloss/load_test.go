package dataloss

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

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
	long(t)
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
