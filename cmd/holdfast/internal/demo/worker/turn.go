package worker

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

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history"
)

// How long the guarded work takes. A draw is slow enough to watch; without a lock, all workers would read the same
// list meanwhile.
const (
	drawTime   = 120 * time.Millisecond
	ledgerTime = 4 * time.Millisecond
)

// turn is one acquisition of a lock, and the work under it.
type turn struct {
	w     *worker
	lock  string
	lease *holdfast.Lease // nil if the lock is not used
	reg   register
}

// begin acquires a lock.
func (w *worker) begin(ctx context.Context, lock string) (*turn, error) {
	t := &turn{w: w, lock: lock, reg: register{w.rdb, RegisterKey(w.Prefix, lock)}}
	asked := history.Now()
	if !w.Locked {
		w.report(history.Event{Kind: history.Granted, Lock: lock, Asked: asked, At: history.Now(), Deadline: history.Now().Add(time.Hour)})
		return t, nil
	}
	lease, err := w.locks.Mutex(lock).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	granted := history.Now()
	t.lease = lease
	w.report(history.Event{Kind: history.Granted, Lock: lock, Asked: asked, At: granted, Fence: lease.Fence(), Deadline: history.At(lease.Deadline())})
	return t, nil
}

// fence is the lease's fence.
func (t *turn) fence() uint64 {
	if t.lease == nil {
		return 0
	}
	return t.lease.Fence()
}

// end releases the lock. A lost lease is not an error: processes that were paused lose theirs, and the registers refuse
// their fences.
func (t *turn) end(ctx context.Context) error {
	e := history.Event{Kind: history.Released, Lock: t.lock, At: history.Now()}
	if t.lease == nil {
		e.Deadline = e.At
		t.w.report(e)
		return nil
	}
	e.Deadline = history.At(t.lease.Deadline())
	err := t.lease.Release(ctx)
	t.w.report(e)
	if errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrAmbiguous) {
		return nil
	}
	return err
}

// drawAll takes part in the lottery until every place has a winner.
func (w *worker) drawAll(ctx context.Context) error {
	return w.repeat(ctx, history.Lottery, func(t *turn) (done bool, err error) { return t.draw(ctx) })
}

// keepLedger adds to the ledger until Stop is ordered.
func (w *worker) keepLedger(ctx context.Context) error {
	return w.repeat(ctx, history.Ledger, func(t *turn) (done bool, err error) {
		stall, stop := w.newOrders()
		return stop, t.addToLedger(ctx, stall)
	})
}

// repeat takes one turn after another until work is done.
func (w *worker) repeat(ctx context.Context, lock string, work func(*turn) (done bool, err error)) error {
	for {
		t, err := w.begin(ctx, lock)
		if err != nil {
			return err
		}
		done, err := work(t)
		if err := errors.Join(err, t.end(ctx)); err != nil || done {
			return err
		}
	}
}

// draw adds one winner to the list: read, think, write. It reports whether the list is full.
func (t *turn) draw(ctx context.Context) (full bool, err error) {
	text, err := t.reg.read(ctx, t.fence())
	if err != nil {
		return false, ignoreStale(err)
	}
	winners := SplitNames(text)
	if len(winners) >= history.Places {
		return true, nil
	}
	if err := sleep(ctx, drawTime); err != nil {
		return false, err
	}
	place := len(winners) + 1
	winner := pickWinner(winners, t.w.Seed)
	if err := t.reg.write(ctx, t.fence(), strings.Join(append(winners, winner), ",")); err != nil {
		return false, ignoreStale(err)
	}
	t.w.report(history.Event{Kind: history.Drew, Lock: t.lock, Fence: t.fence(), Place: place, Winner: winner})
	return false, nil
}

// pickWinner draws an entrant who has not won yet. Workers with the same seed draw the same.
func pickWinner(winners []string, seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, uint64(len(winners))))
	for {
		name := Entrants[rng.IntN(len(Entrants))]
		if !slices.Contains(winners, name) {
			return name
		}
	}
}

// newOrders takes the orders that have arrived during a turn.
func (w *worker) newOrders() (stall, stop bool) {
	for {
		select {
		case o := <-w.orders:
			stall = stall || o == Stall
			stop = stop || o == Stop
		default:
			return stall, stop
		}
	}
}

// addToLedger reads the total, thinks, and writes one more. A worker that stalls stays between the two until it is told
// to go on, and then writes whatever its lease says: only a fence stops such a careless holder.
func (t *turn) addToLedger(ctx context.Context, stall bool) error {
	text, err := t.reg.read(ctx, t.fence())
	if err != nil {
		return ignoreStale(err)
	}
	total := 0
	if text != "" {
		if total, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("the ledger has the total %q", text)
		}
	}
	t.w.report(history.Event{Kind: history.Read, Lock: t.lock, Fence: t.fence()})
	think := func() error { return sleep(ctx, ledgerTime) }
	if stall {
		think = func() error { return t.stall(ctx) }
	}
	if err := think(); err != nil {
		return err
	}
	e := history.Event{Kind: history.Wrote, Lock: t.lock, Fence: t.fence(), Value: total + 1, Late: stall}
	err = t.reg.write(ctx, t.fence(), strconv.Itoa(total+1))
	var stale *staleError
	if errors.As(err, &stale) {
		e.Refused, e.Highest = true, stale.highest
	} else if err != nil {
		return err
	}
	t.w.report(e)
	return nil
}

// stall waits for the order to go on, and then asks the lease whether it is lost.
func (t *turn) stall(ctx context.Context) error {
	t.w.report(history.Event{Kind: history.Stalled, Lock: t.lock, Fence: t.fence()})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-t.w.orders:
			if o != GoOn {
				continue
			}
			e := history.Event{Kind: history.Woke, Lock: t.lock, Fence: t.fence()}
			var lost *holdfast.LostError
			if errors.As(t.lease.Err(), &lost) {
				said := *lost
				said.Err = nil // the line has no room to say how late this process was
				e.Lost, e.Text = true, said.Error()
			}
			t.w.report(e)
			return nil
		}
	}
}

// ignoreStale drops the refusal of a fence: the lease was lost in an accident, and nothing has changed.
func ignoreStale(err error) error {
	var stale *staleError
	if errors.As(err, &stale) {
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
