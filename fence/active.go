package fence

import (
	"context"
	"sync"
)

// activeRequests is the set of requests inside a Guard. A request enters before it raises the mark, so that any request
// that raises the mark above it afterwards finds it here.
type activeRequests struct {
	mu     sync.Mutex
	byLock map[string]map[*activeRequest]struct{}
}

type activeRequest struct {
	lock  string
	stamp Stamp
	end   func(later Stamp) // makes the handler end because of a later stamp; does not block
	done  chan struct{}     // closed when the request has left
}

func (rs *activeRequests) enter(lock string, stamp Stamp, end func(later Stamp)) *activeRequest {
	r := &activeRequest{lock, stamp, end, make(chan struct{})}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.byLock == nil {
		rs.byLock = map[string]map[*activeRequest]struct{}{}
	}
	if rs.byLock[lock] == nil {
		rs.byLock[lock] = map[*activeRequest]struct{}{}
	}
	rs.byLock[lock][r] = struct{}{}
	return r
}

func (rs *activeRequests) leave(r *activeRequest) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.byLock[r.lock], r)
	if len(rs.byLock[r.lock]) == 0 {
		delete(rs.byLock, r.lock)
	}
	close(r.done)
}

// endOlder ends the requests with lower fences than r's and waits until they have left. Only later requests wait for
// earlier ones, so there is no deadlock.
func (rs *activeRequests) endOlder(ctx context.Context, r *activeRequest) error {
	for {
		older := rs.endOne(r)
		if older == nil {
			return nil
		}
		select {
		case <-older.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// endOne calls the end function of a request with a lower fence than r's, and returns that request. It returns nil if
// there is none.
func (rs *activeRequests) endOne(r *activeRequest) *activeRequest {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for older := range rs.byLock[r.lock] {
		if older.stamp.Fence < r.stamp.Fence {
			older.end(r.stamp) // with mu held, so that its handler has not returned
			return older
		}
	}
	return nil
}
