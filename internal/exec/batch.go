package exec

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// BatchReply is the reply to a batch.
type BatchReply interface {
	Time() int64 // the server's, µs; 0 if the reply does not have it
}

// BatchCall is a call for several items, and reads its reply.
type BatchCall[R BatchReply] interface {
	Call() driver.Call
	Parse(text string) (R, error)
}

// Batch is one call for several items.
type Batch[R BatchReply] struct {
	Slot    uint16   // as in Request
	Slots   []uint16 // of the other items, if it goes to one server for all of them
	Script  BatchCall[R]
	Command BatchCall[R]  // DELIFEQ, if it does the same as the script; or nil
	Wait    time.Duration // how long the callers wait, if that is longer than CommandTimeout
	Waited  bool          // callers wait for it, so it takes the fastest way there is
}

// Outcome is what became of a batch.
type Outcome[R BatchReply] struct {
	Reply R
	Sent  clock.Instant
	Heard clock.Instant // if it was answered, and the reply has the time
	Err   error         // if it is not nil, only Sent is set besides
}

// MayBeDone reports whether a batch that failed with err may have been carried out for some of its items, or may still be.
func MayBeDone(err error) bool {
	fate, _ := Classify(err)
	return fate == Unknown
}

// SendAll sends one batch of all items or, if they go apart, a batch of each.
func SendAll[T any, R BatchReply](s *Server, all []T, apart bool, compose func([]T) Batch[R], tell func([]T, Outcome[R])) (answered bool) {
	if len(all) == 1 || !apart {
		return sendBatch(s, compose(all), len(all) > 1, func(o Outcome[R]) { tell(all, o) })
	}
	batches := make([]Batch[R], len(all))
	for i := range all {
		batches[i] = compose(all[i : i+1])
	}
	return sendApart(s, batches, func(i int, o Outcome[R]) { tell(all[i:i+1], o) })
}

// sendBatch sends a batch once, and tells once what became of it: its answer, or that it was given up after
// CommandTimeout, even if the driver does not return then. several says whether the batch has more than one item.
func sendBatch[R BatchReply](s *Server, b Batch[R], several bool, tell func(Outcome[R])) (answered bool) {
	if b.Waited && s.IsPrompt() {
		if answered, sent := sendFast(s, b, several, tell); sent {
			return answered
		}
	}
	work, cancel := context.WithTimeout(context.Background(), max(s.cfg.CommandTimeout, b.Wait))
	defer cancel()
	sent, trying := clock.Now(), s.trying()
	inTime := context.AfterFunc(work, func() {
		s.tried(trying, work.Err())
		tell(Outcome[R]{Sent: sent, Err: work.Err()})
	})
	by, text, err := runBatch(work, s, s.driver.Run, b)
	s.tried(trying, err)
	if !inTime() {
		return false
	}
	tell(outcome(s, &b, by, sent, text, err))
	return err == nil
}

// maxShared is how many batches of several items use a driver's RunPrompt at once. With a server that is near and answers,
// there are never more: two of acquires and two of releases. With one that is far, sharing the client library's connections costs less.
const maxShared = 4

// sendFast is sendBatch on a driver's RunPrompt. If that cannot send the batch now, sent is false.
func sendFast[R BatchReply](s *Server, b Batch[R], several bool, tell func(Outcome[R])) (answered, sent bool) {
	if several {
		defer s.shared.Add(-1)
		if s.shared.Add(1) > maxShared {
			return false, false
		}
	}
	return SendPromptly(context.Background(), s, b, tell)
}

// IsPrompt reports whether SendPromptly may be called.
func (s *Server) IsPrompt() bool { return s.prompt != nil && !s.InCluster() }

// SendPromptly sends a batch with the driver's RunPrompt in the goroutine of its caller, and returns as soon as ctx ends. It
// calls tell with the outcome unless ctx ended first. If sent is false, the batch was not sent, and tell was not called.
func SendPromptly[R BatchReply](ctx context.Context, s *Server, b Batch[R], tell func(Outcome[R])) (answered, sent bool) {
	began, trying := clock.Now(), s.trying()
	deadline := time.Now().Add(max(s.cfg.CommandTimeout, b.Wait)) // the connection's, so no timer is needed
	by, text, err := runBatch(ctx, s, func(ctx context.Context, c driver.Call) (string, error) { return s.prompt.RunPrompt(ctx, deadline, c) }, b)
	if err != nil {
		if errors.Is(err, driver.ErrNotSent) {
			return false, false
		}
		if ctx.Err() != nil {
			return false, true // the attempt is taken back, and that shows whether the server answers
		}
	}
	s.tried(trying, err)
	tell(outcome(s, &b, by, began, text, err))
	return err == nil, true
}

// sendApart sends batches for one server of a Cluster together, and tells of each what sendBatch does.
func sendApart[R BatchReply](s *Server, all []Batch[R], tell func(i int, o Outcome[R])) (answered bool) {
	work, cancel := context.WithTimeout(context.Background(), s.cfg.CommandTimeout)
	defer cancel()
	calls := make([]driver.Call, len(all))
	for i, b := range all {
		calls[i] = b.first().Call()
	}
	told := make([]atomic.Bool, len(all))
	var failed atomic.Bool
	sent, trying := clock.Now(), s.trying()
	stop := context.AfterFunc(work, func() {
		s.tried(trying, work.Err())
		for i := range all {
			if !told[i].Swap(true) {
				tell(i, Outcome[R]{Sent: sent, Err: work.Err()})
			}
		}
	})
	defer stop()
	conclude := func(i int, by BatchCall[R], text string, err error) {
		s.tried(trying, err)
		if err != nil {
			failed.Store(true)
		}
		if !told[i].Swap(true) {
			tell(i, outcome(s, &all[i], by, sent, text, err))
		}
	}
	var mu sync.Mutex // guards scripted
	var scripted []int
	s.runAll(work, calls, func(i int, text string, err error) {
		if all[i].Command != nil && IsLacking(err) {
			mu.Lock()
			defer mu.Unlock()
			scripted = append(scripted, i)
			return
		}
		conclude(i, all[i].first(), text, err)
	})
	if len(scripted) > 0 {
		s.native.Store(false)
		calls = nil
		for _, i := range scripted {
			calls = append(calls, all[i].Script.Call())
		}
		s.runAll(work, calls, func(n int, text string, err error) { conclude(scripted[n], all[scripted[n]].Script, text, err) })
	}
	return !failed.Load()
}

// first is the call that is tried first.
func (b *Batch[R]) first() BatchCall[R] {
	if b.Command != nil {
		return b.Command
	}
	return b.Script
}

// runBatch sends a batch, and returns the call that was answered, with its reply. A batch whose command is refused
// because the server does not have it, or not for this user, goes by the script, and so do all after it.
func runBatch[R BatchReply](ctx context.Context, s *Server, run func(context.Context, driver.Call) (string, error), b Batch[R]) (by BatchCall[R], text string, err error) {
	by = b.first()
	text, err = run(ctx, by.Call())
	if b.Command == nil || !IsLacking(err) {
		return by, text, err
	}
	s.native.Store(false)
	text, err = run(ctx, b.Script.Call())
	return b.Script, text, err
}

// HasDeleteIfEqual reports whether the server has DELIFEQ, as far as is known.
func (s *Server) HasDeleteIfEqual() bool { return s.native.Load() }

// IsLacking reports whether an error says that a command cannot be used, now or later. An error of a server or a proxy
// that is of no known kind is taken for that.
func IsLacking(err error) bool {
	if err == nil {
		return false
	}
	if fate, kind := Classify(err); fate == Refused {
		return kind == nil || kind == ErrPermission || kind == ErrUnsupported
	}
	return false
}

// outcome reads the reply to a batch that was sent then.
func outcome[R BatchReply](s *Server, b *Batch[R], by BatchCall[R], sent clock.Instant, text string, err error) Outcome[R] {
	o := Outcome[R]{Sent: sent, Err: err}
	if err == nil {
		o.Reply, o.Err = by.Parse(text)
	}
	if o.Err != nil {
		return o
	}
	if now := o.Reply.Time(); now != 0 {
		o.Heard = clock.Now()
		s.RTT.observe(o.Heard.Mono.Sub(sent.Mono))
		s.clocks.heard(b.Slot, sent, now)
		for _, slot := range b.Slots {
			s.clocks.heard(slot, sent, now)
		}
	} else {
		s.RTT.observe(clock.Mono().Sub(sent.Mono))
	}
	return o
}

// runAll runs calls that go to one server: together, if the driver can do that.
func (s *Server) runAll(ctx context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	if s.batcher != nil {
		s.batcher.RunAll(ctx, calls, tell)
		return
	}
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			reply, err := s.driver.Run(ctx, call)
			tell(i, reply, err)
		})
	}
	all.Wait()
}

// Node names the server of a Cluster that has a key; "" if that is not known.
func (s *Server) Node(key string) string {
	if s.cluster != nil {
		return s.cluster.Node(key)
	}
	return ""
}

// Width returns how many calls the driver can have under way at once without one waiting for another; 0 if it does not
// say.
func (s *Server) Width() int {
	if s.wide != nil {
		return s.wide.Width()
	}
	return 0
}
