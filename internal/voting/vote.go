package voting

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// vote is one node's answer to a request for a lock.
type vote struct {
	node      int
	a         *engine.NodeAttempt // says whether the node granted the lock
	holder    *lock.Holder        // who has the lock instead; nil if that is an attempt of this process that is being given back
	theirs    string              // the round in which the holder acquired it
	said      bool                // the node granted the lock, or said why it did not
	ahead     int                 // how many earlier tickets the node knows
	behind    string              // the node's caught-up mark, if its fence counter has to be raised before it grants
	err       error               // why the node neither granted the lock nor said why
	unsettled bool                // the request was not answered; the node may carry it out until it has been given back
}

// newVote returns a vote that is still to be asked for. It has an error if the node must not be asked.
func (q *Quorum) newVote(l *mutex, i int, round string) vote {
	v := vote{node: i, a: l.parts[i].Attempt(round)}
	if !q.answers(wish{i, l.key()}) {
		v.err = exec.Unsent(errHangs)
	}
	return v
}

// askByScript asks a node for the lock by node_acquire.lua.
func (q *Quorum) askByScript(ctx context.Context, l *mutex, v vote, terms terms) vote {
	p := l.parts[v.node]
	var reply codec.Reply
	var sent clock.Instant
	// A request that was late is repeated, since what is known of the node's clock is as old as its latest answer.
	for n := 0; n < 2 && (n == 0 || reply.Word == codec.Late); n++ {
		notAfter := q.notAfter(v.node, terms.timeout)
		if err := ctx.Err(); err != nil {
			v.err = exec.Unsent(err)
			return v
		}
		request := v.a.Request(notAfter)
		request.Ticket, request.Keep = terms.shown()
		var err error
		if reply, sent, err = askNode(ctx, l, v.node, terms.timeout, "acquire", &request); err != nil {
			return q.unanswered(l, v, err, notAfter)
		}
		q.observe(v.node, clock.Since(sent))
	}
	switch reply.Word {
	case codec.Granted:
		v.err = v.a.Take(sent, reply)
		v.said = v.a.IsGranted()
	case codec.Held:
		v.said, v.ahead = true, reply.Holder.Waiters
		if token := reply.Holder.Value.Token; !q.isReturning(token) {
			h := p.HolderOf(reply.Holder)
			v.holder, v.theirs = &h, engine.RoundOf(token)
			if v.theirs == engine.RoundOf(v.a.Token()) {
				v.said, v.holder, v.err = false, nil, q.failure("acquire", l.name, v.node, nil, errTwice)
			}
		}
	case codec.Wanted:
		v.said, v.ahead = true, int(reply.Count)
	case codec.Quarantined, codec.Behind:
		v.behind, v.err = reply.Stands, q.refusal("acquire", l, v.node, reply.Refusal)
	case codec.Late, codec.Gone:
		v.err = p.ClockJumps("acquire")
	}
	return v
}

// askFree asks a node for the lock by the node's own commands, and returns at once. count is called with the vote. askFree returns false
// if the node has to be asked by script.
func (q *Quorum) askFree(ctx context.Context, l *mutex, v vote, terms terms, count func(vote)) bool {
	if ctx.Err() != nil || terms.ticket != nil || q.partial.Load() || q.clients[v.node].Server.Info() == nil || isDone(q.clients[v.node].Closing) {
		return false
	}
	tasks := &q.clients[v.node].Tasks
	return v.a.AskFree(func() {
		if !v.a.IsGrant() {
			tasks.Run(func() { count(q.afterFree(ctx, l, v, terms)) })
			return
		}
		v.err = v.a.TakeFree(ctx)
		v.said = v.a.IsGranted()
		q.observe(v.node, v.a.Trip())
		count(v)
	})
}

// afterFree returns the vote of a node whose answer is not clearly a grant. If the answer does not say who has the lock, afterFree asks by
// script.
func (q *Quorum) afterFree(ctx context.Context, l *mutex, v vote, terms terms) vote {
	waiting, cancel := context.WithTimeout(ctx, terms.timeout)
	defer cancel()
	if err := v.a.TakeFree(waiting); err != nil {
		return q.unanswered(l, v, err, 0)
	}
	if v.said = v.a.IsGranted(); v.said {
		return v
	}
	v.a = l.parts[v.node].Attempt(engine.RoundOf(v.a.Token()))
	return q.askByScript(ctx, l, v, terms)
}

// unanswered returns the vote of a node whose request, with that not-after time, ended in an error.
func (q *Quorum) unanswered(l *mutex, v vote, err error, notAfter int64) vote {
	if outcome, _ := exec.Classify(err); outcome == exec.Unknown {
		v.unsettled = true
		w := wish{v.node, l.key()}
		v.a.NoteUnanswered(notAfter)
		q.noteHanging(w, 1)
		v.a.WhenSettled(func() { q.noteHanging(w, -1) })
	}
	v.err = err
	return v
}

// foremost returns the holder that most nodes name, and how many name it.
func foremost(votes []vote) (holder *lock.Holder, most int) {
	for _, v := range votes {
		if v.holder == nil {
			continue
		}
		same := 0
		for _, other := range votes {
			if other.holder != nil && v.theirs == other.theirs {
				same++
			}
		}
		if same > most {
			holder, most = v.holder, same
		}
	}
	return holder, most
}
