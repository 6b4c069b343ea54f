package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// garbler is a driver that runs a script and replaces its reply.
type garbler struct {
	script string // whose replies are replaced
	reply  string // the replacement
	spoilt atomic.Int32
	off    atomic.Bool // no longer
}

func (g *garbler) answer(ctx context.Context, call driver.Call, next redistest.Run) (string, error) {
	reply, err := next(ctx, call)
	if call.Script.Name == g.script && err == nil && !g.off.Load() {
		g.spoilt.Add(1)
		return g.reply, nil
	}
	return reply, err
}

// A reply that a script cannot have sent makes the operation fail. Since nobody knows what the server did, what it may have
// granted is taken back, what is held stays held, and others get the lock.
func TestMalformedReplies(t *testing.T) {
	s := redistest.Shared(t)
	ctx := t.Context()
	fine := func(t *testing.T, what string, err error) {
		if t.Helper(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	// got takes what an acquire returned.
	got := func(lease *holdfast.Lease, err error) error {
		if err == nil {
			err = lease.Release(ctx)
		}
		return err
	}
	// within calls f while a lock is held, and releases the lock once replies are sound again.
	within := func(t *testing.T, g *garbler, l *holdfast.Lock, f func(*holdfast.Lease) error) error {
		g.off.Store(true)
		lease, err := l.Acquire(ctx)
		fine(t, "Acquire", err)
		g.off.Store(false)
		err = f(lease)
		g.off.Store(true)
		if err := lease.Release(ctx); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("Release: %v", err)
		}
		return err
	}
	for what, c := range map[string]struct {
		script string
		do     func(t *testing.T, c *holdfast.Client, g *garbler) error
	}{
		"Acquire by itself": {"acquire", func(_ *testing.T, c *holdfast.Client, _ *garbler) error {
			return got(c.Mutex("m").Acquire(ctx))
		}},
		"TryAcquire by itself": {"acquire", func(_ *testing.T, c *holdfast.Client, _ *garbler) error {
			return got(c.Mutex("m").TryAcquire(ctx))
		}},
		"Acquire of several": {"multi_acquire", func(_ *testing.T, c *holdfast.Client, _ *garbler) error {
			return got(c.Multi([]string{"m", "n"}).Acquire(ctx))
		}},
		"Acquire of a permit": {"share_acquire", func(_ *testing.T, c *holdfast.Client, _ *garbler) error {
			return got(c.Semaphore("m", 3).Permits(2).Acquire(ctx))
		}},
		"Extend": {"renew", func(t *testing.T, c *holdfast.Client, g *garbler) error {
			return within(t, g, c.Mutex("m"), func(l *holdfast.Lease) error {
				err := l.Extend(ctx, time.Hour)
				if l.Err() != nil {
					t.Errorf("after Extend the lease is over: %v", l.Err())
				}
				return err
			})
		}},
		"Downgrade": {"share_weigh", func(t *testing.T, c *holdfast.Client, g *garbler) error {
			rw := c.RWMutex("m")
			return within(t, g, rw.Writer(), func(l *holdfast.Lease) error { return got(rw.Downgrade(ctx, l)) })
		}},
		"ReleaseOwner": {"share_disown", func(t *testing.T, c *holdfast.Client, g *garbler) error {
			return within(t, g, c.OwnerMutex("m", "me"), func(*holdfast.Lease) error { _, err := c.ReleaseOwner(ctx, "m", "me"); return err })
		}},
		"Wait": {"latch_look", func(_ *testing.T, c *holdfast.Client, _ *garbler) error { return latch.New(c, "latch", 2).Wait(ctx) }},
		"Join a barrier": {"share_acquire", func(_ *testing.T, c *holdfast.Client, _ *garbler) error {
			_, err := barrier.New(c, "m", 2).Join(ctx)
			return err
		}},
		"Await": {"barrier_await", func(t *testing.T, c *holdfast.Client, g *garbler) error {
			g.off.Store(true)
			party, err := barrier.New(c, "m", 1).Join(ctx)
			fine(t, "Join", err)
			g.off.Store(false)
			_, err = party.Await(ctx)
			g.off.Store(true)
			fine(t, "Release", party.Leave(ctx))
			return err
		}},
		"Do, at the beginning": {"once_begin", func(t *testing.T, c *holdfast.Client, _ *garbler) error {
			_, err := once.New(c, "m", once.Every(time.Hour)).Do(ctx, func(context.Context, *holdfast.Lease) (string, error) {
				t.Error("the job runs")
				return "", nil
			})
			return err
		}},
		"Do, at the end": {"once_complete", func(_ *testing.T, c *holdfast.Client, _ *garbler) error {
			_, err := once.New(c, "m", once.Every(time.Hour)).Do(ctx, func(context.Context, *holdfast.Lease) (string, error) { return "", nil })
			return err
		}},
		"Init": {"init", func(_ *testing.T, c *holdfast.Client, _ *garbler) error { return inspect.New(c).Admit(ctx) }},
	} {
		for _, reply := range []string{"", "nonsense", "nonsense 1795615249741793", "granted 1795615249741793 x", "granted 1795615249741793 -1 -1 -1", "renewed 17956152497417930000000000 1 1 1"} {
			t.Run(what+"/"+reply, func(t *testing.T) {
				t.Parallel()
				g := &garbler{script: c.script, reply: reply}
				ttl := time.Minute // longer than the test waits: what is not taken back would still be there
				cfg := &holdfast.Config{Prefix: redistest.Prefix(), TTL: ttl, CommandTimeout: 10 * time.Second, RetryTimeout: 20 * time.Millisecond, Strict: c.script == "init"}
				client, err := holdfast.New(redistest.Tap{Driver: s.Driver(), On: g.answer}, cfg)
				fine(t, "New", err)
				err = c.do(t, client, g)
				if g.spoilt.Load() == 0 {
					t.Fatalf("no reply of %s was spoilt: %v", c.script, err)
				}
				if !errors.Is(err, wire.ErrMalformed) {
					t.Errorf("it returns %v; want ErrMalformed", err)
				}
				g.off.Store(true)
				fine(t, "Close", client.Close(ctx))
				if c.script == "init" {
					return
				}
				// Whatever the server did, the lock is free for others now.
				other, err := holdfast.New(s.Driver(), &holdfast.Config{Prefix: cfg.Prefix, CommandTimeout: cfg.CommandTimeout})
				fine(t, "New", err)
				free, cancel := context.WithTimeout(ctx, ttl/2)
				defer cancel()
				for _, name := range []string{"m", "n"} {
					fine(t, "Acquire of "+name+" by another", got(other.Mutex(name).Acquire(free)))
				}
				fine(t, "Close", other.Close(ctx))
			})
		}
	}
}

// If a server says that it grants nothing for longer than clocks can count, the client waits for as
// long as they can, and does not ask again at once.
func TestQuarantinesCannotOverflow(t *testing.T) {
	for _, ms := range []string{"9223372036854775807", "9223372036854775", "-5"} {
		r, err := (&codec.Acquire{Mode: codec.Try}).Parse("quarantined 1 " + ms)
		if left := r.Refusal.Quarantine; err != nil || left < -time.Millisecond || ms[0] != '-' && left < 1 {
			t.Errorf("%s ms are read as %s, %v", ms, left, err)
		}
	}
}
