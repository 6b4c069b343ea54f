package virtual

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// A lease that is downgraded and upgraded again keeps its owner, and the rest of its bounds.
func TestBoundsOutliveDowngradeAndUpgrade(t *testing.T) {
	const ttl = 6 * time.Second
	for name, on := range map[string]func(rw *holdfast.RWMutex, opts ...holdfast.RWMutexOption) *holdfast.Lock{
		"the writer": (*holdfast.RWMutex).Writer,
		"the reader": (*holdfast.RWMutex).Reader,
	} {
		for bound, opt := range map[string]holdfast.Option{
			"MaxRenewals": holdfast.MaxRenewals(2), // at 2 s and 4 s
			"MaxHold":     holdfast.MaxHold(10 * time.Second),
		} {
			t.Run(bound+" of "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
					var sent atomic.Int64
					c := client(t, srv, counted("share_renew", &sent))
					rw := c.RWMutex("a", holdfast.TTL(ttl))
					began := time.Now()
					lease, err := on(rw, opt, holdfast.Owner("me")).Acquire(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					weighs := []func(context.Context, *holdfast.Lease) (*holdfast.Lease, error){rw.TryUpgrade, rw.Downgrade}
					reads := name == "the reader"
					for lease.Err() == nil {
						weigh := weighs[1]
						if reads {
							weigh = weighs[0]
						}
						next, err := weigh(t.Context(), lease)
						if err != nil {
							t.Fatal(err)
						}
						if next.Owner() != "me" {
							t.Fatalf("the lease was %q's, and is %q's", "me", next.Owner())
						}
						lease, reads = next, !reads
						select {
						case <-time.After(1500 * time.Millisecond):
						case <-lease.Done():
						}
						if time.Since(began) > time.Minute {
							t.Fatalf("the lease goes on after %s and %d renewals", time.Since(began), sent.Load())
						}
					}
					var lost *holdfast.LostError
					if !errors.As(lease.Err(), &lost) || lost.Reason != holdfast.LossBound {
						t.Errorf("the lease ended with %v; want LossBound", lease.Err())
					}
					if bound == "MaxRenewals" && sent.Load() != 2 {
						t.Errorf("%d renewals; want 2", sent.Load())
					}
					if held := time.Since(began); bound == "MaxHold" && held > 10*time.Second {
						t.Errorf("it was held for %s", held)
					}
				})
			})
		}
	}
}

// If the answer that a lease was downgraded, or upgraded, comes too late, the lease is lost.
func TestALeaseThatEndsWhileItIsWeighed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var late atomic.Bool
		late.Store(true)
		c := client(t, srv, belated("share_weigh", 1500*time.Millisecond, &late))
		rw := c.RWMutex("a", holdfast.TTL(time.Second))
		for what, weigh := range map[*holdfast.Lock]func(context.Context, *holdfast.Lease) (*holdfast.Lease, error){
			rw.Writer(): rw.Downgrade, rw.Reader(): rw.TryUpgrade,
		} {
			var lost *holdfast.LostError
			if lease, err := weigh(t.Context(), acquire(t, what)); !errors.As(err, &lost) {
				t.Errorf("%v, %v; want that it was lost", lease, err)
			}
		}
	})
}

// A lease goes on if its change of mode was not sent: because the context had ended, or the driver could not send.
func TestAChangeOfModeThatWasNotSent(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		var cut atomic.Bool
		c := client(t, srv, meddle(func(r request) (string, error) {
			if r.Script.Name == "share_weigh" && cut.Load() {
				return "", driver.ErrNotSent
			}
			return r.send()
		}))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		rw := c.RWMutex("a")
		writer := acquire(t, rw.Writer())
		if _, err := rw.Downgrade(ended, writer); err != context.Canceled || writer.Err() != nil {
			t.Errorf("Downgrade with an ended context: %v; then Err is %v", err, writer.Err())
		}
		release(t, writer)
		reader := acquire(t, rw.Reader())
		if _, err := rw.TryUpgrade(ended, reader); err != context.Canceled || reader.Err() != nil {
			t.Errorf("TryUpgrade with an ended context: %v; then Err is %v", err, reader.Err())
		}
		cut.Store(true)
		if _, err := rw.TryUpgrade(t.Context(), reader); !errors.Is(err, holdfast.ErrUnavailable) || reader.Err() != nil {
			t.Errorf("TryUpgrade that is not sent: %v; then Err is %v", err, reader.Err())
		}
		cut.Store(false)
		time.Sleep(time.Minute) // the lease is renewed meanwhile
		next, err := rw.TryUpgrade(t.Context(), reader)
		if err != nil {
			t.Fatal(err)
		}
		release(t, next)
	})
}
