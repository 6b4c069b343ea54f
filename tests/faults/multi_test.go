package faults

import (
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
)

// severalThrough returns a client through p, and three locks as one, which it has already acquired once.
func severalThrough(t *testing.T, b *place, p *proxy.Proxy, cfg holdfast.Config, opts ...holdfast.MultiOption) (
	*holdfast.Client, *holdfast.Lock) {
	t.Helper()
	c := b.through(t, p, cfg)
	backend.Release(t, backend.Acquire(t, c.Multi([]string{"a", "b", "c"})))
	return c, c.Multi([]string{"c", "a", "b"}, opts...)
}

// Fault: Requests for several locks are doubled, or a copy comes after the lease. Both copies acquire the locks once,
// and the late one acquires nothing.
func TestLateAndDoubledCopiesForSeveral(t *testing.T) {
	eachPlace(t, func(t *testing.T, b *place) {
		p := proxy.New(t, b.Server.Addr())
		_, all := severalThrough(t, b, p, patient)
		held := p.Hold(running(script.MultiAcquire(), "a"), proxy.Cut)
		backend.Release(t, backend.Acquire(t, all))
		for _, when := range []string{"at once", "after a while"} { // with tombstones, and without
			expect.Lacks(t, "the late copy's answer, "+when, held.Forward(t), "granted")
			free(t, b, "a", "b", "c")
			b.Cleaned(t)
		}

		held = p.Hold(running(script.MultiAcquire(), "a"), proxy.Hang)
		abandon(t, all, held, func() {})
		backend.Eventually(t, "the tombstones stand", func() bool { return len(b.Keys(t)) == 3 })
		expect.Lacks(t, "the late copy's answer", held.Forward(t), "granted")
		free(t, b, "a", "b", "c")
		b.Cleaned(t)

		_, all = severalThrough(t, b, p, patient)
		for range 10 { // either copy may come first
			trap := p.Double(running(script.MultiAcquire(), "a"))
			lease := backend.Acquire(t, all)
			expect.Contains(t, "the second copy is answered", trap.Reply(t), "granted")
			backend.Release(t, lease)
			free(t, b, "a", "b", "c")
		}
		b.Cleaned(t)
	})
}
