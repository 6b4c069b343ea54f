package behaviour

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

func TestOneHolderAtATime(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		here, there := b.Client(t, nil).Mutex("m"), b.Client(t, nil).Mutex("m")
		lease := backend.Acquire(t, here)
		if err := lease.Err(); err != nil {
			t.Fatalf("Err of a fresh lease: %v", err)
		}
		for _, l := range []*holdfast.Lock{here, there} {
			if _, err := l.TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("TryAcquire of a held lock: %v", err)
			}
		}
		var he *holdfast.HeldError
		_, err := there.TryAcquire(t.Context())
		if !errors.As(err, &he) || he.Holder.PID != os.Getpid() || !backend.IsShown(he.Holder.Fence, lease.Fence()) {
			t.Errorf("the error does not say who holds it: %#v", err)
		}
		backend.Release(t, lease)
		lease, err = there.TryAcquire(t.Context())
		if err != nil {
			t.Fatalf("TryAcquire of a free lock: %v", err)
		}
		backend.Release(t, lease)
		if keys := b.Keys(t); len(keys) != 0 {
			t.Errorf("keys left behind: %q", keys)
		}
	})
}

// asked returns how many scripts have run for locks. The others check a client's subscription, every 5 s, by PUBSUB NUMSUB.
func asked(s *server.Server) int64 {
	ran, checks := s.Scripts()
	return ran - checks
}

func TestAFreeLockCostsOneRoundTrip(t *testing.T) {
	t.Parallel()
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		l := c.Mutex("m")
		backend.Release(t, backend.Acquire(t, l)) // connects to the server, and loads the scripts
		settled(t, b, c)
		const cycles = 20
		var ran map[string]int64
		backend.Eventually(t, "cycles cost a request for each acquire and each release, if the machine does not stand still", func() bool {
			before, scripts := b.Server.CommandStats(), asked(b.Server)
			for range cycles {
				backend.Release(t, backend.Acquire(t, l))
			}
			ran = b.Server.CommandStats()
			for command := range ran {
				ran[command] -= before[command]
			}
			return asked(b.Server)-scripts+ran["exec"]+ran["delifeq"] == 2*cycles && ran["exec"] == cycles
		})
		if n := ran["delifeq"]; n != 0 && n != cycles {
			t.Errorf("%d DELIFEQ for %d cycles; want one for each release", n, cycles)
		}
		for _, command := range []string{"publish", "zadd", "subscribe"} {
			if n := ran[command]; n != 0 {
				t.Errorf("%d %s for %d cycles of a free lock", n, command, cycles)
			}
		}
	})
}

func TestWaitersAreServedInOrder(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("m"))
		const processes = 6
		type served struct {
			who   int
			lease *holdfast.Lease
		}
		order := make(chan served, processes)
		for i := range processes {
			leases := queue(t, b.Client(t, nil).Mutex("m"), i+1)
			go func() { order <- served{i, <-leases} }()
		}
		token := lease.Fence()
		for want := range processes {
			backend.Release(t, lease)
			got := <-order
			if got.who != want {
				t.Fatalf("process %d is served in place %d", got.who, want)
			}
			if lease = got.lease; lease.Fence() <= token {
				t.Errorf("fence %d follows %d", lease.Fence(), token)
			}
			token = lease.Fence()
		}
		backend.Release(t, lease)
		if keys := b.Keys(t); len(keys) != 0 {
			t.Errorf("keys left behind: %q", keys)
		}
	})
}

// Bug: Waiters of one process deadlock.
func TestGoroutinesOfOneProcessAreServedInOrder(t *testing.T) {
	t.Parallel()
	backend.Virtual(t, func(t *testing.T, b *backend.Backend) {
		l := b.Client(t, nil).Mutex("m")
		lease := backend.Acquire(t, l)
		const goroutines = 20
		order := make(chan int, goroutines)
		tokens := make(chan uint64, goroutines)
		for i := range goroutines {
			go func() {
				lease, err := l.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				order <- i
				tokens <- lease.Fence()
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			// Only the library's internals show whether the goroutine is in the wait queue. In virtual time it is.
			time.Sleep(100 * time.Millisecond)
		}
		if waiting, err := backend.Waiting(t.Context(), l); err != nil || waiting != 1 {
			t.Errorf("the server sees %d waiters (%v); want one for the process", waiting, err)
		}
		last := lease.Fence()
		backend.Release(t, lease)
		for want := range goroutines {
			if got := <-order; got != want {
				t.Errorf("goroutine %d is served in place %d", got, want)
			}
			if token := <-tokens; token <= last {
				t.Errorf("fence %d follows %d", token, last)
			} else {
				last = token
			}
		}
	})
}

func TestTryAcquireDoesNotPassWaiters(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		backend.Acquire(t, b.Client(t, nil).Mutex("m"))
		leases := queue(t, b.Client(t, nil).Mutex("m"), 1)
		// The lock is free, but not for us: the first in the queue does not even know yet.
		b.Redis(t).Del(t.Context(), "holdfast:{m}")
		if _, err := b.Client(t, nil).Mutex("m").TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("TryAcquire past a waiter: %v", err)
		}
		backend.Release(t, backend.Receive(t, leases))
	})
}

func TestDo(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := b.Client(t, nil).Mutex("m")
		type key struct{}
		parent := context.WithValue(t.Context(), key{}, "value")
		failure := errors.New("work failed")
		var inner context.Context
		err := l.Do(parent, func(ctx context.Context, lease *holdfast.Lease) error {
			inner = ctx
			if held, err := backend.IsHeld(ctx, l); !held || err != nil {
				t.Errorf("IsHeld inside Do: %v, %v", held, err)
			}
			if ctx.Value(key{}) != "value" || lease.Context(parent).Value(key{}) != "value" {
				t.Error("the context lost its values")
			}
			return failure
		})
		if !errors.Is(err, failure) {
			t.Errorf("Do = %v, want the function's error", err)
		}
		if !errors.Is(context.Cause(inner), holdfast.ErrReleased) {
			t.Errorf("the function's context ended with %v", context.Cause(inner))
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = l.Do(t.Context(), func(context.Context, *holdfast.Lease) error { panic("work") })
		}()
		if held, err := backend.IsHeld(t.Context(), l); held || err != nil {
			t.Errorf("IsHeld after Do: %v, %v", held, err)
		}

		err = l.Do(t.Context(), func(ctx context.Context, lease *holdfast.Lease) error {
			b.Redis(t).Del(ctx, "holdfast:{m}")
			if err := lease.Extend(ctx, time.Second); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("Extend of a deleted lock: %v", err)
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), holdfast.ErrLost) {
				t.Errorf("the function's context ended with %v", context.Cause(ctx))
			}
			return nil
		})
		if !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Do = %v after the lease was lost", err)
		}
	})
}

func TestHolderSaysWho(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := b.Client(t, nil).Mutex("m", holdfast.Owner("billing"), holdfast.TTL(time.Minute),
			holdfast.Meta("job", "nightly"), holdfast.Meta("note", "a:b\nc+"), holdfast.Meta("job", "hourly"))
		if _, err := backend.HolderOf(t.Context(), l); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("Holder of a free lock: %v", err)
		}
		lease := backend.Acquire(t, l)
		queue(t, b.Client(t, nil).Mutex("m"), 1)
		s, err := b.Client(t, nil).Mutex("m").Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Name != "m" || s.Key != "holdfast:{m}" || s.Kind != holdfast.KindMutex || len(s.Waiters) != 1 || !backend.IsShown(s.Fence, lease.Fence()) ||
			time.Since(s.Time).Abs() > time.Minute || s.Limit != 0 || s.Count != 0 {
			t.Errorf("Status = %+v", s)
		}
		h, held := s.Holder()
		host, _ := os.Hostname()
		if !held || h.Name != "m" || h.Owner != "billing" || h.Host != host || h.PID != os.Getpid() || !backend.IsShown(h.Fence, lease.Fence()) || h.Foreign ||
			h.Mode != holdfast.ModeExclusive {
			t.Errorf("Holder = %+v", h)
		}
		if want := fmt.Sprint(map[string]string{"job": "hourly", "note": "a:b\nc+"}); fmt.Sprint(h.Meta) != want {
			t.Errorf("Meta = %q, want %q", h.Meta, want)
		}
		if h.TTL <= 0 || h.TTL > time.Minute || time.Since(h.Since).Abs() > time.Minute {
			t.Errorf("TTL %s, since %s", h.TTL, h.Since)
		}
		if lease.Owner() != "billing" || lease.Name() != "m" {
			t.Errorf("the lease is %q's of %q", lease.Owner(), lease.Name())
		}
	})
}

func TestPoll(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		lease := backend.Acquire(t, b.Client(t, nil).Mutex("m"))
		poller := b.Client(t, &holdfast.Config{CommandTimeout: 4 * time.Second, RetryTimeout: 4 * time.Second}) // its tombstones last for some seconds
		if _, err := poller.Mutex("m").TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrHeld) {             // now it has reached the server
			t.Errorf("TryAcquire: %v", err)
		}
		if _, err := poller.Mutex("m", holdfast.Poll(time.Millisecond), holdfast.Wait(3*time.Millisecond)).Acquire(t.Context()); !timedOut(b, err) {
			t.Errorf("Acquire when its time is up: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if _, err := poller.Mutex("m", holdfast.Poll(time.Millisecond)).Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire past its context: %v", err)
		}
		got := make(chan error, 1)
		go func() {
			_, err := poller.Mutex("m", holdfast.Poll(time.Millisecond)).Acquire(t.Context())
			got <- err
		}()
		backend.Release(t, lease)
		if err := <-got; err != nil {
			t.Errorf("Acquire of a lock that became free: %v", err)
		}
		// The try whose context ended has left a tombstone for a while.
		backend.Eventually(t, "nothing is left but the lock", func() bool {
			return slices.Equal(b.Keys(t), []string{"holdfast:{m}"})
		})
	})
}

// Bug: A waiter outlives its session.
func TestClose(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		lease := backend.Acquire(t, c.Mutex("held"))
		backend.Acquire(t, b.Client(t, nil).Mutex("wanted"))
		waiting := make(chan error, 1)
		go func() {
			_, err := c.Mutex("wanted").Acquire(t.Context())
			waiting <- err
		}()
		backend.Waiters(t, b.Client(t, nil).Mutex("wanted"), 1)

		closed := make(chan error, 1)
		go func() { closed <- c.Close(t.Context()) }()
		if err := <-waiting; !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("a waiter gets %v", err)
		}
		<-lease.Done()
		if !errors.Is(context.Cause(lease.Context(context.Background())), holdfast.ErrClosed) || !errors.Is(lease.Err(), holdfast.ErrClosed) {
			t.Errorf("the lease ends with %v, Err %v", context.Cause(lease.Context(context.Background())), lease.Err())
		}
		select {
		case <-closed:
			t.Error("Close did not wait for the holder")
		case <-time.After(20 * time.Millisecond):
		}
		if held, _ := backend.IsHeld(t.Context(), b.Client(t, nil).Mutex("held")); !held {
			t.Error("the lock was given away under its holder")
		}
		backend.Release(t, lease)
		if err := <-closed; err != nil {
			t.Errorf("Close: %v", err)
		}
		if _, err := c.Mutex("m").Acquire(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("Acquire after Close: %v", err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("Close again: %v", err)
		}
		if keys := b.Keys(t); !slices.Equal(keys, []string{"holdfast:{wanted}"}) {
			t.Errorf("keys left behind: %q", keys)
		}
	})
}
