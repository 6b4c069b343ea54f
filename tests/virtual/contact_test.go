package virtual

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// absent is the driver of a server whose port is closed, or that swallows packets.
type absent struct {
	drivertest.Driver
	swallows bool
	probes   atomic.Int64
}

func (d *absent) wrap(inner drivertest.Driver) drivertest.Driver {
	d.Driver = inner
	return d
}

func (d *absent) Probe(ctx context.Context) (driver.ServerInfo, error) {
	d.probes.Add(1)
	if d.swallows {
		<-ctx.Done()
		return driver.ServerInfo{}, ctx.Err()
	}
	return driver.ServerInfo{}, fmt.Errorf("%w: connection refused", driver.ErrNotSent)
}

// Fault: A server that many callers need for the first time cannot be reached. They share one attempt, and no error
// names another caller's lock.
func TestFirstContactIsShared(t *testing.T) {
	for what, swallows := range map[string]bool{"refused": false, "swallowed": true} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
				d := &absent{swallows: swallows}
				c := client(t, srv, d.wrap)
				const callers = 20
				errs := make(chan error, callers)
				began := time.Now()
				for i := range callers {
					go func() {
						name := fmt.Sprint("lock", i)
						_, err := c.Mutex(name).TryAcquire(t.Context())
						var se *holdfast.ServerError
						if !errors.As(err, &se) || se.Name != name || !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
							err = fmt.Errorf("TryAcquire of %s: %w", name, err)
						} else {
							err = nil
						}
						errs <- err
					}()
				}
				for range callers {
					if err := <-errs; err != nil {
						t.Error(err)
					}
				}
				// RetryTimeout, and a command's timeout that begins at its end.
				if d := time.Since(began); d > 5*time.Second+100*time.Millisecond {
					t.Errorf("%d callers are told after %s", callers, d)
				}
				if n := d.probes.Load(); n > callers {
					t.Errorf("%d probes", n)
				}
			})
		})
	}
}

// Fault: The client is closed while a server is first contacted. Close does not wait for it.
func TestCloseEndsTheFirstContact(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		d := &absent{swallows: true}
		c := client(t, srv, d.wrap)
		over := make(chan error)
		go func() {
			_, err := c.Mutex("m").Acquire(t.Context())
			over <- err
		}()
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		go func() { _ = c.Close(t.Context()) }()
		if err := <-over; !errors.Is(err, holdfast.ErrClosed) || time.Since(began) > 0 {
			t.Errorf("Acquire, %s after Close: %v", time.Since(began), err)
		}
		if err := c.Close(t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("Close takes %s: %v", time.Since(began), err)
		}
	})
}

// Fault: Nothing listens at the server's address, from the beginning or later, and go-redis retries dials for longer than a caller may wait.
// A caller that does not wait for its lock is told at once that the connection was refused; any other is told after RetryTimeout.
func TestCallersThatDoNotWaitForAServerThatRefuses(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprint("known ", known), func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
				w := &tap{srv: srv}
				c := w.client(t, holdfast.Config{RetryTimeout: 3 * time.Second})
				defer time.Sleep(2 * time.Second) // by then go-redis has noticed that its clients are closed
				if known {
					release(t, acquire(t, c.Mutex("m")))
				}
				w.refuse()
				told := func(within time.Duration, acquire func(context.Context) (*holdfast.Lease, error)) {
					t.Helper()
					began := time.Now()
					_, err := acquire(t.Context())
					if took := time.Since(began); !errors.Is(err, holdfast.ErrUnavailable) || !strings.Contains(err.Error(), "connection refused") || took > within {
						t.Errorf("after %s: %v", took, err)
					}
				}
				for range 3 {
					told(10*time.Millisecond, c.Mutex("m").TryAcquire)
					told(10*time.Millisecond, c.Mutex("m", holdfast.Wait(0)).Acquire)
					told(10*time.Millisecond, c.RWMutex("rw").Reader().TryAcquire)
					told(10*time.Millisecond, c.Multi([]string{"a", "b"}).TryAcquire)
				}
				began := time.Now()
				told(4*time.Second, c.Mutex("m").Acquire)
				if took := time.Since(began); took < time.Second {
					t.Errorf("a caller that waits has tried for %s", took)
				}
			})
		})
	}
}
