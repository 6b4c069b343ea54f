package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/script"
)

// latch is the lock whose holders are the parties of a latch.
var latch = shared("latch", kind{
	hasParties: true,
	check:      func(s *settings) error { return s.checkParties(maxPermits) },
})

// Latch is a count of parties that have something to do before others go on: it begins with
// the number of parties, each lowers it by one, and who waits goes on when it is 0. It stays so
// until Reset begins it anew, Delete removes it, or nobody has used it for a day.
//
// A party either calls CountDown, or joins first. One that has joined has a lease: if its
// process dies, nobody waits for it for longer than that.
type Latch struct {
	lock *Lock
}

// Latch returns the latch of that name, for so many parties, 1 to 1,000,000: those that use it
// name the same number, or get ErrParties. Its options are those of the leases of parties that
// join it; Key, Weight, Reentrant and Poll are not among them.
func (c *Client) Latch(name string, parties int, opts ...Option) *Latch {
	given := []Option{func(s *settings) { s.kind, s.limit, s.weight = &latch, parties, 1 }}
	return &Latch{c.newLock(name, append(given, opts...))}
}

// IncompleteError says that a latch is open, although some of its parties never counted down:
// they had joined it, and have left or died. It matches ErrIncomplete.
type IncompleteError struct {
	Name    string
	Missing int // so many of them
	Parties int
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("holdfast: latch %q is open, but %d of %d parties never counted down: they left or died", e.Name, e.Missing, e.Parties)
}

// Is makes an IncompleteError match ErrIncomplete.
func (e *IncompleteError) Is(target error) bool { return target == ErrIncomplete }

// Name returns the latch's name.
func (l *Latch) Name() string { return l.lock.name }

// CountDown lowers the count by one, for a party that has not joined. At 0 it stays 0. When all
// the parties that are left have joined, it returns ErrHeld: they count down themselves.
//
// It counts once, however often the request has to be sent; once begun it goes on when ctx ends,
// for as long as RetryTimeout. After an error that is Ambiguous it may count all the same, until
// RetryTimeout, CommandTimeout and a second later. Other errors are as those of Lock.TryAcquire.
func (l *Latch) CountDown(ctx context.Context) error {
	a, err := l.change(ctx, "count down", script.LatchCount, l.lock.set.limit)
	if err != nil {
		return err
	}
	var left int64
	switch {
	case a.Word != "counted" && a.Word != "taken" || a.Ints(&left) != nil:
		return l.lock.malformed("count down")
	case a.Word == "taken":
		return fmt.Errorf("%w: latch %.64q: the parties that are left, %d, have joined, and count down themselves", ErrHeld, l.lock.name, left)
	}
	return nil
}

// Reset begins the count anew, whatever it was. Those who wait for a count that had not come to
// 0 get ErrReset; those for whom it had go on. Parties that had joined lose their leases.
//
// It resets once, however often the request has to be sent. What is said of CountDown's errors
// holds here, too.
func (l *Latch) Reset(ctx context.Context) error {
	return l.reset(ctx, "reset", l.lock.set.limit)
}

// Delete removes the latch from the server, where it would stay until nobody had used it for a day. Whoever uses its
// name next begins a count, with as many parties as it names. For those who wait, and for parties that have joined, it is as
// Reset, whose errors it has. What those who wait have to be told stays for a minute.
func (l *Latch) Delete(ctx context.Context) error { return l.reset(ctx, "delete", 0) }

// reset begins the count anew with so many parties; with 0 it is deleted.
func (l *Latch) reset(ctx context.Context, op string, parties int) error {
	a, err := l.change(ctx, op, script.LatchReset, parties)
	if err == nil && a.Word != "reset" {
		err = l.lock.malformed(op)
	}
	return err
}

// change sends a request that is to be carried out once.
func (l *Latch) change(ctx context.Context, op string, s driver.Script, parties int) (exec.Answer, error) {
	if err := l.lock.ready(ctx); err != nil {
		return exec.Answer{}, err
	}
	return l.lock.callOnce(ctx, request{op: op, script: s, durable: true}, strconv.Itoa(parties))
}

// Count returns how many parties are left. 0: the latch is open.
func (l *Latch) Count(ctx context.Context) (int, error) {
	if err := l.lock.ready(ctx); err != nil {
		return 0, err
	}
	now, err := l.check(ctx, 0)
	return now.left, err
}

// Wait waits until the count is 0. It returns nil when all parties have counted down; an
// *IncompleteError, which matches ErrIncomplete, when the count is 0, but some parties never
// did: they had joined, and have left, or died, and are waited for no longer than their
// lease; and ErrReset when the count was begun anew before it had come to 0: by Reset, or
// because the server has lost it.
//
// It polls nobody: it is notified when the count is 0, and looks for itself when a party may
// have died, and every 30 s, since notifications can be lost. Errors are otherwise as those of
// Lock.Acquire. It leaves nothing behind.
func (l *Latch) Wait(ctx context.Context) error {
	lock := l.lock
	lock.c.tasks.Begin()
	defer lock.c.tasks.End()
	if err := lock.ready(ctx); err != nil {
		return err
	}
	w, err := lock.c.watch(lock)
	if err != nil {
		return err
	}
	defer w.leave()
	var since int64
	for {
		now, err := l.check(ctx, since)
		switch {
		case err == nil && now.since != since && since != 0:
			return fmt.Errorf("%w: %.64q", ErrReset, lock.name)
		case err == nil && now.left == 0 && now.missing > 0:
			return &IncompleteError{Name: lock.name, Missing: now.missing, Parties: lock.set.limit}
		case err == nil && now.left == 0:
			return nil
		case err != nil && (since == 0 || ctx.Err() != nil || !exec.Passing(exec.KindOf(err))):
			return err
		case err == nil:
			since = now.since
		}
		if over := w.wait(ctx, err == nil, duration(now.rest)); over != nil {
			if ctx.Err() != nil {
				return exec.EndedBy(ctx, err)
			}
			return over
		}
	}
}

// counted is how far a latch is.
type latchState struct {
	since   int64 // which count it is
	left    int
	missing int
	rest    int64 // ms until a party may have died; negative if none has joined
}

// look asks about the count that began at since, or, if that is 0, about the present one.
func (l *Latch) check(ctx context.Context, since int64) (latchState, error) {
	lock := l.lock
	a, _, err := lock.c.call(ctx, request{
		op: "look at", lock: lock, script: script.LatchLook,
		args: []string{lock.flags(""), "", strconv.Itoa(lock.set.limit), strconv.FormatInt(since, 10)},
	})
	if err != nil {
		return latchState{}, err
	}
	now := latchState{since: since}
	var count, missing int64
	switch a.Word {
	case "count":
		if a.Ints(&now.since, &count, &missing, &now.rest) == nil && now.since > 0 && count >= 0 && missing >= 0 {
			now.left, now.missing = int(count), int(missing)
			return now, nil
		}
	case "opened":
		if since != 0 && a.Ints(&missing) == nil && missing >= 0 {
			now.missing = int(missing)
			return now, nil
		}
	case "reset":
		if since != 0 {
			return latchState{}, nil
		}
	}
	return latchState{}, lock.malformed("look at")
}

// LatchParty is a party that has joined a latch, and its lease.
type LatchParty struct {
	*Lease
}

// Join makes the caller a party, without waiting. If there is no party left that has neither
// joined nor counted down, it returns ErrHeld. Other errors are as those of Lock.TryAcquire.
//
// The party counts down with LatchParty.CountDown. If its lease ends in another way, because it
// is released, or lost, or its process dies, the count is lowered, too, so that nobody
// waits for it; but who waits is told by ErrIncomplete. So release it in a defer:
//
//	party, err := latch.Join(ctx)
//	if err != nil {
//		return err
//	}
//	defer party.Release(ctx)
//	if err := work(party.Context()); err != nil {
//		return err
//	}
//	return party.CountDown(ctx)
func (l *Latch) Join(ctx context.Context) (*LatchParty, error) {
	lease, err := l.lock.TryAcquire(ctx)
	if errors.Is(err, ErrHeld) {
		return nil, fmt.Errorf("%w: latch %.64q: all parties that are left have joined", ErrHeld, l.lock.name)
	}
	if err != nil {
		return nil, err
	}
	return &LatchParty{lease}, nil
}

// CountDown lowers the latch's count, and ends the lease, as Release does, whose errors it has.
// It counts once, however often the request has to be sent, or the method is called. It returns
// a *LostError when the lease had been lost, and ErrReleased when it had been released: the
// party is then a missing one. After another error it may count or not; Release, which may
// be called then, tries to count it, too.
func (p *LatchParty) CountDown(ctx context.Context) error {
	return p.release(ctx, hasCountedDown)
}

// Parties says who has joined the latch, and has not counted down yet, in no order. It changes
// nothing.
func (l *Latch) Parties(ctx context.Context) ([]Holder, error) { return l.lock.Holders(ctx) }
