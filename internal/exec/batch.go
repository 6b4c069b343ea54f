package exec

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// BatchReply is the reply to a batch.
type BatchReply interface {
	Time() int64 // by the server's clock, µs
}

// BatchCall is a call for several items. Parse reads its reply.
type BatchCall[R BatchReply] interface {
	Call() driver.Call
	Parse(text string) (R, error)
}

// Batch is one call for several items.
type Batch[R BatchReply] struct {
	Slot   uint16 // as in Request
	Script BatchCall[R]
}

// Outcome is the outcome of a batch.
type Outcome[R BatchReply] struct {
	Reply R
	Sent  clock.Instant
	Heard clock.Instant // when it was answered
	Err   error         // if not nil, only Sent is set besides
}

// SendAll sends all items in one batch or, if apart is set, each in a batch of its own at the same time. It calls tell once for each batch:
// with its answer, or after CommandTimeout, even if the driver has not returned by then. answered reports whether all batches succeeded.
func SendAll[T any, R BatchReply](s *Server, all []T, apart bool, compose func([]T) Batch[R], tell func([]T, Outcome[R])) (answered bool) {
	work, cancel := context.WithTimeoutCause(context.Background(), s.cfg.CommandTimeout, errTimedOut)
	defer cancel()
	n := len(all)
	if apart {
		n = 1
	}
	var parts [][]T
	var batches []Batch[R]
	var calls []driver.Call
	for i := 0; i < len(all); i += n {
		b := compose(all[i : i+n])
		parts, batches, calls = append(parts, all[i:i+n]), append(batches, b), append(calls, b.Script.Call())
	}
	told := make([]atomic.Bool, len(batches))
	var failed atomic.Bool
	sent := clock.Now()
	conclude := func(i int, text string, err error) {
		if err != nil {
			failed.Store(true)
		}
		if !told[i].Swap(true) {
			tell(parts[i], outcome(s, &batches[i], sent, text, err))
		}
	}
	stop := context.AfterFunc(work, func() {
		for i := range batches {
			conclude(i, "", work.Err())
		}
	})
	defer stop()
	if len(calls) == 1 {
		text, err := s.runCall(work, calls[0])
		conclude(0, text, err)
	} else {
		s.runAll(work, calls, conclude)
	}
	return !failed.Load()
}

// outcome reads the reply to a batch that was sent at sent.
func outcome[R BatchReply](s *Server, b *Batch[R], sent clock.Instant, text string, err error) Outcome[R] {
	o := Outcome[R]{Sent: sent, Err: err}
	if err == nil {
		o.Reply, o.Err = b.Script.Parse(text)
	}
	if o.Err == nil {
		o.Heard = clock.Now()
		s.RTT.observe(o.Heard.Mono.Sub(sent.Mono))
		s.clocks.heard(b.Slot, sent, o.Reply.Time())
	}
	return o
}

// runAll runs calls to one server together: on its pipe or, if it has none, by the driver's Batcher. Without either it runs each call by
// itself.
func (s *Server) runAll(ctx context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	if s.batcher != nil && s.pipeFor(&calls[0]) == nil {
		_, _ = shielded(ctx, s, func(ctx context.Context) (_ struct{}, met error) {
			var mu sync.Mutex
			s.batcher.RunAll(ctx, calls, func(i int, reply string, err error) {
				tell(i, reply, err)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					met = err
				}
			})
			return struct{}{}, met
		})
		return
	}
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			reply, err := s.runCall(ctx, call)
			tell(i, reply, err)
		})
	}
	all.Wait()
}

// Node returns the driver's name for the server of a Cluster that has the key, or "" if it is not known.
func (s *Server) Node(key string) string {
	if s.cluster != nil {
		return s.cluster.Node(key)
	}
	return ""
}
