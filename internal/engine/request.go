package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// request is what a script is run for.
type request struct {
	op      string // for errors
	lock    *Target
	more    []*Target // further locks that an error may be about
	durable bool      // it counts only once it is as durable as the lock's options demand

	unexplained bool // an error may be about another key than a lock's

	began     time.Time   // since when the caller has been trying; zero: from now on
	onFailure func(error) // called with the error of each try that fails; or nil
}

// answer is a script's reply, and when the request was sent that it answers.
type answer[R any] struct {
	reply R
	sent  clock.Instant
}

// ask sends a request until it is answered, as exec.Server.Do does.
func ask[R any](ctx context.Context, c *Client, rq request, q codec.Request[R]) (a answer[R], unanswered bool, err error) {
	to := c.addressed(rq, q.Call())
	text, unanswered, err := c.server.Do(ctx, to)
	if err != nil {
		nameCounters(err, rq.counters)
		if !to.Call.Urgent && !rq.unexplained {
			c.explain(ctx, append([]*Target{rq.lock}, rq.more...), err)
		}
		return a, unanswered, err
	}
	a.sent = text.Sent
	if a.reply, err = q.Parse(text.Text); err != nil {
		err = rq.lock.malformed(rq.op)
	}
	return a, unanswered, err
}

// askOnce sends a request once.
func askOnce[R any](ctx context.Context, c *Client, rq request, q codec.Request[R]) (answer[R], error) {
	text, err := c.server.Send(ctx, c.addressed(rq, q.Call()))
	if err != nil {
		nameCounters(err, rq.counters)
		return answer[R]{}, err
	}
	reply, err := q.Parse(text.Text)
	return answer[R]{reply, text.Sent}, err
}

// addressed returns a request's call as package exec takes it.
func (c *Client) addressed(rq request, call driver.Call) exec.Request {
	out := exec.Request{Op: rq.op, Name: rq.lock.name(), Slot: c.slot(rq.lock), Call: call, Began: rq.began, Met: rq.onFailure}
	if rq.durable && rq.lock.set.IsDurable() {
		out.Durability = &exec.Durability{Durability: rq.lock.set.Durability(c.cfg.CommandTimeout), Achieves: codec.Achieves}
	}
	return out
}

// askOf sends a request that takes effect once, however many copies of it are sent. compose makes it, with an id of its own
// and the time until which the server remembers the id and after which it carries out no copy. askOf goes on when ctx
// ends: otherwise nobody would know whether the request took effect.
func askOf[R interface{ Is(codec.Word) bool }](ctx context.Context, rq request, compose func(id string, notAfter int64) codec.Request[R]) (reply R, err error) {
	l, id := rq.lock, randomText()
	for range 3 {
		a, unanswered, err := ask(context.WithoutCancel(ctx), l.c, rq, compose(id, l.c.notAfter(l)))
		unheard := func(kind error) error {
			return &exec.Failure{Op: rq.op, Name: l.name(), Server: l.c.server.Addr(), Ambiguous: true, Kind: kind,
				Err: errors.New("no copy of the request was answered in time")}
		}
		switch {
		case err == exec.ErrClosed && unanswered:
			return reply, unheard(exec.ErrClosed)
		case err != nil || !a.reply.Is(codec.Late):
			return a.reply, err
		case unanswered: // an earlier copy may have taken effect, and its id be forgotten by now
			return reply, unheard(exec.ErrUnavailable)
		}
	}
	return reply, l.clockJumps(rq.op)
}
