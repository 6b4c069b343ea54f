package lock

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// Request says what a script is run for.
type Request struct {
	Op      string // for errors
	Lock    *Lock
	More    []*Lock // if there are several locks: all that an error may be about
	Durable bool    // the reply counts only once it is as durable as the lock's options demand

	Unexplained bool // an error may be about a key that is no lock's

	Began     time.Time   // when the caller began to try; zero: now
	OnFailure func(error) // called with the error of each failed try, unless nil
}

func (rq Request) locks() []*Lock {
	if len(rq.More) > 0 {
		return rq.More
	}
	return []*Lock{rq.Lock}
}

// Answer is a script's reply. Sent is when the request was sent that it answers.
type Answer[R any] struct {
	Reply R
	Sent  clock.Instant
}

// Ask sends a request until it is answered, as exec.Server.Do does.
func Ask[R any](ctx context.Context, rq Request, q codec.Request[R]) (a Answer[R], unanswered bool, err error) {
	k := rq.Lock.Of
	to := rq.Addressed(q.Call())
	text, unanswered, err := k.Server.Do(ctx, to)
	if err != nil {
		if !to.Call.Urgent && !rq.Unexplained {
			k.explain(ctx, rq.locks(), err)
		}
		return a, unanswered, err
	}
	a.Sent = text.Sent
	if a.Reply, err = q.Parse(text.Text); err != nil {
		err = rq.Lock.Malformed(rq.Op)
	}
	return a, unanswered, err
}

// AskOnce sends a request once.
func AskOnce[R any](ctx context.Context, rq Request, q codec.Request[R]) (Answer[R], error) {
	text, err := rq.Lock.Of.Server.Send(ctx, rq.Addressed(q.Call()))
	if err != nil {
		return Answer[R]{}, err
	}
	reply, err := q.Parse(text.Text)
	return Answer[R]{reply, text.Sent}, err
}

// Addressed returns a request's call as package exec takes it.
func (rq Request) Addressed(call driver.Call) exec.Request {
	out := exec.Request{Op: rq.Op, Name: rq.Lock.Name(), Slot: rq.Lock.Slot(), Call: call, Began: rq.Began, Met: rq.OnFailure}
	if rq.Durable && rq.Lock.Set.Durable {
		d := rq.Lock.Set.Durability(rq.Lock.Of.Config.CommandTimeout)
		d.Counts = codec.Achieves
		out.Durability = &d
	}
	return out
}

// Change sends a request that takes effect once, however many copies of it are sent. compose makes the request, with a new id and the time
// until which the server remembers that id; the server carries out no later copy. Change goes on when ctx ends: otherwise nobody would know
// whether the request took effect.
func Change(ctx context.Context, rq Request, compose func(id string, notAfter int64) codec.Request[codec.Reply]) (reply codec.Reply, err error) {
	l, id := rq.Lock, RandomText()
	for range 3 {
		a, unanswered, err := Ask(context.WithoutCancel(ctx), rq, compose(id, l.NotAfter()))
		unheard := func(kind error) error {
			return &exec.Failure{Op: rq.Op, Name: l.Name(), Server: l.Of.Server.Addr(), Ambiguous: true, Kind: kind,
				Err: errors.New("no copy of the request was answered in time")}
		}
		switch {
		case err == exec.ErrClosed && unanswered:
			return reply, unheard(exec.ErrClosed)
		case err != nil || a.Reply.Word != codec.Late:
			return a.Reply, err
		case unanswered: // an earlier copy may have taken effect, and the server may have forgotten its id
			return reply, unheard(exec.ErrUnavailable)
		}
	}
	return reply, l.ClockJumps(rq.Op)
}
