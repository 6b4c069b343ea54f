package dataloss

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

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
				events, err := ld.recorder.Events()
				if err != nil {
					t.Fatal(err)
				}
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
				if evicted == "0" {
					t.Error("nothing was evicted, which shows nothing")
				}
				t.Logf("%s: %s keys evicted, %d grants, %d overlaps, %d late writes refused", policy, evicted, ld.grants.Load(), overlaps, ld.resource.Stale())
				b.Cleaned(t)
			})
		})
	}
}
