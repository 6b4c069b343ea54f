package behaviour

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/election"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/transfer"
)

// detach detaches a lease for a minute, and carries the ticket to another process.
func detach(t testing.TB, lease *holdfast.Lease) (ticket transfer.Ticket) {
	t.Helper()
	made := expect.Of(transfer.Detach(t.Context(), lease, time.Minute)).OK(t)
	text := expect.Of(made.MarshalText()).OK(t)
	expect.OK(t, ticket.UnmarshalText(text))
	return ticket
}

func adopt(t testing.TB, c *holdfast.Client, ticket transfer.Ticket, opts ...holdfast.MutexOption) *holdfast.Lease {
	t.Helper()
	return expect.Of(transfer.Adopt(t.Context(), c, ticket, opts...)).OK(t)
}

// used requires that the ticket is no longer valid.
func used(t testing.TB, c *holdfast.Client, ticket transfer.Ticket, want holdfast.LossReason) {
	t.Helper()
	_, adopted := transfer.Adopt(t.Context(), c, ticket)
	for what, err := range map[string]error{"Adopt": adopted, "Extend": transfer.Extend(t.Context(), c, ticket, time.Minute)} {
		var lost *holdfast.LostError
		if !errors.Is(err, holdfast.ErrLost) || !errors.As(err, &lost) || lost.Name != ticket.Name() || lost.Reason != want ||
			want == holdfast.LossExpired && !strings.HasSuffix(err.Error(), "lost: expired, or the ticket was already used") {
			t.Errorf("%s with a ticket that is good no more: %v", what, err)
		}
	}
}

// A lock goes from one process to another, past all waiters and with a new fence. Only one process gets it.
func TestALockIsCarriedToAnotherProcess(t *testing.T) {
	t.Parallel()
	for kind, lock := range map[string]func(c *holdfast.Client) *holdfast.Lock{
		"by name": func(c *holdfast.Client) *holdfast.Lock { return c.Mutex("a") },
		"by key":  func(c *holdfast.Client) *holdfast.Lock { return c.MutexKey("a") },
	} {
		eachOf(t, kind, func(t *testing.T, b *backend.Backend) {
			first, second, third := b.Client(t, nil), b.Client(t, &holdfast.Config{Identity: "heir"}), b.Client(t, nil)
			lease := backend.Acquire(t, lock(first))
			work := lease.Context(t.Context())
			here := backend.Start(t, lock(first))
			backend.Waiters(t, lock(first), 1)
			there := backend.Start(t, lock(third))
			backend.Waiters(t, lock(first), 2)

			ticket := detach(t, lease)
			if err := lease.Err(); err != holdfast.ErrReleased || context.Cause(work) != holdfast.ErrReleased {
				t.Errorf("a detached lease: %v, its context: %v", err, context.Cause(work))
			}
			expect.Err(t, "Release of a detached lease", lease.Release(t.Context()), nil)
			expect.Equal(t, "Extend of a detached lease", lease.Extend(t.Context(), time.Minute), holdfast.ErrReleased)
			expect.Equal(t, "Detach of a detached lease", expect.ErrOf(transfer.Detach(t.Context(), lease, time.Minute)), holdfast.ErrReleased)
			expect.Err(t, "TryAcquire of a detached lock", expect.ErrOf(lock(second).TryAcquire(t.Context())), holdfast.ErrHeld)
			expect.Equal(t, "the ticket's name", ticket.Name(), lock(first).Name())

			heir := adopt(t, second, ticket)
			used(t, first, ticket, holdfast.LossTaken)
			used(t, second, ticket, holdfast.LossTaken)
			if heir.Err() != nil || heir.Fence() <= lease.Fence() || heir.Identity() != "heir" || heir.Name() != lock(first).Name() {
				t.Errorf("adopted %s of %q: %v; it had fence %d before", heir, heir.Identity(), heir.Err(), lease.Fence())
			}
			status, err := lock(third).Status(t.Context())
			if h, held := status.Holder(); err != nil || !held || h.Identity != "heir" || h.Fence != heir.Fence() || len(status.Waiters) != 2 {
				t.Errorf("%+v, %v", status, err)
			}
			expect.Err(t, "Extend of an adopted lease", heir.Extend(t.Context(), time.Minute), nil)
			select {
			case <-here:
				t.Error("a goroutine of the first process has the lock, too")
			case <-there:
				t.Error("a waiter has the lock, too")
			default:
			}
			backend.Release(t, heir)
			next := backend.Receive(t, here)
			expect.Rises(t, heir.Fence(), next.Fence())
			backend.Release(t, next)
			backend.Release(t, backend.Receive(t, there))
			used(t, third, ticket, holdfast.LossExpired)
			b.Cleaned(t)
		})
	}
}

// A lease that cannot be detached is refused before anything is sent, and goes on as before.
func TestWhatCannotBeDetached(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		refused := func(what string, l *holdfast.Lease, ttl time.Duration) {
			t.Helper()
			ticket, err := transfer.Detach(t.Context(), l, ttl)
			if !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), l.Name()) || ticket != (transfer.Ticket{}) {
				t.Errorf("%s: Detach: %v, %v", what, ticket, err)
			}
			expect.Err(t, what+" after Detach was refused", l.Err(), nil)
		}
		for what, l := range map[string]*holdfast.Lock{
			"a reader":  c.RWMutex("r").Reader(),
			"a writer":  c.RWMutex("w").Writer(),
			"permits":   c.Semaphore("s", 3).Permits(1),
			"an owner":  c.OwnerMutex("o", "somebody"),
			"Redisson":  c.RedissonMutex("redisson"),
			"two locks": c.Multi([]string{"m1", "m2"}),
		} {
			lease := backend.Acquire(t, l)
			refused(what, lease, time.Minute)
			backend.Release(t, lease)
		}
		if _, err := once.New(c, "job", once.Every(time.Hour)).Do(t.Context(), func(_ context.Context, l *holdfast.Lease) (string, error) {
			refused("a job", l, time.Minute)
			return "", nil
		}); err != nil {
			t.Error(err)
		}
		if err := election.New(c.Mutex("term")).Run(t.Context(), func(_ context.Context, term *holdfast.Lease) error {
			refused("a term", term, time.Minute)
			return errors.New("enough")
		}); err == nil || err.Error() != "enough" {
			t.Error(err)
		}
		party := expect.Of(latch.New(c, "latch", 2).Register(t.Context())).OK(t)
		refused("a party of a latch", party.Lease(), time.Minute)
		_ = party.Leave(t.Context())
		member := expect.Of(barrier.New(c, "barrier", 2).Join(t.Context())).OK(t)
		refused("a party of a barrier", member.Lease(), time.Minute)
		_ = member.Leave(t.Context())

		nested := c.Mutex("nested", holdfast.Reentrant())
		outer := backend.Acquire(t, nested)
		inner := expect.Of(nested.TryAcquire(outer.Context(t.Context()))).OK(t)
		refused("a lease with another within", outer, time.Minute)
		refused("a lease within another", inner, time.Minute)
		for _, ttl := range []time.Duration{0, -time.Second, time.Millisecond - 1, 25 * time.Hour} {
			refused(ttl.String(), outer, ttl)
		}
		backend.Release(t, inner)
		backend.Release(t, adopt(t, c, detach(t, outer)))
	})
}

// A ticket lasts as long as Detach and Extend say; nothing shortens that. When it has expired, the lock goes to the
// waiters.
func TestTicketsExpire(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c, other := b.Client(t, nil), b.Client(t, nil)
		left := func() time.Duration {
			t.Helper()
			status, err := c.Mutex("a").Status(t.Context())
			h, held := status.Holder()
			if err != nil || !held {
				t.Fatalf("%+v, %v", status, err)
			}
			return h.TTL
		}
		lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(10*time.Second)))
		ticket, err := transfer.Detach(t.Context(), lease, time.Millisecond)
		if d := left(); err != nil || d < 2*time.Second || d > 10*time.Second {
			t.Errorf("detached for 1ms from a lease of 10s, the lock has %s left; %v", d, err)
		}
		for _, ttl := range []time.Duration{time.Hour, time.Minute} {
			noError(t, transfer.Extend(t.Context(), c, ticket, ttl))
			expect.Between(t, fmt.Sprintf("extended by %s, the lock's time", ttl), left(), 50*time.Minute, time.Hour)
		}
		heir := adopt(t, other, ticket, holdfast.TTL(10*time.Second))
		expect.Between(t, "the adopted lease's time", time.Until(heir.Deadline()), 50*time.Minute, time.Hour)
		backend.Release(t, heir)

		lease = backend.Acquire(t, c.Mutex("a", holdfast.TTL(6*time.Second)))
		next := backend.Start(t, other.Mutex("a"))
		if ticket, err = transfer.Detach(t.Context(), lease, 7*time.Second); err != nil {
			t.Fatal(err)
		}
		lease = backend.Receive(t, next)
		used(t, c, ticket, holdfast.LossTaken)
		backend.Release(t, lease)
		used(t, c, ticket, holdfast.LossExpired)
		b.Cleaned(t)
	})
}

// An adopted lease has the options of the adoption, and those of the client.
func TestOptionsOfAnAdoption(t *testing.T) {
	backend.EachLong(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		carry := func(opts ...holdfast.MutexOption) *holdfast.Lease {
			t.Helper()
			// As short as it can be, so that the options decide.
			lease := backend.Acquire(t, c.Mutex("a", holdfast.TTL(5*time.Second), holdfast.Meta("step", "one")))
			ticket := expect.Of(transfer.Detach(t.Context(), lease, time.Millisecond)).OK(t)
			return adopt(t, c, ticket, opts...)
		}
		heir := carry(holdfast.TTL(time.Minute), holdfast.Identity("heir"), holdfast.Meta("step", "two"))
		status, err := c.Mutex("a").Status(t.Context())
		if h, _ := status.Holder(); err != nil || h.Identity != "heir" || h.Meta["step"] != "two" || h.TTL < 30*time.Second {
			t.Errorf("%+v, %v", status, err)
		}
		backend.Release(t, heir)
		for what, want := range map[string]struct {
			opts []holdfast.MutexOption
			why  holdfast.LossReason
		}{
			"NoRenew":     {[]holdfast.MutexOption{holdfast.TTL(time.Second), holdfast.NoRenew()}, holdfast.LossExpired},
			"MaxHold":     {[]holdfast.MutexOption{holdfast.TTL(time.Second), holdfast.MaxHold(2 * time.Second)}, holdfast.LossBound},
			"MaxRenewals": {[]holdfast.MutexOption{holdfast.TTL(time.Second), holdfast.MaxRenewals(2)}, holdfast.LossBound},
		} {
			if lost := lossOf(t, carry(want.opts...)); lost.Reason != want.why || lost.Fence == 0 {
				t.Errorf("%s: lost: %+v", what, lost)
			}
			backend.Release(t, backend.Acquire(t, c.Mutex("a")))
		}
		b.Cleaned(t)
	})
}

// A lease that Do's function has detached is not released when the function returns.
func TestDoMayDetach(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c := b.Client(t, nil)
		var ticket transfer.Ticket
		err := c.Mutex("a").Do(t.Context(), func(ctx context.Context, l *holdfast.Lease) (err error) {
			if ticket, err = transfer.Detach(ctx, l, time.Minute); err == nil && context.Cause(ctx) != holdfast.ErrReleased {
				t.Errorf("the context has ended with %v", context.Cause(ctx))
			}
			return err
		})
		expect.OK(t, err)
		backend.Release(t, adopt(t, c, ticket))
		b.Cleaned(t)
	})
}

// Fault: Many processes have the same ticket, and adopt at the same time. One of them does.
func TestOneOfManyAdopts(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		clients := []*holdfast.Client{b.Client(t, nil), b.Client(t, nil), b.Client(t, nil)}
		for range 20 {
			ticket := detach(t, backend.Acquire(t, clients[0].Mutex("a")))
			heirs := make(chan *holdfast.Lease, 12)
			var all sync.WaitGroup
			for i := range cap(heirs) {
				all.Go(func() {
					heir, err := transfer.Adopt(t.Context(), clients[i%len(clients)], ticket)
					switch {
					case err == nil:
						heirs <- heir
					case !errors.Is(err, holdfast.ErrLost):
						t.Errorf("Adopt: %v", err)
					}
				})
			}
			all.Wait()
			close(heirs)
			expect.Equal(t, "adopters", len(heirs), 1)
			for heir := range heirs {
				backend.Release(t, heir)
			}
		}
		b.Cleaned(t)
	})
}
