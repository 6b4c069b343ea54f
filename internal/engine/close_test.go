package engine

import (
	"context"
	"errors"
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
	c, err := New(server, nil)
	if err != nil {
		t.Fatal(err)
	}
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
		_, err := l.Acquire(ctx)
		got <- err
	}()
	<-asked
	if err := c.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-got; !errors.Is(err, exec.ErrClosed) {
		t.Errorf("Acquire: %v", err)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if server.open != 0 {
		t.Errorf("%d subscriptions are left open", server.open)
	}
}

// Close finds a lease that is due at that moment, although the scheduler is calling it and no longer has it queued.
func TestALeaseThatIsDueDuringCloseIsEnded(t *testing.T) {
	c, err := New(&fake{holders: map[string]string{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := c.Mutex("m").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
	case <-lease.Context().Done():
	case <-time.After(time.Minute):
	}
	if err := lease.Err(); !errors.Is(err, exec.ErrClosed) {
		t.Errorf("the lease's Err is %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}

// Callers that retry at once after ErrClosed do not hold up Close, even if they are many and share one processor with it.
func TestCloseWhileOthersTryAgain(t *testing.T) {
	for _, observed := range []bool{false, true} {
		cfg := &lock.Config{}
		if observed {
			cfg.Observer = &lock.Observer{}
		}
		c, err := New(&fake{holders: map[string]string{"holdfast:{m}": "another"}}, cfg)
		if err != nil {
			t.Fatal(err)
		}
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
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := refused.Load(); n > callers*most/2 {
			t.Errorf("Close returned after %d calls that it refused (observed: %v)", n, observed)
		}
		closed.Store(true)
		calling.Wait()
	}
}
