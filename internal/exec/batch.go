package exec

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// SendAll sends requests to one server at the same time, once: on its pipe or, if it has none, several by the driver's Batcher. Without
// either it sends each by itself. It calls tell once for each, with its answer or error, and returns when CommandTimeout has passed, even
// if the driver has not returned by then. answered reports whether all scripts have returned something, if only an error.
func (s *Server) SendAll(all []Request, tell func(i int, a Answer, err error)) (answered bool) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), s.cfg.CommandTimeout, errTimedOut)
	defer cancel()
	sent := clock.Now()
	told := make([]atomic.Bool, len(all))
	var failed atomic.Bool
	conclude := func(i int, text string, err error) {
		if told[i].Swap(true) {
			return
		}
		if err != nil {
			failed.Store(true)
		} else {
			err = s.heard(all[i].Slot, sent, text)
		}
		tell(i, Answer{text, sent}, err)
	}
	if len(all) > 1 && s.batcher != nil && s.pipeFor(&all[0].Call) == nil {
		calls := make([]driver.Call, len(all))
		for i, rq := range all {
			calls[i] = rq.Call
		}
		_, _ = shielded(ctx, s, func(ctx context.Context) (_ struct{}, met error) {
			var mu sync.Mutex
			s.batcher.RunAll(ctx, calls, func(i int, text string, err error) {
				conclude(i, text, err)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					met = err
				}
			})
			return struct{}{}, met
		})
		for i := range all {
			conclude(i, "", ctx.Err()) // unless the driver has told it
		}
		return !failed.Load()
	}
	var sending sync.WaitGroup
	for i, rq := range all {
		sending.Go(func() {
			text, err := s.runCall(ctx, rq.Call)
			conclude(i, text, err)
		})
	}
	sending.Wait()
	return !failed.Load()
}

// Node returns the driver's name for the server of a Cluster that has the key, or "" if it is not known.
func (s *Server) Node(key string) string {
	if s.cluster != nil {
		return s.cluster.Node(key)
	}
	return ""
}
