package exec

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Answered is the outcome of one of several requests: its answer, or the error with which the server refused it.
type Answered struct {
	Answer
	Err error
}

// DoTogether sends requests that change nothing to one server, together if the driver can do that, until each is answered or refused. It
// retries temporary failures as Do does. op and name are for the error that it returns if it gives up.
func (s *Server) DoTogether(ctx context.Context, op, name string, all []Request) ([]Answered, error) {
	t := together{s: s, all: all, answers: make([]Answered, len(all)), known: make([]bool, len(all))}
	_, _, err := Persist(ctx, s, op, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, t.send(ctx) })
	if err != nil {
		return nil, err
	}
	return t.answers, nil
}

// together is a set of requests, and what is known of each.
type together struct {
	s   *Server
	all []Request

	mu      sync.Mutex // an attempt that was given up may go on beside the next one
	answers []Answered // not changed once all are known
	known   []bool
}

// send sends the unanswered requests once. It returns a temporary error of one of them, or nil.
func (t *together) send(ctx context.Context) error {
	var calls []driver.Call
	var which []int
	t.mu.Lock()
	for i, known := range t.known {
		if !known {
			calls, which = append(calls, t.all[i].Call), append(which, i)
		}
	}
	t.mu.Unlock()
	if len(calls) == 0 {
		return nil
	}
	var met error
	sent := clock.Now()
	t.s.runAll(ctx, calls, func(n int, text string, err error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if err = t.conclude(which[n], sent, text, err); err != nil {
			met = err
		}
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	return met
}

// conclude notes the outcome of a request, or returns its error if that is temporary or the request was not sent.
func (t *together) conclude(i int, sent clock.Instant, text string, err error) error {
	if t.known[i] {
		return nil
	}
	rq := &t.all[i]
	if err == nil {
		var reply wire.Reply
		if reply, err = wire.ParseReply(text); err == nil {
			t.s.clocks.heard(rq.Slot, sent, reply.Now)
		}
	}
	if err != nil {
		if fate, kind := Classify(err); fate == NeverSent || Temporary(kind) {
			return err
		}
		t.answers[i].Err = t.s.Failure(rq.Op, rq.Name, err)
	} else {
		t.answers[i].Answer = Answer{text, sent}
	}
	t.known[i] = true
	return nil
}
