package quorum

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/schedule"
)

// Election returns the election of that name, which a majority of the nodes decides. Its options are those of the
// leader's lease, as of Mutex. Leaders do not announce themselves: Watch looks once a second.
func (q *Quorum) Election(name string, opts ...engine.Option) *engine.Election {
	l := q.newLock(name, append([]engine.Option{engine.AsElection()}, opts...))
	return engine.NewElection(l, ground{l})
}

// ground is an election on a quorum.
type ground struct{ l *lock }

func (g ground) Ready(ctx context.Context) error { return g.l.ready(ctx) }

func (g ground) MayPass(err error) bool { return g.l.q.curable(err) }

func (g ground) IsOutage(err error) bool { return g.l.q.curable(err) }

// Announce does nothing: those who watch a quorum look once a second.
func (g ground) Announce() {}

// Differ does not compare fences, since each node has its own.
func (g ground) Differ(a, b *engine.Holder) bool {
	return a.Owner != b.Owner || a.Host != b.Host || a.PID != b.PID || a.Foreign != b.Foreign
}

func (g ground) Follow() (wait func(context.Context, bool, time.Duration) error, stop func(), err error) {
	return func(ctx context.Context, _ bool, _ time.Duration) error {
		select {
		case <-time.After(schedule.Jitter(time.Second, 10)):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-g.Closing():
			return exec.ErrClosed
		}
	}, func() {}, nil
}

func (g ground) Closing() <-chan struct{} { return g.l.c.Closing() }
