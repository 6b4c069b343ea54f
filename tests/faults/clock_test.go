package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/clockshim"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/proxy"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// eachWithClock runs f on every real server, all at once, and lets it move the server's clock.
func eachWithClock(t *testing.T, f func(t *testing.T, b *backend.Backend, clock *clockshim.Clock)) {
	t.Parallel()
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			clock := clockshim.New(t)
			f(t, backend.Real(t, bin, clock.Option()), clock)
		})
	}
}

// taken requires that the holder learns from the server that its lock was taken, before the lease expires. Others may
// have released it by then.
func taken(t *testing.T, lease *holdfast.Lease) {
	t.Helper()
	select {
	case <-lease.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the holder is not told within 30s")
	}
	var lost *holdfast.LostError
	if !errors.As(lease.Err(), &lost) || lost.Reason != holdfast.LossTaken && lost.Reason != holdfast.LossDeleted {
		t.Errorf("the lease ended: %v", lease.Err())
	}
}

const jump = 2 * time.Minute

// Fault: The server's clock jumps forward by 2 min, and every lock expires. The next holder may have the lock before
// the old one is told; the resource refuses the old one.
func TestServersClockJumpsForward(t *testing.T) {
	eachWithClock(t, func(t *testing.T, b *backend.Backend, clock *clockshim.Clock) {
		const ttl = 6 * time.Second
		jumps := 3
		if soak.Long() {
			jumps = 200
		}
		var r backend.Resource
		first, second := b.Client(t, nil), b.Client(t, nil)
		for range jumps {
			before := backend.Acquire(t, first.Mutex("a", holdfast.TTL(ttl)))
			expect.Equal(t, "the resource takes the fence before", r.Write(before.Fence()), true)
			clock.Jump(jump)
			next := expect.Of(second.Mutex("a").TryAcquire(t.Context())).OK(t)
			within(t, b.Redis(t), next)
			r.Succeed(t, before, next)
			taken(t, before)
			expect.Err(t, "Release of the lost lease", before.Release(t.Context()), holdfast.ErrLost)
			backend.Release(t, next)
			first, second = second, first
		}
		b.Cleaned(t)
	})
}

// Fault: The server's clock jumps forward, and the queue expires with the locks. Waiters return to their old places
// at their next look, within 36 s; the first that looks gets the lock.
//
// Bug: A waiter outlives its own dead entry in the queue.
func TestWaitersOutliveAJumpForward(t *testing.T) {
	eachWithClock(t, func(t *testing.T, b *backend.Backend, clock *clockshim.Clock) {
		const ttl = 6 * time.Second
		holder := backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(ttl)))
		var waiting []<-chan *holdfast.Lease
		for n := range 3 {
			waiting = append(waiting, backend.Start(t, b.Client(t, nil).Mutex("a", holdfast.Identity(fmt.Sprint("waiter ", n+1)))))
			backend.Waiters(t, b.Client(t, nil).Mutex("a"), n+1)
		}
		clock.Jump(jump)
		expect.Equal(t, "keys of lock and queue that are left", b.Redis(t).Exists(t.Context(), "holdfast:{a}", "holdfast:{a}:q").Val(), 0)
		type served struct {
			n     int
			lease *holdfast.Lease
		}
		all := make(chan served, len(waiting))
		for n, leases := range waiting {
			go func() { all <- served{n, <-leases} }()
		}
		var r backend.Resource
		before := holder
		for range waiting {
			var s served
			select {
			case s = <-all:
			case <-time.After(30 * time.Second):
				t.Fatal("none of the waiters is served within 30s")
			}
			if s.lease == nil {
				t.FailNow()
			}
			// The first waiter that looks gets the lock. Meanwhile the others return to the queue, in their old order. They are
			// served in that order, unless the machine stands still for longer than a claim lasts.
			if before == holder {
				l := b.Client(t, nil).Mutex("a")
				backend.Waiters(t, l, 2)
				if status, err := l.Status(t.Context()); err != nil || len(status.Waiters) != 2 || status.Waiters[0].Identity > status.Waiters[1].Identity {
					t.Errorf("the others wait in the order %+v, %v", status.Waiters, err)
				}
			}
			r.Succeed(t, before, s.lease)
			backend.Release(t, s.lease)
			before = s.lease
		}
		taken(t, holder)
		b.Cleaned(t)
	})
}

// Fault: The first in the queue hangs, and the second knows the server's clock from before a jump forward. The second
// does not wait until the first one's claim would end by the old time.
func TestAJumpForwardDoesNotHoldUpTheRunnerUp(t *testing.T) {
	eachWithClock(t, func(t *testing.T, b *backend.Backend, clock *clockshim.Clock) {
		l := b.Client(t, nil).Mutex("a")
		holder := backend.Acquire(t, b.Client(t, nil).Mutex("a", holdfast.TTL(time.Hour)))
		p := proxy.New(t, b.Server.Addr())
		hanging := backend.Start(t, through(t, p, holdfast.Config{}).Mutex("a"))
		t.Cleanup(p.Cut) // a command that hangs would keep the client from closing
		backend.Waiters(t, l, 1)
		next := backend.Start(t, b.Client(t, nil).Mutex("a"))
		backend.Waiters(t, l, 2)
		clock.Jump(40 * time.Second) // the queue lives for a minute
		p.SwallowReplies(true)
		backend.Release(t, holder)
		lease := backend.Receive(t, next) // it waits for less than 40s; the claim before it is 1.5s
		p.SwallowReplies(false)
		p.Cut()
		backend.Release(t, lease)
		backend.Release(t, backend.Receive(t, hanging))
		b.Cleaned(t)
	})
}

// Fault: The server's clock jumps back by 2 min. Locks last longer by the jump; a deletion by hand frees one, and fences rise.
func TestServersClockJumpsBack(t *testing.T) {
	eachWithClock(t, func(t *testing.T, b *backend.Backend, clock *clockshim.Clock) {
		const ttl = 6 * time.Second
		rdb := b.Redis(t)
		alive := backend.Acquire(t, b.Client(t, nil).Mutex("alive", holdfast.TTL(ttl)))
		p := proxy.New(t, b.Server.Addr())
		crashed := backend.Acquire(t, through(t, p, holdfast.Config{}).Mutex("a", holdfast.TTL(ttl)))
		seen := expect.Of(backend.HolderOf(t.Context(), b.Client(t, nil).Mutex("a"))).OK(t)
		next := backend.Start(t, b.Client(t, nil).Mutex("a"))
		backend.Waiters(t, b.Client(t, nil).Mutex("a"), 1)
		handed := backend.Acquire(t, b.Client(t, nil).Mutex("handed"))
		heir := backend.Start(t, b.Client(t, nil).Mutex("handed"))
		backend.Waiters(t, b.Client(t, nil).Mutex("handed"), 1)
		p.Refuse(true)
		p.Cut()
		clock.Jump(-jump)

		// A live holder notices nothing.
		backend.Release(t, handed)
		lease := backend.Receive(t, heir)
		expect.Rises(t, handed.Fence(), lease.Fence())
		within(t, rdb, lease)
		backend.Release(t, lease)
		first := alive.Deadline()
		backend.Eventually(t, "renewals go on", func() bool { return alive.Err() == nil && alive.Deadline().After(first) })
		within(t, rdb, alive)
		backend.Release(t, alive)

		// A lock that nobody releases lasts for its TTL plus the jump, and its TTL shows that.
		<-crashed.Done()
		still(t, next, 3*time.Second)
		h, err := backend.HolderOf(t.Context(), b.Client(t, nil).Mutex("a"))
		if err != nil || h.TTL > jump || h.TTL < jump-time.Minute || h.Grant != seen.Grant {
			t.Errorf("the lock's holder: %+v, %v", h, err)
		}

		// An operator deletes it: the next acquire wakes the waiters. Otherwise they notice at their next look.
		rdb.Del(t.Context(), "holdfast:{a}")
		begun := time.Now()
		if !soak.Long() {
			expect.Err(t, "TryAcquire past a waiter", expect.ErrOf(b.Client(t, nil).Mutex("a").TryAcquire(t.Context())), holdfast.ErrHeld)
			lease = backend.Receive(t, next)
		} else {
			lease = <-next
		}
		if d := time.Since(begun); d > jump/2 { // it looks every 30s, and when the lock would have expired
			t.Errorf("served %s after the release by force\n%s", d, machine.Report(begun))
		}
		expect.Rises(t, crashed.Fence(), lease.Fence())
		backend.Release(t, lease)
		b.Cleaned(t)
	})
}

// tombstones returns how many tombstones the lock's queue has.
func tombstones(t *testing.T, rdb *redis.Client) int64 {
	t.Helper()
	n, err := rdb.ZCount(t.Context(), "holdfast:{a}:q", "-inf", "(0").Result()
	expect.OK(t, err)
	return n
}

// Fault: The server's clock jumps between a request and its late copy. The copy is refused, and leaves no lock
// without a holder; what a copy of a native acquire takes is given back.
func TestLateCopiesAfterAJump(t *testing.T) {
	eachWithClock(t, func(t *testing.T, server *backend.Backend, clock *clockshim.Clock) {
		b := &place{Backend: server, clock: clock}
		p := proxy.New(t, b.Server.Addr())
		eachWay(t, p, patient, func(t *testing.T, c *holdfast.Client, w way) {
			b.clients = []*holdfast.Client{c}
			t.Cleanup(p.Cut) // a command that hangs would keep the client from closing
			orphan := func(t *testing.T) {
				t.Helper()
				expect.Of(backend.IsHeld(t.Context(), c.Mutex("a"))).Is(t, "an orphan lock", false)
			}
			t.Run("forward", func(t *testing.T) {
				held := p.Hold(w.acquiring("a"), proxy.Cut)
				backend.Release(t, backend.Acquire(t, c.Mutex("a")))
				clock.Jump(jump) // past the tombstone, and past not-after and the expiry
				if reply := held.Forward(t); !w.native && !w.refused(reply, "late") {
					t.Errorf("the late copy is answered %q", reply)
				}
				orphan(t)
				b.Cleaned(t)
			})
			t.Run("back", func(t *testing.T) {
				held := p.Hold(w.acquiring("a"), proxy.Cut)
				backend.Release(t, backend.Acquire(t, c.Mutex("a", holdfast.TTL(longest))))
				clock.Jump(-jump) // the tombstone lasts until not-after has passed
				if w.native {
					givenBack(t, b, held)
				} else {
					w.refuses(t, held.Forward(t), "gone")
					orphan(t)
					// The tombstone is in nobody's way.
					backend.Release(t, backend.Acquire(t, b.Client(t, nil).Mutex("a")))
					if pttl := b.Redis(t).PTTL(t.Context(), "holdfast:{a}:q").Val(); pttl > jump+patient.RetryTimeout+10*time.Second ||
						pttl < jump-time.Minute {
						t.Errorf("the tombstone has %s left", pttl)
					}
				}
				clock.Jump(jump)
				b.Cleaned(t)
				do(t, b.Server, "FLUSHALL") // keys that have expired exist again when the clock goes back
			})
			t.Run("back before the request was given up", func(t *testing.T) {
				held := p.Hold(w.acquiring("a"), proxy.Hang)
				abandon(t, c.Mutex("a", holdfast.TTL(longest)), held, func() { clock.Jump(-jump) })
				if w.native {
					givenBack(t, b, held)
				} else {
					backend.Eventually(t, "the tombstone stands", func() bool { return tombstones(t, b.Redis(t)) == 1 })
					w.refuses(t, held.Forward(t), "gone")
					orphan(t)
				}
				clock.Jump(jump)
				b.Cleaned(t)
			})
		})
	})
}

// Fault: The server's clock jumps all the time, so that every acquire is late when it arrives. The caller is told so, with ErrUnavailable.
func TestAClockThatJumpsAllTheTimeIsAnError(t *testing.T) {
	eachWithClock(t, func(t *testing.T, b *backend.Backend, clock *clockshim.Clock) {
		p := proxy.New(t, b.Server.Addr())
		c := through(t, p, holdfast.Config{})
		p.DelayReplies(5 * time.Millisecond) // some servers look at the clock once a millisecond
		clock.JumpAtEveryLook(time.Minute)
		for what, acquire := range map[string]func(context.Context) (*holdfast.Lease, error){
			"Acquire": c.Mutex("a").Acquire, "TryAcquire": c.Mutex("a").TryAcquire,
		} {
			_, err := acquire(t.Context())
			if !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrHeld) || !strings.Contains(err.Error(), "its clock jumps") {
				t.Errorf("%s: %v", what, err)
			}
		}
		clock.Jump(0)
		backend.Release(t, backend.Acquire(t, c.Mutex("a")))
		b.Cleaned(t)
	})
}

// Fault: A slot moves to a node with another clock, to which the expiries of shares go along as absolute times by the
// old master's. Shares end earlier or later by the difference, unless they are renewed; nothing stays for good.
func TestSharesThatMoveToAnotherClock(t *testing.T) {
	eachWithClock(t, func(t *testing.T, b *backend.Backend, clock *clockshim.Clock) {
		c := b.Client(t, nil)
		rdb := b.Redis(t)
		moves := func(name string, ahead time.Duration) {
			t.Helper()
			type kept struct {
				key, value string
				left       time.Duration
			}
			var all []kept
			for _, key := range b.Keys(t) {
				if !strings.Contains(key, name) {
					continue
				}
				value := expect.Of(rdb.Dump(t.Context(), key).Result()).OK(t)
				left := expect.Of(rdb.PTTL(t.Context(), key).Result()).OK(t)
				all = append(all, kept{key, value, max(left, 0)})
			}
			expect.AtLeast(t, "keys to move", len(all), 1)
			clock.Jump(ahead)
			for _, k := range all {
				expect.OK(t, rdb.RestoreReplace(t.Context(), k.key, k.left, k.value).Err())
			}
		}
		locks := func(name string, ttl time.Duration) (reader, writer *holdfast.Lock) {
			rw := c.RWMutex(name, holdfast.TTL(ttl), holdfast.NoRenew())
			return rw.Reader(), rw.Writer()
		}
		refused := func(writer *holdfast.Lock, when string) {
			t.Helper()
			expect.Err(t, when+": a writer", expect.ErrOf(writer.TryAcquire(t.Context())), holdfast.ErrHeld)
		}

		reader, writer := locks("renewed", 10*time.Minute)
		lease := backend.Acquire(t, reader)
		moves("renewed", 5*time.Minute)
		expect.Err(t, "renewed before its end by the new clock", lease.Extend(t.Context(), 10*time.Minute), nil)
		clock.Jump(6 * time.Minute) // past its earlier end
		refused(writer, "it was renewed")
		backend.Release(t, lease)

		// A move to another clock is a jump of the clock: the fence shows which holder is late.
		reader, writer = locks("ahead", 10*time.Minute)
		lease = backend.Acquire(t, reader)
		moves("ahead", 11*time.Minute)
		next := backend.Acquire(t, writer)
		expect.Rises(t, lease.Fence(), next.Fence())
		backend.Release(t, next)

		reader, writer = locks("behind", 5*time.Minute)
		_ = backend.Acquire(t, reader)
		moves("behind", -10*time.Minute)
		clock.Jump(4 * time.Minute)
		refused(writer, "its TTL is not over")
		clock.Jump(2 * time.Minute) // the key has no other share, and ends after the remaining time
		backend.Release(t, backend.Acquire(t, writer))
	})
}
