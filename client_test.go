package holdfast_test

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
	"github.com/holdfast-go/holdfast/inspect"
)

func TestConfigHasTheDefaultsOfItsLocks(t *testing.T) {
	s := inParallel(t)
	c := s.client(func(cfg *holdfast.Config) { cfg.Identity, cfg.TTL = "me", time.Hour })
	lease := acquire(t, c.Mutex("m"))
	if h, _ := status(t, c.Mutex("m")).Holder(); h.Identity != "me" || lease.Identity() != "me" || h.TTL < 30*time.Minute {
		t.Errorf("the holder is %+v", h)
	}
	release(t, lease)
	short := s.client(func(cfg *holdfast.Config) { cfg.MaxTTL, cfg.TTL = 10*time.Second, 0 })
	lease = acquire(t, short.Mutex("short"))
	if lasts := time.Until(lease.Deadline()); lasts < 0 || lasts > 10*time.Second {
		t.Errorf("with a MaxTTL of 10 s and no TTL, a lease lasts for %s", lasts)
	}
	release(t, lease)
	if text := c.String(); !strings.Contains(text, "socket") || fmt.Sprint(c) != text {
		t.Errorf("the client is printed as %s", text)
	}
	want(t, "Admit by a client that is not Strict", inspect.New(c).Admit(t.Context()), holdfast.ErrInvalid)
	want(t, "a TTL beyond MaxTTL", tryAcquire(t, s.client(func(cfg *holdfast.Config) { cfg.MaxTTL = time.Minute }).Mutex("m", holdfast.TTL(time.Hour))), holdfast.ErrInvalid)
}

// refusing is a driver that cannot connect while down is set.
type refusing struct {
	driver.Driver
	down atomic.Bool
}

func (d *refusing) Probe(ctx context.Context) (driver.ServerInfo, error) {
	if d.down.Load() {
		return driver.ServerInfo{}, fmt.Errorf("%w: connection refused", driver.ErrNotSent)
	}
	return d.Driver.Probe(ctx)
}

// Ping reports whether the server can be reached now, even if an earlier Ping succeeded.
func TestPing(t *testing.T) {
	s := inParallel(t)
	d := &refusing{Driver: s.server.Driver()}
	c := s.clientWith(d, func(cfg *holdfast.Config) { cfg.RetryTimeout = 50 * time.Millisecond })
	for _, down := range []bool{true, false, false, true} {
		d.down.Store(down)
		err := c.Ping(t.Context())
		if !down {
			want(t, "Ping", err, nil)
		} else if want(t, "Ping of a server that is down", err, holdfast.ErrUnavailable); !strings.Contains(fmt.Sprint(err), "holdfast: reach the server on ") {
			t.Errorf("Ping: %v", err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, "Ping with a context that has ended", c.Ping(ended), context.Canceled)
	want(t, "Close", c.Close(t.Context()), nil)
	want(t, "Ping of a client that is closed", c.Ping(t.Context()), holdfast.ErrClosed)
}

// When a client closes, its waiters give up and its leases end, but their locks are kept until they are released.
//
// Bug: A waiter outlives its session.
func TestClose(t *testing.T) {
	s := inParallel(t)
	c := s.client()
	lease, several := acquire(t, c.Mutex("m")), acquire(t, c.Multi([]string{"x", "y"}))
	work := lease.Context(t.Context())
	other, last := acquire(t, s.client().Mutex("other")), acquire(t, s.client().Mutex("last"))
	waiting, waitingForAll := start(t, c.Mutex("other").Acquire), start(t, c.Multi([]string{"first", "last"}).Acquire)
	awaitWaiters(t, c.Mutex("other"), 1)
	awaitWaiters(t, c.Mutex("last"), 1)
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- c.Close(t.Context()) }()
	}
	want(t, "a waiter", receive(t, waiting).err, holdfast.ErrClosed)
	want(t, "a waiter for several", receive(t, waitingForAll).err, holdfast.ErrClosed)
	receive(t, work.Done())
	receive(t, several.Done())
	want(t, "the cause of the work's end", context.Cause(work), holdfast.ErrClosed)
	want(t, "Err", lease.Err(), holdfast.ErrClosed)
	want(t, "Err of several", several.Err(), holdfast.ErrClosed)
	_, err := c.Mutex("third").Acquire(t.Context())
	want(t, "Acquire of a client that closes", err, holdfast.ErrClosed)
	wantWaiting(t, "Close", closed)
	wantHeld(t, s.client().Mutex("m"))
	release(t, lease)
	wantWaiting(t, "Close", closed)
	release(t, several)
	for range 2 {
		want(t, "Close", receive(t, closed), nil)
	}
	awaitWaiters(t, s.client().Mutex("other"), 0)
	release(t, other, last)
	s.cleaned()
}

// wrapper is a driver that passes everything on.
type wrapper struct{ driver.Driver }

func (w wrapper) Unwrap() driver.Driver { return w.Driver }

// Without replicas no lock is confirmed, and none is left behind.
func TestMinReplicas(t *testing.T) {
	s := inParallel(t)
	few := func(cfg *holdfast.Config) { cfg.RetryTimeout = 20 * time.Millisecond }
	for what, l := range map[string]*holdfast.Lock{
		"by option": s.client(few).Mutex("m", holdfast.Durability{Replicas: 1, Timeout: 5 * time.Millisecond}),
		"by Config": s.client(few, func(cfg *holdfast.Config) { cfg.Durability.Replicas, cfg.Durability.Timeout = 1, 5*time.Millisecond }).Mutex("m"),
	} {
		_, err := l.TryAcquire(t.Context())
		want(t, what, err, holdfast.ErrReplicas)
		want(t, what, err, holdfast.ErrUnavailable)
		awaitRelease(t, l)
	}
	l := s.clientWith(wrapper{s.server.Driver()}, few).Mutex("m", holdfast.Durability{Replicas: 1, Timeout: 5 * time.Millisecond})
	_, err := l.TryAcquire(t.Context())
	want(t, "through a driver that wraps another", err, holdfast.ErrReplicas)
	awaitRelease(t, l)
	// Without an append-only file nothing reaches the disk. Older servers do not have WAITAOF.
	for what, l := range map[string]*holdfast.Lock{
		"by option": s.client(few).Mutex("m", holdfast.Durability{Fsync: true}), "by Config": s.client(few, func(cfg *holdfast.Config) { cfg.Durability.Fsync = true }).Mutex("m"),
	} {
		if _, err := l.TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrUnsupported) && !errors.Is(err, holdfast.ErrReplicas) {
			t.Errorf("Fsync %s: %v", what, err)
		}
		awaitRelease(t, l)
	}
}
