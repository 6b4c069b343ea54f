package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/circle"
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

// look looks for a deadlock until ctx ends. It returns a *lock.DeadlockError if the acquire is the youngest in one.
func (k *looker) look(ctx context.Context) error {
	k.wait = circle.Wait{ID: lock.RandomText()[:8], Name: k.l.Name(), Key: k.l.Keys.Lock, Weight: k.l.Set.Weight, Since: k.since, Stays: k.l.c.Config.IgnoreDeadlocks}
	k.told = map[string]bool{}
	defer k.leave()
	var s circle.Suspicion
	for ctx.Err() == nil {
		pause := lookPeriod
		found, err := k.once(ctx)
		sure := err == nil && s.Confirm(found, k.wait.ID)
		switch {
		case sure && found.IsYoungest():
			return &lock.DeadlockError{Circle: found.Holders()}
		case err == nil && s.Is() && !sure:
			pause = suspectPeriod
		}
		select {
		case <-time.After(schedule.Jitter(pause, 10)):
		case <-ctx.Done():
		}
	}
	return nil
}

// once writes the wait to the server, and returns the circle that it is in, if any.
func (k *looker) once(ctx context.Context) (circle.Circle, error) {
	ctx, cancel := context.WithTimeout(ctx, k.l.c.Server.AnswerGrace())
	defer cancel()
	k.wait.Beat++
	var own []string
	for _, lease := range k.leases {
		grant := lease.g.grant().id
		if lease.Err() != nil {
			continue
		}
		own = append(own, grant)
		k.told[grant] = true
		if err := circle.Tell(ctx, &k.l.c.Keyspace, grant, k.wait, false); err != nil {
			return circle.Circle{}, err
		}
	}
	g := circle.NewGraph(&k.l.c.Keyspace)
	if err := g.Follow(ctx, k.wait); err != nil {
		return circle.Circle{}, err
	}
	return g.Find(k.wait, own), nil
}

// leave removes the wait from the server.
func (k *looker) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), k.l.c.Server.AnswerGrace())
	defer cancel()
	for grant := range k.told {
		_ = circle.Tell(ctx, &k.l.c.Keyspace, grant, k.wait, true)
	}
}
