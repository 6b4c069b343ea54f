package lock

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/kind"
)

// Status is what the server knows about a lock.
type Status struct {
	Name    string
	Key     string   // "" if there are several locks
	Form    string   // the kind as status.lua reports it, codec.HoldsForeign, or kind.SeenAsElection
	Holders []Holder // the first maxHolders
	Waiters []Waiter // the first MaxWaiters, in order
	Waiting int      // how many wait
	Limit   int      // of the sum of all weights; 0 if there is none
	Count   int      // parties of a latch that have not counted down; else 0
	Fence   uint64   // of the latest grant
	Time    time.Time
}

// Waiter is a process in a lock's queue. Its program, or anyone who can write the queue, wrote Owner, Host and Meta: escape them before you
// show them.
type Waiter struct {
	Form   string // as in Status
	Owner  string
	Host   string
	PID    int
	Meta   map[string]string
	Weight int       // as in Holder
	Since  time.Time // by the server's clock
}

// These bound how much is read from a server that lies about its holders and waiters. An honest server needs maxPages replies for 5,000,000
// holders.
const (
	MaxWaiters = 1000
	maxHolders = 100_000
	maxPages   = 10_000
)

// Status returns who holds the lock and who waits for it. It asks for holders in pages of some hundreds, so that the server can serve
// others in between. A holder that comes or goes meanwhile may or may not be included.
func (l *Lock) Status(ctx context.Context) (Status, error) {
	if err := l.Ready(ctx); err != nil {
		return Status{}, err
	}
	l.AwaitDepartures(ctx)
	s := Status{Name: l.Name(), Key: l.Keys.Lock}
	known := map[string]bool{}                               // by token, since the server may return a holder twice
	rq := Request{Op: "inspect", Lock: l, Began: time.Now()} // RetryTimeout bounds all pages together
	q := codec.Status{Lock: l.Ref(), Kind: l.Set.Kind.Form, Cursor: "0", Holds: holdersPerReply, Waiters: MaxWaiters}
	for range maxPages {
		a, _, err := Ask(ctx, rq, &q)
		if err != nil {
			return Status{}, err
		}
		if q.Cursor == "0" {
			l.Describe(&s, &a.Reply)
		}
		for _, hold := range a.Reply.Holds {
			if len(s.Holders) < maxHolders && !known[hold.Token] {
				known[hold.Token] = true
				h := l.HolderOf(&hold)
				s.Holders, s.Fence = append(s.Holders, h), max(s.Fence, h.Fence)
			}
		}
		if a.Reply.IsLast() || len(s.Holders) == maxHolders {
			return s, nil
		}
		q.Cursor, q.Waiters = a.Reply.Next, 0
	}
	return Status{}, l.Malformed("inspect")
}

// Describe sets all fields that do not concern holders, from the first reply.
func (l *Lock) Describe(s *Status, r *codec.StatusReply) {
	own := l.Set.Kind
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
	if s.Limit == 0 && own.IsShared && !own.ByOwner { // the server has no limit yet: the next user's will count
		s.Limit = l.Set.Limit
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

// Holder returns the first holder, or ErrNotHeld if there is none.
func (s *Status) Holder() (Holder, error) {
	if len(s.Holders) == 0 {
		return Holder{}, ErrNotHeld
	}
	return s.Holders[0], nil
}

// IsInUse reports whether the lock is held, waited for or relied on, as a latch that is not open is, or a semaphore whose permits were set.
func (s *Status) IsInUse() bool {
	switch {
	case len(s.Holders) > 0, s.Waiting > 0:
		return true
	case s.Form == kind.Latch.Form:
		return s.Count > 0
	case s.Form == kind.Semaphore.Form:
		return s.Limit > 0
	}
	return false
}
