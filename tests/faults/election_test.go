package faults

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

// Fault: A watch begins while the server cannot be reached. It goes on when the server is back.
func TestWatchBegunInAnOutage(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		p := proxy.New(t, b.Server.Addr())
		p.Refuse(true)
		c := backend.Open(t, &holdfast.Config{RetryTimeout: 100 * time.Millisecond}, &redis.Options{Addr: p.Addr()})
		if _, err := backend.HolderOf(t.Context(), c.Mutex("e")); !errors.Is(err, holdfast.ErrUnavailable) {
			t.Fatalf("Holder in an outage: %v", err)
		}
		go func() {
			time.Sleep(time.Second) // for a try that fails
			p.Refuse(false)
		}()
		for s, err := range c.Election("e").Watch(t.Context()) {
			if s.Held() || err != nil {
				t.Errorf("it yields %v, %v", s, err)
			}
			return
		}
		t.Error("it ends")
	})
}

// Fault: A watcher's look is not answered, and the leader crashes meanwhile. The watcher looks again soon, not only
// when it hears something.
func TestWatcherLooksAgainSoonAfterAnOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: part of make nightly")
	}
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		e := b.Client(t, &holdfast.Config{CommandTimeout: 300 * time.Millisecond, RetryTimeout: 300 * time.Millisecond}).Election("e")
		leader := backend.Acquire(t, b.Client(t, nil).Mutex("e", holdfast.NoRenew(), holdfast.TTL(4*time.Second)))
		back := make(chan time.Time, 1)
		for s, err := range e.Watch(t.Context()) {
			switch {
			case err != nil:
				t.Fatal(err)
			case !s.Held():
				select {
				case end := <-back:
					if took := time.Since(end); took > 15*time.Second {
						t.Errorf("it is missed %s after the outage", took)
					}
				default:
					t.Log("on this slow machine it is missed before the outage")
				}
				return
			}
			go func() {
				const outage = 2 * time.Second
				time.Sleep(time.Until(leader.Deadline()) - outage/4) // shortly before the look
				if _, err := b.Server.Do("CLIENT", "PAUSE", fmt.Sprint(outage.Milliseconds()), "ALL"); err != nil {
					t.Error(err)
				}
				back <- time.Now().Add(outage)
			}()
		}
	})
}
