package fence

import (
	"context"
	"sync"
)

// passages knows which requests are inside a Guard. A request enters before it raises
// the mark, so that whoever raises the mark above it afterwards finds it here.
type passages struct {
	mu     sync.Mutex
	inside map[string]map[*passage]struct{} // by lock
}

// passage is one request inside.
type passage struct {
	lock  string
	stamp Stamp
	hurry func(later Stamp) // tells its handler that there is a later one; does not block
	left  chan struct{}     // closed when it has left
}

func (ps *passages) enter(lock string, stamp Stamp, hurry func(later Stamp)) *passage {
	p := &passage{lock, stamp, hurry, make(chan struct{})}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.inside == nil {
		ps.inside = map[string]map[*passage]struct{}{}
	}
	if ps.inside[lock] == nil {
		ps.inside[lock] = map[*passage]struct{}{}
	}
	ps.inside[lock][p] = struct{}{}
	return p
}

func (ps *passages) leave(p *passage) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.inside[p.lock], p)
	if len(ps.inside[p.lock]) == 0 {
		delete(ps.inside, p.lock)
	}
	close(p.left)
}

// awaitOlder tells those inside with a lower fence than p's to hurry, and waits until
// they have left. Of two that are let in, only the later waits for the earlier, so
// all come to an end.
func (ps *passages) awaitOlder(ctx context.Context, p *passage) error {
	for {
		older := ps.older(p)
		if older == nil {
			return nil
		}
		select {
		case <-older.left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// older returns a request with a lower fence than p's, told to hurry, or nil.
func (ps *passages) older(p *passage) *passage {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for q := range ps.inside[p.lock] {
		if q.stamp.Fence < p.stamp.Fence {
			q.hurry(p.stamp) // under the lock: its handler has not returned
			return q
		}
	}
	return nil
}
