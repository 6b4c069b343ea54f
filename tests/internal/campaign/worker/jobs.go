package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// Call is one call that wants a job done. It is told of whenever it gets further; the
// latest counts. Times are history.Now's.
type Call struct {
	ID        uint64        `json:"id"` // of the call in its process
	Process   int           `json:"process"`
	Goroutine int           `json:"goroutine"`
	Name      string        `json:"name"`
	Slot      string        `json:"slot,omitempty"`
	Window    time.Duration `json:"window,omitempty"` // if it has no slot

	Fence    uint64 `json:"fence,omitempty"`    // of the run that it was; 0: it has not run the job
	Held     int64  `json:"held,omitempty"`     // when it began, before a look at the lease; 0: that was over
	Result   string `json:"result,omitempty"`   // of it
	Finished int64  `json:"finished,omitempty"` // when it was about to say so; 0: it failed, or was ended
	Returned int64  `json:"returned,omitempty"` // 0: its process did not live to see the answer
	Done     *Done  `json:"done,omitempty"`     // nil after an error
	Error    string `json:"error,omitempty"`
}

// Done is the run of a job that counts.
type Done struct {
	Fence  uint64 `json:"fence"`
	Result string `json:"result"`
	At     int64  `json:"at"`  // in µs, by the server's clock
	Try    int    `json:"try"` // in its window
	Here   bool   `json:"here"`
}

// slot is the window with a name that it is time for, by the clock that all processes share.
func (w *Want) slot() string {
	if !w.Slots {
		return ""
	}
	return fmt.Sprint(history.Now() / int64(w.Window))
}

// errJob is of runs that fail.
var errJob = errors.New("the job failed")

// job wants a job done, which fails now and then, or does not look whether its lease is lost.
func (r *routine) job(ctx context.Context, w Want, slot string) error {
	p := r.part
	c := Call{ID: p.calls.Add(1), Process: pid, Goroutine: r.number, Name: w.Name, Slot: slot, Window: w.Window}
	a := r.ask(w)
	done, err := p.client().(Jobs).Do(ctx, w, slot, func(lease Lease) (string, error) {
		c.Fence, c.Result, c.Held = lease.Fence(), fmt.Sprint(pid, " ", c.ID), history.Now()
		if lease.Err() != nil {
			c.Held = 0
		}
		p.say.line(CallLine, c)
		_, lost := r.use(w, a, lease)
		a = nil
		if w.Fixed && w.TTL < time.Second && r.chance(10) { // it takes longer than its lease
			select {
			case <-time.After(w.TTL + w.TTL/4):
			case <-p.draining:
			}
			lost = true
		}
		if !p.isDraining() && (lost && r.chance(50) || r.chance(30)) {
			return "", errJob
		}
		c.Finished = history.Now()
		p.say.line(CallLine, c)
		return c.Result, nil
	})
	c.Returned = history.Now()
	a.gaveUp()
	if err == nil {
		c.Done = &done
	} else {
		c.Error = err.Error()
	}
	p.say.line(CallLine, c)
	if err != nil && ctx.Err() == nil && !errors.Is(err, errJob) {
		p.say.line(FailureLine, Failure{"job", err.Error()})
	}
	return err
}

// lead is elected, for a term or several.
func (r *routine) lead(ctx context.Context, w Want) error {
	p := r.part
	a := r.ask(w)
	err := p.client().(Elections).Lead(ctx, w, func(term Lease) bool {
		r.use(w, a, term)
		a = r.ask(w)
		return !p.isDraining() && r.chance(50)
	})
	a.gaveUp()
	if err != nil && ctx.Err() == nil {
		p.say.line(FailureLine, Failure{"lead", err.Error()})
	}
	return err
}
