package exec

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// SendAll sends requests to one server at the same time, once. It calls tell once for each, with its answer or error, and returns when
// CommandTimeout has passed, even if the driver has not returned by then. answered reports whether all scripts have returned something,
// if only an error.
func (s *Server) SendAll(all []Request, tell func(i int, a Answer, err error)) (answered bool) {
	work, cancel := context.WithTimeoutCause(context.Background(), s.cfg.CommandTimeout, errTimedOut)
	defer cancel()
	return s.sendTogether(work, all, tell)
}

// Answered is the outcome of one of several requests: its answer, or the error with which the server refused it.
type Answered struct {
	Answer
	Err error
}

// DoTogether sends requests that change nothing to one server, together if the driver can do that, until each is answered or refused. It
// retries temporary failures as Do does. op and name are for the error that it returns if it gives up.
func (s *Server) DoTogether(ctx context.Context, op, name string, all []Request) ([]Answered, error) {
	var mu sync.Mutex // an attempt that was given up may go on beside the next one
	answers, known := make([]Answered, len(all)), make([]bool, len(all))
	_, _, err := Persist(ctx, s, op, name, time.Time{}, func(ctx context.Context) (struct{}, error) {
		var open []Request
		var which []int
		mu.Lock()
		for i, rq := range all {
			if !known[i] {
				open, which = append(open, rq), append(which, i)
			}
		}
		mu.Unlock()
		var met error
		s.sendTogether(ctx, open, func(n int, a Answer, err error) {
			mu.Lock()
			defer mu.Unlock()
			i := which[n]
			fate, kind := Classify(err)
			switch {
			case known[i]:
			case err == nil:
				answers[i].Answer, known[i] = a, true
			case fate == NeverSent || Temporary(kind):
				met = err
			default:
				answers[i].Err, known[i] = s.Failure(all[i].Op, all[i].Name, err), true
			}
		})
		mu.Lock()
		defer mu.Unlock()
		return struct{}{}, met
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// sendTogether sends requests to one server once: on its pipe or, if it has none, several by the driver's Batcher. Without either it sends
// each by itself, at the same time. It calls tell once for each, and returns when ctx ends. answered is as in SendAll.
func (s *Server) sendTogether(ctx context.Context, all []Request, tell func(i int, a Answer, err error)) (answered bool) {
	if len(all) == 0 {
		return true
	}
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
	send := func(i int) {
		text, err := s.runCall(ctx, all[i].Call)
		conclude(i, text, err)
	}
	var others sync.WaitGroup
	for i := range all[1:] {
		others.Go(func() { send(i + 1) })
	}
	send(0)
	others.Wait()
	return !failed.Load()
}

// Node returns the driver's name for the server of a Cluster that has the key, or "" if it is not known.
func (s *Server) Node(key string) string {
	if s.cluster != nil {
		return s.cluster.Node(key)
	}
	return ""
}
