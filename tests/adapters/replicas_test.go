package adapters

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Requests that wait for missing replicas leave connections to renewals and releases, even to those that wait for replicas themselves.
func TestWhoWaitsForReplicasLeavesConnections(t *testing.T) {
	each(t, func(t *testing.T, a adapter) {
		// A request that waits is given up after the client's own timeout of some seconds. If a machine takes
		// that long until all of them wait, the attempt shows nothing. If they hold up the others, they do so each time.
		for range 20 {
			if seen := urgentAmongWaiting(t, a); seen || t.Failed() {
				return
			}
		}
		t.Error("those who wait were given up before anything urgent was answered, each time")
	})
}

func urgentAmongWaiting(t *testing.T, a adapter) (seen bool) {
	s := server.Start(t, server.One(t))
	d := a.single(t, 3, to(s.Addr()))
	defer func() {
		if err := d.Close(); err != nil { // ends the waiting
			t.Error(err)
		}
		s.Stop()
	}()
	set := driver.NewScript("test", "redis.call('SET', KEYS[1], 'x') return 'set'")
	const waits = 200
	returned := make(chan struct{}, waits)
	for i := range waits {
		go func() {
			_, _, _ = d.RunDurably(t.Context(), driver.Call{Script: set, Keys: []string{fmt.Sprint("k", i)}}, driver.Durability{Replicas: 1, Timeout: time.Hour})
			returned <- struct{}{}
		}()
	}
	// As many wait as can.
	blocked, since := "", time.Now()
	backend.Eventually(t, "they wait for replicas", func() bool {
		if n := s.Info("clients")["blocked_clients"]; n != blocked {
			blocked, since = n, time.Now()
		}
		return len(returned) > 0 || blocked != "0" && time.Since(since) > 200*time.Millisecond
	})
	t.Logf("%s wait", blocked)
	urgent := make(chan error, 2)
	go func() {
		_, err := d.Run(t.Context(), driver.Call{Script: set, Keys: []string{"a"}, Urgent: true})
		urgent <- err
	}()
	go func() {
		_, _, err := d.RunDurably(t.Context(), driver.Call{Script: set, Keys: []string{"b"}, Urgent: true}, driver.Durability{Replicas: 1, Timeout: time.Millisecond})
		urgent <- err
	}()
	for range cap(urgent) {
		select {
		case err := <-urgent:
			expect.Err(t, "urgent", err, nil)
		case <-returned:
			return false
		}
	}
	return true
}

// A caller is told at once that another has the lock, whatever replicas are missing.
func TestAHeldLockKeepsNobodyWaitingForReplicas(t *testing.T) {
	each(t, func(t *testing.T, a adapter) {
		s := server.Start(t, server.One(t))
		c := client(t, a.single(t, 3, to(s.Addr())))
		lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(time.Minute)))
		expect.Err(t, "TryAcquire", expect.ErrOf(c.Mutex("a", holdfast.Durability{Replicas: 1, Timeout: time.Second}).TryAcquire(t.Context())), holdfast.ErrHeld)
		expect.Equal(t, "WAITs for a lock that another has", s.CommandStats()["wait"], 0)
		backend.Release(t, lease)
	})
}
