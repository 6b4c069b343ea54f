package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr requires that err matches target, or is nil if target is nil.
func wantErr(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v; want %v", what, err, target)
	}
}

// equal requires that what was got is what was wanted.
func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}

// open returns a client of a driver.
func open(t testing.TB, d driver.Driver, cfg *lock.Config) *Client {
	t.Helper()
	c, err := New(d, cfg)
	must(t, err)
	return c
}

// take acquires a lock.
func take(t testing.TB, l Lock) Lease {
	t.Helper()
	lease, err := l.AcquireBy(t.Context(), time.Time{})
	must(t, err)
	return lease
}

// bubble runs a test in virtual time, on a machine without a clock that runs through suspension.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(clock.SetBoot(func() time.Duration { return 0 }))
		f(t)
	})
}

// takeAll acquires n locks at once, and releaseAll releases them.
func takeAll(t *testing.T, n int, lock func(i int) Lock) []Lease {
	t.Helper()
	leases := make([]Lease, n)
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() {
			var err error
			leases[i], err = lock(i).AcquireBy(t.Context(), time.Time{})
			wantErr(t, "Acquire", err, nil)
		})
	}
	if all.Wait(); t.Failed() {
		t.FailNow()
	}
	return leases
}

func releaseAll(leases []Lease) {
	var all sync.WaitGroup
	for _, l := range leases {
		all.Go(func() { _ = l.Release(context.Background()) })
	}
	all.Wait()
}

// fake is a server with as much of the protocol as holders and waiters need that never hand over to
// each other: it notifies nobody, and tells waiters to check again soon.
type fake struct {
	mu      sync.Mutex
	fence   uint64
	holders map[string]string // by key
}

func (f *fake) Run(_ context.Context, call driver.Call) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now().UnixMicro()
	if strings.HasPrefix(call.Script.Name, "batch_") {
		return f.batch(call.Script.Name, now, call.Keys, call.Args), nil
	}
	key, mode, token := call.Keys[0], call.Args[0], call.Args[1]
	mine := f.holders[key] == token
	switch {
	case call.Script.Name == "acquire" && (mine || f.holders[key] == ""):
		f.fence++
		f.holders[key] = token
		return fmt.Sprintf("granted %d %s %d 1", now, call.Args[2], f.fence), nil
	case call.Script.Name == "acquire" && mode == string(codec.Try):
		return fmt.Sprintf("held %d 1000 0 hf2:%s:1:1:0:{}", now, f.holders[key]), nil
	case call.Script.Name == "acquire":
		return fmt.Sprintf("queued %d 5 %d 1 1 ours", now, now), nil
	case call.Script.Name == "renew" && mine:
		return fmt.Sprintf("renewed %d %s 0 0", now, call.Args[2]), nil
	case call.Script.Name == "release" && mine:
		delete(f.holders, key)
		return fmt.Sprintf("released %d", now), nil
	}
	return fmt.Sprintf("gone %d", now), nil
}

// batch answers the scripts for many locks.
func (f *fake) batch(name string, now int64, keys, args []string) string {
	reply := "freed"
	if name == "batch_renew" {
		reply, args = fmt.Sprintf("kept %d", now), args[1:] // after the flags
	}
	for i, key := range keys {
		switch token := strings.Split(args[i], ":")[1]; {
		case f.holders[key] != token:
			reply += fmt.Sprintf(" %d", i+1)
		case name == "batch_release":
			delete(f.holders, key)
		}
	}
	return reply
}

func (f *fake) RunDurably(ctx context.Context, call driver.Call, _ driver.Durability) (string, driver.Confirmation, error) {
	text, err := f.Run(ctx, call)
	return text, driver.Confirmation{}, err
}

func (f *fake) Node(string) string { return "" }

func (f *fake) Subscribe(s driver.Subscription) (cancel func()) {
	go s.Up()
	return func() {}
}

func (f *fake) Probe(context.Context) (driver.ServerInfo, error) {
	return driver.ServerInfo{Time: time.Now()}, nil
}

func (f *fake) Addr() string { return "fake" }

func (f *fake) Close() error { return nil }

// remove deletes a lock while it is held.
func (f *fake) remove(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.holders, key)
}

// closable is a fake that records whether it is used after it was closed.
type closable struct {
	fake
	closed, late atomic.Bool
}

func (d *closable) Run(ctx context.Context, call driver.Call) (string, error) {
	if d.closed.Load() {
		d.late.Store(true)
	}
	return d.fake.Run(ctx, call)
}

func (d *closable) Close() error {
	d.closed.Store(true)
	return nil
}

// A lock that is granted while the client closes must be released.
func TestCloseWaitsForAcquiresUnderWay(t *testing.T) {
	granted := 0
	// The scheduler decides which acquires succeed. More rounds follow if those were all or none.
	round := 0
	for ; round < 3000 || round < 100_000 && (granted == 0 || granted == round); round++ {
		server := &closable{fake: fake{holders: map[string]string{}}}
		c := open(t, server, nil)
		released := make(chan error, 1)
		go func() {
			lease, err := c.Mutex("a").AcquireBy(t.Context(), time.Time{})
			if err == nil {
				granted++
				err = lease.Release(t.Context())
			}
			released <- err
		}()
		for range round % 20 {
			runtime.Gosched()
		}
		wantErr(t, "Close", c.Close(t.Context()), nil)
		if err := <-released; err != nil && err != exec.ErrClosed || server.late.Load() || len(server.holders) != 0 {
			t.Fatalf("locks left behind: %d; driver used after Close: %v; error: %v", len(server.holders), server.late.Load(), err)
		}
	}
	if granted == 0 || granted == round {
		t.Errorf("%d of %d acquires succeeded; want some, but not all", granted, round)
	}
}

// waits reports whether a goroutine is waiting for the lock.
func waits(c *Client, l *Target) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	wq := c.queues.Get(l.Keys.Queue)
	return wq != nil && wq.waiting.Load() > 0
}

// A lock that is deleted while it is held is granted to the next goroutine of the same process
// before the holder knows. Two holds then belong to one wait queue.
func TestNothingIsKeptOfLocksDeletedUnderTheirHolders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := &fake{holders: map[string]string{}}
		c := open(t, server, nil)
		defer func() { _ = c.Close(context.Background()) }()
		for name, renewed := range map[string]bool{"found out by a renewal": true, "found out by the release": false} {
			for _, laterFirst := range []bool{false, true} {
				ttl := time.Minute
				if renewed {
					ttl = 3 * time.Second
				}
				l := c.Mutex(fmt.Sprint(name, laterFirst), kind.TTL(ttl))
				first := take(t, l)
				leases := make(chan Lease, 1)
				go func() {
					lease, err := l.AcquireBy(t.Context(), time.Time{})
					wantErr(t, "Acquire", err, nil)
					leases <- lease
				}()
				for !waits(c, l) {
					time.Sleep(time.Millisecond)
				}
				server.remove(l.Keys.Lock)
				second := <-leases
				if renewed {
					<-first.Done()
				}
				order := []Lease{first, second}
				if laterFirst {
					order = []Lease{second, first}
				}
				for _, lease := range order {
					err := lease.Release(t.Context())
					if lease == first && !errors.Is(err, lock.ErrLost) || lease == second && err != nil {
						t.Errorf("Release: %v", err)
					}
				}
			}
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			c.mu.Lock()
			queues, tokens := c.queues.Len(), c.attempts.Len()
			c.mu.Unlock()
			gone := c.holds.None()
			if queues+tokens == 0 && gone {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("left in the client: %d wait queues, %d tokens; no holds: %v", queues, tokens, gone)
			}
		}
	})
}

func errOf[T any](_ T, err error) error { return err }
