package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Status is what the server knows about one lock.
type Status struct {
	Name    string
	Key     string // "" of several locks
	Kind    Kind
	Holders []Holder  // none: it is free
	Waiters []Waiter  // in their order
	Limit   int       // permits of a semaphore, parties of a latch or barrier, else 0
	Count   int       // parties of a latch that have not counted down, else 0
	Fence   uint64    // of the latest grant
	Time    time.Time // by the server's clock
}

// Held reports whether anybody holds the lock.
func (s Status) Held() bool { return len(s.Holders) > 0 }

// Holder returns the only or first holder, and whether there is one.
func (s Status) Holder() (Holder, bool) {
	if len(s.Holders) == 0 {
		return Holder{}, false
	}
	return s.Holders[0], true
}

// Holder describes a holder of a lock. Its program wrote Owner, Host and Meta: escape them before you display them.
type Holder struct {
	Name    string // of the lock: of Multi, which one
	Owner   string // "" when Foreign
	Host    string
	PID     int
	Meta    map[string]string
	Mode    Mode
	Permits int // of a semaphore, else 0
	// Fence is that of the grant by the server. Goroutines of the holder's process that passed the lock on among themselves
	// have higher ones. Of a Quorum it is one node's count, and not the lease's fence.
	Fence   uint64
	Since   time.Time     // by the server's clock
	TTL     time.Duration // what is left; negative: no expiry
	Foreign bool          // another program holds it: only Name and TTL are known
}

// Waiter is a process that waits for a lock, with one or more goroutines.
type Waiter struct {
	Owner   string
	Host    string
	PID     int
	Meta    map[string]string
	Mode    Mode
	Permits int       // of a semaphore, else 0
	Since   time.Time // by the server's clock
}

// Kind is a kind of lock, as the server knows it.
type Kind string

// The kinds of locks. A job of Once and an Election are mutexes to the server.
const (
	KindMutex     Kind = "mutex"
	KindOwner     Kind = "owner"
	KindRedisson  Kind = "redisson"
	KindRWMutex   Kind = "rwmutex"
	KindSemaphore Kind = "semaphore"
	KindLatch     Kind = "latch"
	KindBarrier   Kind = "barrier"
)

// Mode is how a lock is held or wanted.
type Mode string

// The modes of holders and waiters.
const (
	ModeExclusive Mode = "exclusive"
	ModeReader    Mode = "reader"
	ModeWriter    Mode = "writer"
	ModePermits   Mode = "permits"
	ModeParty     Mode = "party"
)

// kinds are the engine's names of kinds of locks.
var kinds = map[string]Kind{
	"mutex": KindMutex, "own": KindOwner, "redisson": KindRedisson, "rw": KindRWMutex, "sem": KindSemaphore,
	"latch": KindLatch, "bar": KindBarrier,
}

func statusOf(ctx context.Context, l engine.Lock) (Status, error) {
	holders, err := l.Holders(ctx)
	if err != nil {
		return Status{}, leave(err)
	}
	return newStatus(l, holders), nil
}

// maxWaiters bounds the waiters of one lock in a Status, since a server can name any number.
const maxWaiters = 10_000

func newStatus(l engine.Lock, holders []engine.Holder) Status {
	s := Status{Name: l.Name(), Key: l.Key(), Kind: kinds[l.Form()], Limit: l.Limit(), Time: l.Now()}
	waiters := map[string]int{} // by the lock's key
	for _, h := range holders {
		s.Holders = append(s.Holders, holder(h))
		s.Fence = max(s.Fence, h.Fence)
		waiters[h.Key] = h.Waiters
	}
	for _, n := range waiters {
		s.Waiters = append(s.Waiters, make([]Waiter, min(max(n, 0), maxWaiters))...)
	}
	return s
}

func holder(h engine.Holder) Holder {
	own := Holder{
		Name: h.Name, Owner: h.Owner, Host: h.Host, PID: h.PID, Meta: h.Meta, Fence: h.Fence, Since: h.Since, TTL: h.TTL,
		Foreign: h.Foreign,
	}
	switch kind := kinds[h.Form]; {
	case h.Foreign, kind == "":
	case kind == KindRWMutex && h.Weight == 1:
		own.Mode = ModeReader
	case kind == KindRWMutex && h.Weight > 1:
		own.Mode = ModeWriter
	case kind == KindRWMutex: // the server did not say which
	case kind == KindSemaphore:
		own.Mode, own.Permits = ModePermits, h.Weight
	case kind == KindLatch, kind == KindBarrier:
		own.Mode = ModeParty
	default:
		own.Mode = ModeExclusive
	}
	return own
}
