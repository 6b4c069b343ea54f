package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// subscribers is a fake that counts subscriptions.
type subscribers struct {
	*fake
	before func(s driver.Script) // runs before a script does

	mu   sync.Mutex
	open int
}

func (s *subscribers) Run(ctx context.Context, call driver.Call) (string, error) {
	s.before(call.Script)
	return s.fake.Run(ctx, call)
}

func (s *subscribers) Subscribe(to driver.Subscription) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	go to.Up()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
	}
}

// A goroutine that asks just when the client closes may have to wait only after that. It must not
// open a subscription then: nobody would close it, and the driver's Close would wait for it for
// ever.
func TestNoSubscriptionIsOpenedAfterClose(t *testing.T) {
	server := &subscribers{fake: &fake{holders: map[string]string{}}}
	c := open(t, server, nil)
	l := c.Mutex("m")
	server.holders[l.Keys.Lock] = "somebody"
	asked := make(chan struct{}, 8)
	server.before = func(s driver.Script) {
		if s.Name == "acquire" {
			asked <- struct{}{}
			<-c.Closing
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := make(chan error, 1)
	go func() {
		_, err := l.AcquireBy(ctx, time.Time{})
		got <- err
	}()
	<-asked
	wantErr(t, "Close", c.Close(ctx), nil)
	wantErr(t, "Acquire:", <-got, exec.ErrClosed)
	server.mu.Lock()
	defer server.mu.Unlock()
	equal(t, "subscriptions that are left open", server.open, 0)
}

// Close finds a lease that is due at that moment, although the scheduler is calling it and no longer has it queued.
func TestALeaseThatIsDueDuringCloseIsEnded(t *testing.T) {
	c := open(t, &fake{holders: map[string]string{}}, nil)
	lease := take(t, c.Mutex("m"))
	h := lease.(*holdLease).g
	h.mu.Lock()
	c.schedule.Set(&h.entry, clock.Mono(), h)
	time.Sleep(10 * time.Millisecond) // until it is being called
	closed := make(chan error, 1)
	go func() { closed <- c.Close(t.Context()) }()
	<-c.Closing
	time.Sleep(10 * time.Millisecond) // until Close has looked
	h.mu.Unlock()
	select {
	case <-lease.Done():
	case <-time.After(time.Minute):
	}
	wantErr(t, "the lease's Err is", lease.Err(), exec.ErrClosed)
	wantErr(t, "Release", lease.Release(t.Context()), nil)
	wantErr(t, "Close", <-closed, nil)
}

// Callers that retry at once after ErrClosed do not hold up Close, even if they are many and share one processor with it.
func TestCloseWhileOthersTryAgain(t *testing.T) {
	for _, observed := range []bool{false, true} {
		cfg := &lock.Config{}
		if observed {
			cfg.Observer = &lock.Observer{}
		}
		c := open(t, &fake{holders: map[string]string{"holdfast:{m}": "another"}}, cfg)
		const callers, most = 64, 200_000 // so that the test ends even if Close hangs
		var refused atomic.Int64
		var closed atomic.Bool
		var begun, calling sync.WaitGroup
		begun.Add(callers)
		for range callers {
			calling.Go(func() {
				for n := 0; n < most && !closed.Load(); {
					if _, err := c.Mutex("m").TryAcquire(context.Background()); err == exec.ErrClosed {
						refused.Add(1)
						n++
					} else if n == 0 {
						n++
						begun.Done()
					}
				}
			})
		}
		begun.Wait()
		wantErr(t, "Close", c.Close(t.Context()), nil)
		if n := refused.Load(); n > callers*most/2 {
			t.Errorf("Close returned after %d calls that it refused (observed: %v)", n, observed)
		}
		closed.Store(true)
		calling.Wait()
	}
}
