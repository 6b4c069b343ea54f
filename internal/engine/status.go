package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/kind"
)

// Status is what the server knows about a lock.
type Status struct {
	Name    string
	Key     string   // "" of several locks
	Form    string   // what kind of lock it is, as whatis.lua says; codec.HoldsForeign; or SeenAsElection
	Holders []Holder // the first maxHolders
	Waiters []Waiter // the first maxWaiters, in their order
	Waiting int      // how many wait
	Limit   int      // of the sum of all weights; 0 if there is none
	Count   int      // of a latch: parties that have not counted down; else 0
	Fence   uint64   // of the latest grant
	Time    time.Time
}

// Waiter is a process in the queue of a lock. Its program, or whoever can write the queue, wrote Owner, Host and Meta:
// escape them before you show them.
type Waiter struct {
	Form   string // as Status has it
	Owner  string
	Host   string
	PID    int
	Meta   map[string]string
	Weight int       // as Holder has it
	Since  time.Time // by the server's clock
}

// Bounds for servers that lie about how many holders and waiters there are. An honest server needs maxPages replies for
// 5,000,000 holders.
const (
	maxWaiters = 1000
	maxHolders = 100_000
	maxPages   = 10_000
)

// Status says who holds the lock and who waits for it. Holders are asked for in pages of some hundreds, so that the server
// has time for others in between. Holders that come or go meanwhile may or may not be among them.
func (l *Target) Status(ctx context.Context) (Status, error) {
	if err := l.ready(ctx); err != nil {
		return Status{}, err
	}
	l.awaitDepartures(ctx)
	s := Status{Name: l.name(), Key: l.keys.Lock}
	known := map[string]bool{}                               // by token: the server may return a holder twice
	rq := request{op: "inspect", lock: l, began: time.Now()} // RetryTimeout bounds all pages together
	q := codec.Status{Lock: l.ref(), Kind: l.set.Kind.Form, Cursor: "0", Holds: holdersPerReply, Waiters: maxWaiters}
	for range maxPages {
		a, _, err := ask(ctx, l.c, rq, &q)
		if err != nil {
			return Status{}, err
		}
		if q.Cursor == "0" {
			l.describe(&s, &a.reply)
		}
		for _, hold := range a.reply.Holds {
			if len(s.Holders) < maxHolders && !known[hold.Token] {
				known[hold.Token] = true
				h := l.sharer(&hold)
				s.Holders, s.Fence = append(s.Holders, h), max(s.Fence, h.Fence)
			}
		}
		if a.reply.IsLast() || len(s.Holders) == maxHolders {
			return s, nil
		}
		q.Cursor, q.Waiters = a.reply.Next, 0
	}
	return Status{}, l.malformed("inspect")
}

// describe sets all but the holders, from the first reply.
func (l *Target) describe(s *Status, r *codec.StatusReply) {
	own := l.set.Kind
	s.Form, s.Fence, s.Waiting, s.Time = own.Form, r.Fence, r.Queued, time.UnixMicro(r.Now)
	switch {
	case r.Kind == codec.HoldsForeign, r.Kind == codec.HoldsMutex && len(r.Holds) > 0 && !r.Holds[0].Ours:
		s.Form = codec.HoldsForeign
	case len(r.Holds) > 0:
		s.Form = l.formFor(&r.Holds[0].Value.Info)
	case len(r.Waiters) > 0:
		s.Form = l.formFor(&r.Waiters[0].Info)
	}
	// mutants: limit-of-the-server
	s.Limit = r.Limit
	if s.Limit == 0 && own.IsShared() && !own.ByOwner { // the server has none: the next user's counts
		s.Limit = l.set.Limit
	}
	if s.Limit == kind.Everything {
		s.Limit = 0
	}
	if s.Count = max(r.Count, 0); r.Count < 0 && own.Counts {
		s.Count = s.Limit
	}
	for _, w := range r.Waiters {
		s.Waiters = append(s.Waiters, Waiter{
			Form: l.formFor(&w.Info), Owner: w.Info.Owner, Host: w.Info.Host, PID: w.Info.PID, Meta: w.Info.Meta,
			Weight: w.Weight, Since: time.UnixMicro(min(w.Since, r.Now)),
		})
	}
}

// Holder returns the first holder: ErrNotHeld if there is none.
func (s *Status) Holder() (Holder, error) {
	if len(s.Holders) == 0 {
		return Holder{}, ErrNotHeld
	}
	return s.Holders[0], nil
}
