package virtual

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// The bounds of several locks apply once all are held. What happened while the caller waited for the last one does not count,
// even if a renewal is still under way at that moment.
func TestBoundsOfSeveralLocksCountFromWhenAllAreHeld(t *testing.T) {
	const ttl = 12 * time.Second
	for name, test := range map[string]struct {
		bound    holdfast.MultiOption
		lasts    time.Duration // at least; at most a tenth more
		renewals int           // of each lock, after all are held
		reason   holdfast.LossReason
	}{
		"NoRenew":        {holdfast.NoRenew(), ttl * 95 / 100, 0, holdfast.LossExpired},
		"MaxRenewals(1)": {holdfast.MaxRenewals(1), ttl, 1, holdfast.LossBound},
		"MaxRenewals(3)": {holdfast.MaxRenewals(3), ttl * 5 / 3, 3, holdfast.LossBound},
		"MaxHold short":  {holdfast.MaxHold(ttl / 2), ttl * 49 / 100, -1, holdfast.LossBound},
		"MaxHold long":   {holdfast.MaxHold(3 * ttl), ttl * 29 / 10, -1, holdfast.LossBound},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, srv *holdfasttest.Server, cfg holdfast.Config) {
				begun := make(chan string) // receives the key of a renewal, if somebody listens
				var mu sync.Mutex
				sent := map[string][]time.Time{} // when renewals of a key were sent
				c := configured(t, srv, cfg, meddle(func(r request) (string, error) {
					if !r.does("renew") {
						return r.send()
					}
					reply, err := r.send()
					mu.Lock()
					for _, key := range r.Keys {
						sent[key] = append(sent[key], time.Now())
						select {
						case begun <- key:
						default:
						}
					}
					mu.Unlock()
					time.Sleep(200 * time.Millisecond)
					return reply, err
				}))
				since := func(key string, from time.Time) int {
					mu.Lock()
					defer mu.Unlock()
					return len(slices.DeleteFunc(slices.Clone(sent[key]), func(at time.Time) bool { return at.Before(from) }))
				}
				other := client(t, srv)
				l := c.Multi([]string{"a", "b"}, holdfast.TTL(ttl), test.bound)
				check := func(how string, lease *holdfast.Lease, from time.Time) {
					t.Helper()
					held := time.Now()
					<-lease.Done()
					lasted := time.Since(held)
					var lost *holdfast.LostError
					if !errors.As(lease.Err(), &lost) || lost.Reason != test.reason {
						t.Errorf("%s: the lease ended with %v; want %q", how, lease.Err(), test.reason)
					}
					if most := max(test.lasts*11/10, test.lasts+ttl/3*2); lasted < test.lasts || lasted > most {
						t.Errorf("%s: the lease lasted %s; want %s to %s", how, lasted, test.lasts, most)
					}
					for _, key := range []string{"holdfast:{a}", "holdfast:{b}"} {
						// A lock that was handed over is confirmed by one more.
						if n := since(key, from); test.renewals >= 0 && (n < test.renewals || n > test.renewals+1) {
							t.Errorf("%s: %s was renewed %d times; want %d", how, key, n, test.renewals)
						}
					}
					if n := since("holdfast:{a}", from); test.renewals >= 0 && n != test.renewals && test.reason == holdfast.LossBound {
						t.Errorf("%s: the first lock was renewed %d times; want %d", how, n, test.renewals)
					}
					_ = lease.Release(context.Background())
					time.Sleep(ttl)
				}
				from := time.Now()
				check("at once", acquire(t, l), from)

				blocking := acquire(t, other.Mutex("b"))
				w := wait(t, l)
				for range 5 { // the fifth renewal of a is under way
					for <-begun != "holdfast:{a}" {
					}
				}
				if test.renewals == 0 {
					time.Sleep(ttl / 4) // part of the TTL of a is over
				}
				time.Sleep(time.Millisecond)
				release(t, blocking)
				w.granted(t)
				check("after a wait", w.lease, w.at.Add(-time.Microsecond))
			})
		})
	}
}
