package voting

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// AsElection implements engine.Electoral. Leaders announce nothing.
func (l *mutex) AsElection() engine.Electorate {
	own := *l
	own.parts = make([]*engine.Target, len(l.parts))
	for i, p := range l.parts {
		own.parts[i] = p.With(kind.Apart(kind.SeenAsElection))
	}
	return elected{&own}
}

// elected is a lock whose holders are leaders. Those who follow them look once a second.
type elected struct{ *mutex }

func (l elected) Ready(ctx context.Context) error { return l.ready(ctx) }

func (l elected) MayPass(err error) bool { return l.q.curable(err) }

func (elected) Announce() {}

// Differ ignores fences, since each node has its own.
func (elected) Differ(a, b *lock.Holder) bool { return !isSameProcess(a, b) }

func (l elected) Closing() <-chan struct{} { return l.c.Closing }

func (l elected) Follow() (engine.Follower, error) { return l, nil }

func (l elected) Wait(ctx context.Context, _ bool, _ time.Duration) error {
	select {
	case <-time.After(schedule.Jitter(time.Second, 10)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.c.Closing:
		return exec.ErrClosed
	}
}

func (elected) Leave() {}
