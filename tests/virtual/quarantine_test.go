package virtual

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Fault: The context of a waiter ends while a Strict server that lost its data grants nothing yet. The error says both, and for how
// long the server grants nothing.
func TestAContextEndsInAQuarantine(t *testing.T) {
	strict := holdfast.Config{Strict: true} // a quarantine lasts for a minute
	polls := strict
	polls.PollInterval = 300 * time.Millisecond
	mutex := func(c *holdfast.Client) *holdfast.Lock { return c.Mutex("a") }
	for name, form := range map[string]struct {
		cfg  holdfast.Config
		lock func(*holdfast.Client) *holdfast.Lock
		wrap []func(drivertest.Driver) drivertest.Driver
	}{
		"mutex":     {strict, mutex, nil},
		"reader":    {strict, func(c *holdfast.Client) *holdfast.Lock { return c.RWMutex("a").Reader() }, nil},
		"writer":    {strict, func(c *holdfast.Client) *holdfast.Lock { return c.RWMutex("a").Writer() }, nil},
		"semaphore": {strict, func(c *holdfast.Client) *holdfast.Lock { return c.Semaphore("a", 2).Permits(1) }, nil},
		"owner":     {strict, func(c *holdfast.Client) *holdfast.Lock { return c.OwnerMutex("a", "me") }, nil},
		"several":   {strict, func(c *holdfast.Client) *holdfast.Lock { return c.Multi([]string{"a", "b"}) }, nil},
		"polls":     {polls, mutex, nil},
		"unheard": {strict, mutex, []func(drivertest.Driver) drivertest.Driver{
			func(d drivertest.Driver) drivertest.Driver { return unheard{d, new(atomic.Int64), new(atomic.Int64)} },
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
				c := configured(t, srv, form.cfg, form.wrap...)
				for _, patience := range []time.Duration{time.Second, 12 * time.Second} { // before and after the server is asked again
					first, began := wait(t, form.lock(c)), time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					_, err := form.lock(c).Acquire(ctx)
					cancel()
					if took := time.Since(began); took != patience {
						t.Errorf("it returns after %s, and not %s", took, patience)
					}
					inQuarantine(t, err, context.DeadlineExceeded)
					first.cancel()
					<-first.done
					inQuarantine(t, first.err, context.Canceled)
				}
				release(t, acquire(t, form.lock(c)))
			})
		})
	}
}

// A waiter that is told of the quarantine at once does not have to wait for a look.
func TestAShortWaitInAQuarantine(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := configured(t, srv, holdfast.Config{Strict: true}).Mutex("a").Acquire(ctx)
		inQuarantine(t, err, context.DeadlineExceeded)
	})
}

// A waiter that has to poll is told of a quarantine that began while it waited.
func TestAQuarantineBeginsWhileAWaiterPolls(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		strict := holdfast.Config{Strict: true}
		other := configured(t, srv, strict)
		if err := other.ForceAdmit(t.Context()); err != nil {
			t.Fatal(err)
		}
		held := acquire(t, other.Mutex("a"))
		waits := wait(t, configured(t, srv, strict, func(d drivertest.Driver) drivertest.Driver {
			return unheard{d, new(atomic.Int64), new(atomic.Int64)}
		}).Mutex("a"))
		srv.Restart(false)
		<-held.Done()
		time.Sleep(10 * time.Second)
		waits.cancel()
		<-waits.done
		inQuarantine(t, waits.err, context.Canceled)
	})
}

func inQuarantine(t *testing.T, err, ended error) {
	t.Helper()
	var server *holdfast.ServerError
	if !errors.Is(err, ended) || !errors.Is(err, holdfast.ErrQuarantine) || !errors.Is(err, holdfast.ErrUnavailable) || !errors.As(err, &server) {
		t.Fatalf("Acquire: %v", err)
	}
	if left := server.RetryAfter; left < 30*time.Second || left > time.Minute {
		t.Errorf("the server grants nothing for %s: %v", left, err)
	}
	if text := err.Error(); !strings.HasPrefix(text, "holdfast: acquire ") || !strings.Contains(text, ended.Error()+"; server is in quarantine: it may have lost locks, and grants none for another ") {
		t.Errorf("the error says %s", text)
	}
}

// Waiters for a lock that is held are not told of a quarantine that an operator has ended.
func TestAContextEndsAfterAQuarantine(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		strict := holdfast.Config{Strict: true}
		one, other := configured(t, srv, strict), configured(t, srv, strict)
		first, second := wait(t, one.Mutex("a")), wait(t, one.Mutex("a"))
		if err := other.ForceAdmit(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-first.done
		second.cancel() // at once
		<-second.done
		if first.err != nil || second.err != context.Canceled {
			t.Fatal(first.err, second.err)
		}
		for _, c := range []*holdfast.Client{one, other} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := c.Mutex("a").Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("Acquire: %v", err)
			}
		}
		release(t, first.lease)
	})
}

// Strict clients that hand a lock to each other do not ask at each turn whether the server is in quarantine.
func TestAQuarantineIsNotAskedForAtEachTurn(t *testing.T) {
	acquires := func(cfg holdfast.Config) int64 {
		var n atomic.Int64
		bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
			count := func(d drivertest.Driver) drivertest.Driver { return acquiring{d, &n} }
			one, other := configured(t, srv, cfg, count), configured(t, srv, cfg, count)
			if cfg.Strict {
				if err := one.ForceAdmit(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			held := acquire(t, one.Mutex("a"))
			for turn := range 20 {
				next := make(chan *holdfast.Lease)
				go func() { next <- acquire(t, []*holdfast.Client{other, one}[turn%2].Mutex("a")) }()
				time.Sleep(100 * time.Millisecond)
				release(t, held)
				held = <-next
			}
			release(t, held)
		})
		return n.Load()
	}
	// The turns take two seconds. Each client asks when it begins to wait, and not more than once a second after that.
	if plain, strict := acquires(holdfast.Config{}), acquires(holdfast.Config{Strict: true}); strict > plain+6 {
		t.Errorf("20 turns take %d acquires in Strict mode, and %d otherwise", strict, plain)
	}
}

// acquiring counts scripts that acquire a lock.
type acquiring struct {
	drivertest.Driver
	n *atomic.Int64
}

func (d acquiring) Run(ctx context.Context, call driver.Call) (string, error) {
	if call.Script.SHA1 == script.Acquire().SHA1 {
		d.n.Add(1)
	}
	return d.Driver.Run(ctx, call)
}
