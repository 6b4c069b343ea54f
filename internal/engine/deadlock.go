package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/circle"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// An acquire within leases looks for a deadlock once it has waited for lookPeriod, and again after each lookPeriod; after suspectPeriod
// while it has found one that is not certain yet.
const (
	lookPeriod    = 750 * time.Millisecond
	suspectPeriod = 100 * time.Millisecond
)

// looker finds out whether an acquire waits for its own caller, by way of others.
type looker struct {
	l      *Target
	leases []*holdLease // within which the acquire is made
	since  int64        // when it began, by the server's clock, µs
	wait   circle.Wait
	told   map[string]bool // grants to whose waits it was written
}

// acquireWithin acquires l within the leases that w carries. If that is a deadlock, and the acquire is the latest in it, it returns a
// *lock.DeadlockError.
func (l *Target) acquireWithin(ctx context.Context, w *within, end time.Time) (*holdLease, error) {
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k := &looker{l: l, since: l.c.Server.Time(l.Slot())}
	for ; w != nil; w, _ = w.Context.Value(withinKey{}).(*within) {
		for _, lease := range w.lease.singles() {
			if c := lease.g.l.c; c.Space == l.c.Space && c.Server.Addr() == l.c.Server.Addr() {
				k.leases = append(k.leases, lease)
			}
		}
	}
	timer := time.AfterFunc(lookPeriod, func() {
		l.c.Tasks.Run(func() {
			if found := k.look(watched); found != nil {
				cancel(found)
			}
		})
	})
	defer timer.Stop()
	lease, err := l.wait(watched, end)
	if found, is := context.Cause(watched).(*lock.DeadlockError); is && err != nil && ctx.Err() == nil {
		return nil, found
	}
	return lease, err
}

// look looks for a deadlock until ctx ends. It returns a *lock.DeadlockError if the acquire is the youngest in one. As a circle is closed by
// its youngest wait, it looks less often as time goes by, but goes on to tell others that it waits.
func (k *looker) look(ctx context.Context) error {
	k.wait = circle.Wait{
		ID: lock.RandomText()[:8], Name: k.l.Name(), Key: k.l.Keys.Lock, Weight: k.l.Set.Weight, Since: k.since, Stays: k.l.c.Config.IgnoreDeadlocks,
	}
	if k.l.Set.Kind.ByOwner {
		k.wait.Owner = k.l.Set.Owner
	}
	k.told = map[string]bool{}
	defer k.leave()
	var s circle.Suspicion
	for ctx.Err() == nil {
		own, err := k.tell(ctx)
		if errors.Is(err, exec.ErrPermission) {
			return nil // and the server would log each refusal
		}
		pause := lookPeriod
		if n := k.wait.Beat; err == nil && (s.Is() || n&(n-1) == 0 || n%4 == 0) {
			found, err := k.find(ctx, own)
			sure := err == nil && s.Confirm(found)
			switch {
			case sure && found.IsYoungest():
				return &lock.DeadlockError{Circle: found.Holders()}
			case err == nil && s.Is() && !sure:
				pause = suspectPeriod
			}
		}
		select {
		case <-time.After(schedule.Jitter(pause, 10)):
		case <-ctx.Done():
		}
	}
	return nil
}

// tell writes the wait to the server, for each lease that is held, and returns their grants.
func (k *looker) tell(ctx context.Context) (own []string, err error) {
	k.wait.Beat++
	var ended []string
	for _, lease := range k.leases {
		switch grant := lease.g.grant().id; {
		case lease.Err() == nil:
			own = append(own, grant)
			k.told[grant] = true
		case k.told[grant]:
			ended = append(ended, grant)
		}
	}
	if err := k.write(ctx, own, false); err != nil {
		return nil, err
	}
	// Another lease of the hold may be held, for which this caller does not wait.
	ended = slices.DeleteFunc(ended, func(grant string) bool { return slices.Contains(own, grant) })
	if err := k.write(ctx, ended, true); err != nil {
		return nil, err
	}
	for _, grant := range ended {
		delete(k.told, grant)
	}
	return own, nil
}

// write writes the wait to these grants' waits, or removes it if it is over.
func (k *looker) write(ctx context.Context, grants []string, over bool) error {
	ctx, cancel := context.WithTimeout(ctx, k.l.c.Server.AnswerGrace())
	defer cancel()
	errs := make([]error, len(grants))
	var writing sync.WaitGroup
	for i, grant := range grants {
		writing.Go(func() { errs[i] = circle.Tell(ctx, &k.l.c.Keyspace, grant, k.wait, over) })
	}
	writing.Wait()
	return errors.Join(errs...)
}

// find returns the circle that the wait is in, if any.
func (k *looker) find(ctx context.Context, own []string) (circle.Circle, error) {
	ctx, cancel := context.WithTimeout(ctx, k.l.c.Server.AnswerGrace())
	defer cancel()
	g := circle.NewGraph(&k.l.c.Keyspace)
	if err := g.Follow(ctx, k.wait); err != nil {
		return circle.Circle{}, err
	}
	return g.Find(k.wait, own), nil
}

// leave removes the wait from the server.
func (k *looker) leave() {
	_ = k.write(context.Background(), slices.Collect(maps.Keys(k.told)), true)
}
