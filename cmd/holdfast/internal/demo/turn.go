package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// How long the guarded work takes. A draw is slow enough to watch; without a
// lock, all workers would read the same list meanwhile.
const (
	drawTime   = 120 * time.Millisecond
	ledgerTime = 4 * time.Millisecond
)

// turn is one acquisition and what is done under it.
type turn struct {
	w     *worker
	lock  string
	lease *holdfast.Lease // nil when the lock is not used
	reg   register
}

// begin acquires a lock.
func (w *worker) begin(ctx context.Context, lock string) (*turn, error) {
	t := &turn{w: w, lock: lock, reg: register{w.rdb, dataKey(w.Prefix, lock)}}
	asked := now()
	if !w.Locked {
		w.tell(event{Kind: isGrant, Lock: lock, Asked: asked, At: now(), Deadline: now().add(time.Hour)})
		return t, nil
	}
	lease, err := w.locks.Mutex(lock).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	granted := now()
	t.lease = lease
	w.tell(event{Kind: isGrant, Lock: lock, Asked: asked, At: granted, Fence: lease.Fence(), Deadline: at(lease.Deadline())})
	return t, nil
}

// fence is that of the lease.
func (t *turn) fence() uint64 {
	if t.lease == nil {
		return 0
	}
	return t.lease.Fence()
}

// end releases the lock. That it was lost meanwhile is no error: it happens to
// a process that was paused, and is what the registers' fences are for.
func (t *turn) end(ctx context.Context) error {
	e := event{Kind: isEnd, Lock: t.lock, At: now()}
	if t.lease == nil {
		e.Deadline = e.At
		t.w.tell(e)
		return nil
	}
	e.Deadline = at(t.lease.Deadline())
	err := t.lease.Release(ctx)
	t.w.tell(e)
	if errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrAmbiguous) {
		return nil
	}
	return err
}

// drawAll takes part in the lottery until all places have a winner.
func (w *worker) drawAll(ctx context.Context) error {
	for {
		t, err := w.begin(ctx, lottery)
		if err != nil {
			return err
		}
		done, err := t.draw(ctx)
		if err := errors.Join(err, t.end(ctx)); err != nil || done {
			return err
		}
	}
}

// draw adds one winner to the list: read, think, write. It reports whether the
// list was full.
func (t *turn) draw(ctx context.Context) (full bool, err error) {
	text, err := t.reg.read(ctx, t.fence())
	if err != nil {
		return false, notStale(err)
	}
	winners := split(text)
	if len(winners) >= places {
		return true, nil
	}
	if err := sleep(ctx, drawTime); err != nil {
		return false, err
	}
	place := len(winners) + 1
	winner := pickWinner(winners, t.w.Seed)
	if err := t.reg.write(ctx, t.fence(), strings.Join(append(winners, winner), ",")); err != nil {
		return false, notStale(err)
	}
	t.w.tell(event{Kind: isDraw, Lock: t.lock, Fence: t.fence(), Place: place, Winner: winner})
	return false, nil
}

// pickWinner draws one who has not won yet. Equal seeds draw equally.
func pickWinner(winners []string, seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, uint64(len(winners))))
	for {
		name := entrants[rng.IntN(len(entrants))]
		if !slices.Contains(winners, name) {
			return name
		}
	}
}

// keep adds to the ledger, turn after turn, until rest is ordered.
func (w *worker) keep(ctx context.Context) error {
	for {
		t, err := w.begin(ctx, ledger)
		if err != nil {
			return err
		}
		stalls, rests := w.newOrders()
		err = t.add(ctx, stalls)
		if err := errors.Join(err, t.end(ctx)); err != nil || rests {
			return err
		}
	}
}

// newOrders takes the orders that have come during a turn of work.
func (w *worker) newOrders() (stalls, rests bool) {
	for {
		select {
		case o := <-w.orders:
			stalls = stalls || o == stall
			rests = rests || o == rest
		default:
			return stalls, rests
		}
	}
}

// add reads the ledger's total, thinks, and writes one more. A worker that
// stalls stays between the two until it is told to go on, and then writes
// whatever its lease says: that is the careless holder which only a fence stops.
func (t *turn) add(ctx context.Context, stalls bool) error {
	text, err := t.reg.read(ctx, t.fence())
	if err != nil {
		return notStale(err)
	}
	total := 0
	if text != "" {
		if total, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("the ledger has the total %q", text)
		}
	}
	t.w.tell(event{Kind: isRead, Lock: t.lock, Fence: t.fence()})
	late := false
	if stalls {
		if late, err = t.stall(ctx); err != nil {
			return err
		}
	} else if err := sleep(ctx, ledgerTime); err != nil {
		return err
	}
	e := event{Kind: isWrite, Lock: t.lock, Fence: t.fence(), Value: total + 1, Late: late}
	err = t.reg.write(ctx, t.fence(), strconv.Itoa(total+1))
	var stale *staleError
	if errors.As(err, &stale) {
		e.Refused, e.Mark = true, stale.mark
	} else if err != nil {
		return err
	}
	t.w.tell(e)
	return nil
}

// stall waits for the order to go on. It reports whether the lease was lost
// meanwhile, by the first look at it.
func (t *turn) stall(ctx context.Context) (lost bool, err error) {
	t.w.tell(event{Kind: isStall, Lock: t.lock, Fence: t.fence()})
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case o := <-t.w.orders:
			if o != goOn {
				continue
			}
			err := t.lease.Err()
			e := event{Kind: isWoken, Lock: t.lock, Fence: t.fence(), Lost: errors.Is(err, holdfast.ErrLost)}
			if err != nil {
				e.Text = err.Error()
			}
			t.w.tell(e)
			return true, nil
		}
	}
}

// notStale drops the refusal of a fence: whoever met one lost its lease in an
// accident, and has changed nothing.
func notStale(err error) error {
	if _, stale := err.(*staleError); stale {
		return nil
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
