package worker

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// Deadlock is what an acquire was told that failed because it was in a circle of callers that wait for each other. Times are history.Now's.
type Deadlock struct {
	Call   int64     `json:"call"`
	Return int64     `json:"return"`
	Circle []Knotted `json:"circle"` // the caller first
}

// Knotted is a process of a circle. It waits for the lock that the next one holds.
type Knotted struct {
	Process int    `json:"process"`
	Name    string `json:"name"` // of the lock that it holds
}

// nested requests a lock and, while it holds that, the others, one within the lease of the one before.
func (r *routine) nested(ctx context.Context, w Want) error {
	p, others := r.part, w.With
	w.With = nil
	a, called := r.ask(w), history.Now()
	lease, err := p.client().Acquire(ctx, w)
	if err != nil {
		a.gaveUp()
		var told *holdfast.DeadlockError
		switch {
		case errors.As(err, &told):
			d := Deadlock{Call: called, Return: history.Now()}
			for _, h := range told.Circle {
				d.Circle = append(d.Circle, Knotted{h.PID, h.Name})
			}
			p.say.line(DeadlockLine, d)
		case ctx.Err() == nil:
			p.say.line(FailureLine, Failure{"acquire", err.Error()})
		}
		return err
	}
	a.granted(w, lease)
	if len(others) > 0 {
		next := w
		next.Name, next.With = others[0], others[1:]
		err = r.nested(lease.(held).Context(ctx), next)
	} else {
		r.hold(w, a, lease)
	}
	a.released(lease.Deadline())
	if err := lease.Release(ctx); err != nil {
		p.say.line(FailureLine, Failure{"release", err.Error()})
	}
	return err
}
