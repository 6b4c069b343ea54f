package faults

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/clockshim"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// place is a server on which requests are lost, late and doubled. If this machine allows it, its clock is set
// forward to the time at which tombstones end; otherwise the tests wait.
type place struct {
	*backend.Backend
	clock *clockshim.Clock // nil if it cannot be moved

	// clients must learn the new time: otherwise their next acquire would be too late by the server's clock,
	// and a trap for it would catch that one.
	clients []*holdfast.Client
}

func newPlace(t *testing.T, bin server.Binary, opts ...server.Option) *place {
	t.Helper()
	b := &place{}
	if clockshim.Available() == nil {
		b.clock = clockshim.New(t)
		opts = append(opts[:len(opts):len(opts)], b.clock.Option())
	}
	b.Backend = backend.Real(t, bin, opts...)
	return b
}

// onePlace is for tests in which the kind of server does not matter.
func onePlace(t *testing.T) *place {
	t.Helper()
	return newPlace(t, server.One(t))
}

// eachPlace runs f on every real server, all at once.
func eachPlace(t *testing.T, f func(t *testing.T, b *place)) {
	t.Helper()
	server.Each(t, func(t *testing.T, bin server.Binary) { f(t, newPlace(t, bin)) })
}

// through returns a client whose connections go through p.
func (b *place) through(t *testing.T, p *proxy.Proxy, cfg holdfast.Config) *holdfast.Client {
	t.Helper()
	c := through(t, p, cfg)
	b.clients = append(b.clients, c)
	return c
}

// lasting returns how long requests are retried. Tombstones last longer; if no clock can be moved, tests wait until they end.
func lasting() time.Duration {
	if clockshim.Available() == nil {
		return 20 * time.Second
	}
	return 4 * time.Second
}

// Cleaned waits until only tombstones of locks are left on the server, and then until they have ended, too.
func (b *place) Cleaned(t *testing.T) {
	t.Helper()
	rdb := b.Redis(t)
	backend.Eventually(t, "nothing but tombstones is left", func() bool {
		keys := b.Keys(t)
		if rest, ok := buried(t, rdb, keys); ok && rest > 0 {
			b.pass(t, rest)
			keys = b.Keys(t)
		}
		return len(keys) == 0
	})
	b.Backend.Cleaned(t)
}

// buried reports whether these keys are queues with nothing but tombstones, and when the last of those ends.
func buried(t *testing.T, rdb *redis.Client, keys []string) (rest time.Duration, ok bool) {
	t.Helper()
	for _, key := range keys {
		kind := expect.Of(rdb.Type(t.Context(), key).Result()).OK(t)
		if kind == "none" { // it has just ended
			continue
		}
		if kind != "zset" {
			return 0, false
		}
		waiting := expect.Of(rdb.ZCount(t.Context(), key, "0", "+inf").Result()).OK(t)
		left := expect.Of(rdb.PTTL(t.Context(), key).Result()).OK(t)
		if waiting > 0 || left == -1 {
			return 0, false
		}
		rest = max(rest, left)
	}
	return rest, true
}

// free requires that nobody holds any of the locks.
func free(t *testing.T, b *place, names ...string) {
	t.Helper()
	for _, name := range names {
		expect.Err(t, "the holder of "+name, expect.ErrOf(backend.HolderOf(t.Context(), b.Client(t, nil).Mutex(name))), holdfast.ErrNotHeld)
	}
}

// pass lets d pass on the server.
func (b *place) pass(t *testing.T, d time.Duration) {
	t.Helper()
	if b.clock == nil {
		time.Sleep(d + time.Millisecond)
		return
	}
	b.clock.Jump(d + time.Millisecond)
	for _, c := range b.clients {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		expect.Err(t, "a lock that nobody has taken", expect.ErrOf(backend.HolderOf(ctx, c.Mutex("warm-up"))), holdfast.ErrNotHeld)
		cancel()
	}
}

func TestMain(m *testing.M) {
	backend.AtOnce(40) // the tests mostly wait
	os.Exit(m.Run())
}
