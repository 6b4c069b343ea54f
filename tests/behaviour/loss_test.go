package behaviour

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// told is a way in which a holder learns that its lease is lost.
var told = map[string]func(ctx context.Context, l *holdfast.Lease) error{
	"Extend":  func(ctx context.Context, l *holdfast.Lease) error { return l.Extend(ctx, time.Minute) },
	"Release": func(ctx context.Context, l *holdfast.Lease) error { return l.Release(ctx) },
	"a renewal": func(_ context.Context, l *holdfast.Lease) error {
		<-l.Done()
		return l.Err()
	},
}

// renewed is the TTL of leases that are to be renewed soon, and not to expire before, on a slow machine.
const renewed = 9 * time.Second

// wantLoss requires that err is a loss for that reason, brought about by that party.
func wantLoss(t testing.TB, what string, err error, reason holdfast.LossReason, by string) {
	t.Helper()
	var lost *holdfast.LostError
	if !errors.As(err, &lost) || lost.Reason != reason || lost.By != by {
		t.Errorf("%s: %v, %+v; want %q by %q", what, err, lost, reason, by)
	}
	if by != "" && !strings.Contains(err.Error(), "by "+by) {
		t.Errorf("%s: %q does not say who did it", what, err)
	}
}

// A holder is told whether its lock was deleted or somebody else has it.
func TestALockThatWasDeletedIsToldFromOneThatWasTaken(t *testing.T) {
	backend.EachLong(t, func(t *testing.T, b *backend.Backend) {
		c, other := b.Client(t, nil), b.Client(t, nil)
		rdb, ctx := b.Redis(t), context.Background()
		for kind, lock := range breakable {
			s := expect.Of(lock(c, holdfast.TTL(time.Minute)).Status(ctx)).OK(t)
			key := s.Key
			for way, tell := range told {
				terms := holdfast.Options(holdfast.TTL(time.Minute), holdfast.NoRenew()) // no renewal comes between a deletion and what follows
				if way == "a renewal" {
					if terms = holdfast.TTL(renewed); kind != "mutex" && kind != "semaphore" {
						continue // that would take long
					}
				}
				lease := backend.Acquire(t, lock(c, terms))
				rdb.Del(ctx, key)
				wantLoss(t, kind+" that was deleted, told by "+way, tell(ctx, lease), holdfast.LossDeleted, "")
				rdb.Del(ctx, key)

				lease = backend.Acquire(t, lock(c, terms))
				rdb.Del(ctx, key)
				next := backend.Acquire(t, lock(other, holdfast.TTL(time.Minute)))
				wantLoss(t, kind+" that was taken, told by "+way, tell(ctx, lease), holdfast.LossTaken, "")
				backend.Release(t, next)
			}
		}
	})
}

// A party of a barrier, a run of a job and a lease that changes sides are told of a deletion, too.
func TestADeletionIsToldInEveryWay(t *testing.T) {
	backend.Each(t, func(t *testing.T, b *backend.Backend) {
		c, rdb, ctx := b.Client(t, nil), b.Redis(t), context.Background()
		party, err := barrier.New(c, "bar", 2).Join(ctx)
		expect.OK(t, err)
		rdb.Del(ctx, "holdfast:{bar}")
		_, err = party.Await(ctx)
		wantLoss(t, "Await", err, holdfast.LossDeleted, "")

		rw := c.RWMutex("rw")
		writer := backend.Acquire(t, rw.Writer())
		rdb.Del(ctx, "holdfast:{rw}")
		_, err = rw.Downgrade(ctx, writer)
		wantLoss(t, "Downgrade", err, holdfast.LossDeleted, "")
		_ = writer.Release(ctx)
		reader := backend.Acquire(t, rw.Reader())
		rdb.Del(ctx, "holdfast:{rw}")
		_, err = rw.TryUpgrade(ctx, reader)
		wantLoss(t, "TryUpgrade", err, holdfast.LossDeleted, "")

		_, err = once.New(c, "job", once.Every(time.Hour)).Do(ctx, func(ctx context.Context, _ *holdfast.Lease) (string, error) {
			return "", rdb.Del(ctx, "holdfast:{job}").Err()
		})
		wantLoss(t, "the completion of a job", err, holdfast.LossDeleted, "")

		_, err = once.New(c, "job", once.Every(time.Hour)).Do(ctx, func(ctx context.Context, _ *holdfast.Lease) (string, error) {
			return "", rdb.Set(ctx, "holdfast:{job}", "another's", time.Minute).Err()
		})
		wantLoss(t, "the completion of a job whose lock is another's", err, holdfast.LossTaken, "")
	})
}

// The holder whose lease ReleaseOwner has ended learns that, even if the lock has another holder by then, or none, and even
// if other leases of the owner end first.
func TestReleaseOwnerSupersedesALease(t *testing.T) {
	backend.EachLong(t, func(t *testing.T, b *backend.Backend) {
		c, other := b.Client(t, nil), b.Client(t, nil)
		ctx := context.Background()
		long := c.OwnerMutex("a", "job-7", holdfast.TTL(time.Minute))
		short := c.OwnerMutex("a", "job-7", holdfast.TTL(renewed))
		release := func() {
			t.Helper()
			expect.OK(t, expect.ErrOf(other.ReleaseOwner(ctx, "a", "job-7")))
		}
		for way, tell := range told {
			lease := backend.Acquire(t, short)
			release()
			wantLoss(t, "the only lease, told by "+way, tell(ctx, lease), holdfast.LossSuperseded, "job-7")

			kept := backend.Acquire(t, long)
			lease = backend.Acquire(t, short)
			second := backend.Acquire(t, short)
			release()
			release()
			wantLoss(t, "one of three, told by "+way, tell(ctx, lease), holdfast.LossSuperseded, "job-7")
			backend.Release(t, kept)
			wantLoss(t, "the last to be told by "+way, tell(ctx, second), holdfast.LossSuperseded, "job-7")

			lease = backend.Acquire(t, short)
			next := backend.Start(t, other.OwnerMutex("a", "job-8"))
			backend.Waiters(t, long, 1)
			release()
			after := backend.Receive(t, next)
			wantLoss(t, "a lease whose lock another owner has, told by "+way, tell(ctx, lease), holdfast.LossSuperseded, "job-7")
			backend.Release(t, after)
		}
		b.Cleaned(t)
	})
}

// A party of a latch learns whether the latch was reset or deleted.
func TestResetSupersedesTheParties(t *testing.T) {
	backend.EachLong(t, func(t *testing.T, b *backend.Backend) {
		c, ctx := b.Client(t, nil), context.Background()
		theLatch := latch.New(c, "l", 2, holdfast.TTL(renewed))
		told := map[string]func(p *latch.Party) error{
			"CountDown": func(p *latch.Party) error { return p.CountDown(ctx) },
			"Leave":     func(p *latch.Party) error { return p.Leave(ctx) },
			"a renewal": func(p *latch.Party) error { <-p.Lease().Done(); return p.Lease().Err() },
		}
		for how, end := range map[string]func() error{
			"reset":   func() error { return theLatch.Reset(ctx) },
			"deleted": func() error { return theLatch.Delete(ctx) },
			"deleted by an operator": func() error {
				return b.Redis(t).Del(ctx, "holdfast:{l}").Err()
			},
		} {
			reason := holdfast.LossSuperseded
			if strings.HasPrefix(how, "deleted") {
				reason = holdfast.LossDeleted
			}
			for way, tell := range told {
				party := expect.Of(theLatch.Register(ctx)).OK(t)
				expect.OK(t, end())
				wantLoss(t, "a party of a latch that was "+how+", told by "+way, tell(party), reason, "")
			}
			// The lease of a party that has left was not ended by the reset.
			party := expect.Of(theLatch.Register(ctx)).OK(t)
			expect.Err(t, "CountDown after the latch was "+how, party.CountDown(ctx), nil)
			expect.OK(t, theLatch.Reset(ctx))
		}
	})
}
