package inspector

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/circle"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// watchFor bounds how long a circle is looked at until it is certain, and lookAgain is the time between two looks. Its waiters write their
// waits again meanwhile.
const (
	watchFor  = 3 * time.Second
	lookAgain = 100 * time.Millisecond
)

// Deadlocks returns the deadlocks among all holders that wait for locks within their leases.
func (in *Inspector) Deadlocks(ctx context.Context, p Pattern) ([]*lock.DeadlockError, error) {
	g := circle.NewGraph(in.of)
	prefix := in.of.Space.AllWaits()
	err := in.onEach(ctx, p, func(ctx context.Context, on string) (bool, error) {
		return in.scan(ctx, p, on, prefix, []string{prefix}, func(keys []string) (bool, error) {
			for _, key := range keys {
				if grant := key[len(prefix) : len(key)-1]; wire.IsGrant(grant) {
					if err := g.Add(ctx, grant); err != nil {
						return false, err
					}
				}
			}
			return true, nil
		})
	})
	if err != nil {
		return nil, exec.InTask(p.Task, err)
	}
	circles := g.All()
	found, errs := make([]*lock.DeadlockError, len(circles)), make([]error, len(circles))
	var looking sync.WaitGroup
	for i, c := range circles {
		looking.Go(func() {
			var certain bool
			if certain, errs[i] = in.confirm(ctx, c); certain {
				found[i] = &lock.DeadlockError{Circle: c.Holders()}
			}
		})
	}
	looking.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, exec.InTask(p.Task, err)
		}
	}
	return slices.DeleteFunc(found, func(e *lock.DeadlockError) bool { return e == nil }), nil
}

// confirm looks at a circle again until it is certain or gone. It returns false if it is gone, or not certain in time.
func (in *Inspector) confirm(ctx context.Context, found circle.Circle) (bool, error) {
	var s circle.Suspicion
	w := found.Links[0].Wait
	for end := time.Now().Add(watchFor); time.Now().Before(end); {
		g := circle.NewGraph(in.of)
		if err := g.Add(ctx, w.By); err != nil {
			return false, err
		}
		found := g.Find(w, nil)
		switch {
		case len(found.Links) == 0:
			return false, nil
		case s.Confirm(found):
			return true, nil
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return false, nil
}
