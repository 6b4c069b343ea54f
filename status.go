package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/lock"
)

// Status is what the server knows about one lock. The methods that return it wait for no lock. Their errors are a *ServerError,
// of a quorum a *quorum.Error; ErrInvalid for a bad name or option; ErrClosed; and ctx's.
type Status struct {
	Name    string
	Key     string // "" of several locks
	Kind    Kind
	Holders []Holder // none if it is free; at most 100,000
	// Waiters are those in the server's queue, in order: the first 1,000 of each lock. Processes that died without leaving are among
	// them until it would be their turn, or for some minutes. The servers of a quorum have no queue.
	Waiters []Waiter
	Waiting int       // how many wait in all
	Limit   int       // of a semaphore's permits, or a latch's or barrier's parties: the server's, or if nobody uses it, the caller's
	Count   int       // parties of a latch that have not counted down, else 0
	Fence   uint64    // of the latest grant; 0 of a mutex that is free. See Holder.Fence for when it is not known, and of a Quorum
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

// Holder describes a holder of a lock. Its program wrote Identity, Host and Meta: escape them before you display them.
type Holder struct {
	Name     string // of the lock: of Multi, which one
	Identity string // "" when Foreign
	Host     string
	PID      int
	Meta     map[string]string
	Mode     Mode
	Permits  int // of a semaphore, else 0
	// Grant is the grant id, which names this grant to inspect.Inspector.Break and holdfast break: the first 8 of the 22 characters of
	// the holder's token, and public, since only the whole token releases the lock. Goroutines that pass the lock on among themselves
	// have one grant, and a lease of a quorum has one on all nodes. "" if the holder is Foreign, or it is not known.
	Grant string
	// Fence is that of the grant by the server; 0 if it is not known yet. That of a mutex that was free is known from the first
	// renewal on, 2 s after the grant or sooner, and with NoRenew not at all. Goroutines that passed the lock on among themselves have
	// higher ones. Of a quorum it is one node's count, which must not be compared with the lease's fence.
	Fence   uint64
	Since   time.Time     // by the server's clock
	TTL     time.Duration // what is left; negative if another program has set or changed the key so that it does not expire
	Foreign bool          // another program holds it: only Name and TTL are known
}

// IsZero reports whether nothing is known of the holder, as in a HeldError that names none.
func (h Holder) IsZero() bool {
	return h.Name == "" && h.Identity == "" && h.Host == "" && h.PID == 0 && h.Meta == nil && h.Mode == "" && h.Permits == 0 &&
		h.Grant == "" && h.Fence == 0 && h.Since.IsZero() && h.TTL == 0 && !h.Foreign
}

// Waiter is a process that waits for a lock, with one or more goroutines. Its program wrote Identity, Host and Meta: escape
// them before you display them.
type Waiter struct {
	Identity string
	Host     string
	PID      int
	Meta     map[string]string
	Mode     Mode
	Permits  int       // of a semaphore, else 0
	Since    time.Time // by the server's clock
}

// Kind is a kind of lock, as the server knows it.
type Kind string

// The kinds of locks. To the server, a job and an election on a mutex are mutexes. The leader and candidates name their kind,
// so Status has it.
const (
	KindMutex     Kind = "mutex"
	KindOwner     Kind = "owner"
	KindRedisson  Kind = "redisson"
	KindRWMutex   Kind = "rwmutex"
	KindSemaphore Kind = "semaphore"
	KindMulti     Kind = "multi" // in events only
	KindOnce      Kind = "once"  // in events only
	KindElection  Kind = "election"
	KindLatch     Kind = "latch"
	KindBarrier   Kind = "barrier"
	KindQuorum    Kind = "quorum"  // in events only
	KindForeign   Kind = "foreign" // what another program has put where the lock would be
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

// kinds are the kinds by what the engine calls them.
var kinds = map[string]Kind{
	"mutex": KindMutex, "election": KindElection, "own": KindOwner, "redisson": KindRedisson, "rw": KindRWMutex, "sem": KindSemaphore,
	"latch": KindLatch, "bar": KindBarrier, "foreign": KindForeign,
}

func statusOf(ctx context.Context, l interface {
	Status(ctx context.Context) (lock.Status, error)
}) (Status, error) {
	s, err := l.Status(ctx)
	if err != nil {
		return Status{}, leave(err)
	}
	return newStatus(&s), nil
}

func newStatus(of *lock.Status) Status {
	s := Status{
		Name: of.Name, Key: of.Key, Kind: kinds[of.Form], Waiting: of.Waiting, Limit: of.Limit, Count: of.Count, Fence: of.Fence,
		Time: of.Time,
	}
	for _, h := range of.Holders {
		s.Holders = append(s.Holders, holder(h))
	}
	for _, w := range of.Waiters {
		mode, permits := modeOf(kinds[w.Form], w.Weight)
		s.Waiters = append(s.Waiters, Waiter{
			Identity: w.Owner, Host: w.Host, PID: w.PID, Meta: w.Meta, Mode: mode, Permits: permits, Since: w.Since,
		})
	}
	return s
}

func holder(h lock.Holder) Holder {
	own := Holder{
		Name: h.Name, Identity: h.Owner, Host: h.Host, PID: h.PID, Meta: h.Meta, Grant: h.Grant, Fence: h.Fence, Since: h.Since,
		TTL: h.TTL, Foreign: h.Foreign,
	}
	if !h.Foreign {
		own.Mode, own.Permits = modeOf(kinds[h.Form], h.Weight)
	}
	return own
}

// modeOf returns how a lock of that kind is held or wanted with that weight, and of a semaphore how many permits that is.
func modeOf(kind Kind, weight int) (mode Mode, permits int) {
	switch {
	case kind == "":
		return "", 0
	case kind == KindRWMutex && weight == 1:
		return ModeReader, 0
	case kind == KindRWMutex && weight > 1:
		return ModeWriter, 0
	case kind == KindRWMutex: // the server did not say which
		return "", 0
	case kind == KindSemaphore:
		return ModePermits, weight
	case kind == KindLatch, kind == KindBarrier:
		return ModeParty, 0
	}
	return ModeExclusive, 0
}
