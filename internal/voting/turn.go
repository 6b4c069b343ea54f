package voting

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// turn decides which goroutine of this process may contend for a lock.
type turn struct {
	free chan struct{} // has an item while it is nobody's turn
	refs int
}

// take waits until it is the caller's turn. If it has to wait, it calls onWait first.
func (q *Quorum) take(ctx context.Context, key string, end time.Time, onWait func()) error {
	limit, stop := engine.TimeUp(end)
	defer stop()
	q.mu.Lock()
	t := q.turns[key]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		q.turns[key] = t
	}
	t.refs++
	q.mu.Unlock()
	select {
	case <-t.free:
		return nil
	default:
	}
	onWait()
	select {
	case <-t.free:
		return nil
	case <-limit:
		q.leave(key)
		return engine.ErrTimeUp
	case <-ctx.Done():
		q.leave(key)
		if engine.IsOver(end) {
			return engine.ErrTimeUp
		}
		return ctx.Err()
	}
}

// pass ends the caller's turn.
func (q *Quorum) pass(key string) {
	q.mu.Lock()
	t := q.turns[key]
	q.mu.Unlock()
	t.free <- struct{}{}
	q.leave(key)
}

func (q *Quorum) leave(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.turns[key]
	t.refs--
	if t.refs == 0 {
		delete(q.turns, key)
	}
}
