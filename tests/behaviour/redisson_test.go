package behaviour

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
)

// A release by a client of Redisson is told, and so is ours; neither side finds out by
// looking.
func TestRedissonsReleaseIsHeard(t *testing.T) {
	backend.EachReal(t, func(t *testing.T, b *backend.Backend) {
		l := b.Client(t, nil).Mutex("job", holdfast.Redisson("orders"))
		theirs := rlock{b.Redis(t), "orders"}
		var waits []time.Duration
		for n := range 9 { // of which a stalling machine spoils a few
			token := strconv.Itoa(n)
			if !theirs.try(t, token, time.Minute) {
				t.Fatal("a free lock is not to be had")
			}
			leases := queue(t, l, 1)
			backend.Eventually(t, "we hear what Redisson's clients hear", func() bool {
				return b.Redis(t).PubSubNumSub(t.Context(), theirs.channel()).Val()[theirs.channel()] == 1
			})
			time.Sleep(20 * time.Millisecond) // until it rests
			start := time.Now()
			theirs.unlock(t, token)
			lease := backend.Receive(t, leases)
			waits = append(waits, time.Since(start))
			backend.Release(t, lease)
		}
		slices.Sort(waits)
		t.Logf("%s: a release of theirs has reached us after %s, the median of %s", b.Name, waits[len(waits)/2], waits)
		if waits[len(waits)/2] > 200*time.Millisecond {
			t.Errorf("their releases reach us after %s", waits)
		}
	})
}

func TestRedissonsLockHasAllThatAMutexHas(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		l := func(c *holdfast.Client, opts ...holdfast.Option) *holdfast.Lock {
			return c.Mutex("job", append(opts, holdfast.Redisson("orders"))...)
		}
		first := backend.Acquire(t, l(b.Client(t, nil), holdfast.Owner("me"), holdfast.Meta("k", "v")))
		if h, err := l(b.Client(t, nil)).Holder(t.Context()); err != nil || h.Foreign || h.Owner != "me" || h.Meta["k"] != "v" || h.Fence != first.Token() || h.Key != "orders" {
			t.Errorf("the holder is %+v, %v", h, err)
		}
		leases := queue(t, l(b.Client(t, nil)), 1)
		backend.Release(t, first)
		second := backend.Receive(t, leases)
		if second.Token() <= first.Token() {
			t.Errorf("fence %d follows %d", second.Token(), first.Token())
		}
		if err := second.Extend(t.Context(), time.Minute); err != nil {
			t.Errorf("Extend: %v", err)
		}
		if left := b.Redis(t).PTTL(t.Context(), "orders").Val(); left < 50*time.Second {
			t.Errorf("extended to a minute, it lasts for %s", left)
		}
		// As RLock.forceUnlock does.
		b.Redis(t).Del(t.Context(), "orders")
		if err := second.Extend(t.Context(), time.Minute); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Extend of a lock that was deleted: %v", err)
		}
		if err := second.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Release of a lock that was deleted: %v", err)
		}
	})
}

// The same key in two forms is an error, not a lock of its own for each.
func TestRedissonsLockIsNoOthers(t *testing.T) {
	t.Parallel()
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		for _, forms := range [][2]func(string) holdfast.Option{{holdfast.Redisson, holdfast.Key}, {holdfast.Key, holdfast.Redisson}} {
			lease := backend.Acquire(t, c.Mutex("a", forms[0]("orders")))
			if _, err := c.Mutex("b", forms[1]("orders")).TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrWrongType) {
				t.Errorf("the key has another form: %v", err)
			}
			if _, err := c.Mutex("b", forms[1]("orders")).Acquire(t.Context()); !errors.Is(err, holdfast.ErrWrongType) {
				t.Errorf("the key has another form: %v", err)
			}
			backend.Release(t, lease)
		}
		// The last one counts.
		lease := backend.Acquire(t, c.Mutex("a", holdfast.Redisson("x"), holdfast.Key("k")))
		if kind := b.Redis(t).Type(t.Context(), "k").Val(); kind != "string" {
			t.Errorf("Key after Redisson makes a %s", kind)
		}
		backend.Release(t, lease)
	})
}
