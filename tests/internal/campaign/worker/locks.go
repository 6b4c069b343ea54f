// Package worker is a process that uses locks at random, as a campaign orders, and reports what happened. The
// locks are behind the interface Locks, so that any kind can be tested.
package worker

import (
	"context"
	"time"
)

// Opener opens locks as a program does when it starts.
type Opener func(Setting) (Locks, error)

// Setting is what the locks of one client share.
type Setting struct {
	Addr           string        `json:"addr"`            // of the server, or of a proxy in front of it
	Nodes          []string      `json:"nodes,omitempty"` // of all servers of a quorum
	Mode           string        `json:"mode"`            // after a loss of data: "default" or "strict"
	LocalHandovers int           `json:"local_handovers"`
	CommandTimeout time.Duration `json:"command_timeout"`
	RetryTimeout   time.Duration `json:"retry_timeout"`
	MaxTTL         time.Duration `json:"max_ttl"`
}

// Locks are the locks of one client.
type Locks interface {
	// Acquire returns a lease or an error. It returns soon after ctx has ended.
	Acquire(ctx context.Context, w Want) (Lease, error)
	// Admit admits an empty server to the strict mode, so that it grants locks. It is called once in a history,
	// before everything else.
	Admit(ctx context.Context) error
	// Close ends the client, and leaves nothing behind in the process. Waiters return.
	Close(ctx context.Context) error
}

// Lease is a lock that is held.
type Lease interface {
	Fence() uint64         // 0 for a lock without fences
	Err() error            // nil while it is held
	Done() <-chan struct{} // closed when it is no longer held
	Deadline() time.Time   // when it ends unless it is renewed
	Extend(ctx context.Context, ttl time.Duration) error
	Release(ctx context.Context) error
}

// Reentrant is a Lease under which its holder can acquire the lock again.
type Reentrant interface {
	Again() (Lease, error)
}

// Several is a Lease of several locks.
type Several interface {
	Fences() map[string]uint64 // by the locks' names
}

// Jobs are Locks that run jobs once.
type Jobs interface {
	// Do calls job under its lock, unless it was completed in its window already, and returns which run counts.
	// slot names the window; "" is a window of w.Window that begins with a run.
	Do(ctx context.Context, w Want, slot string, job func(Lease) (result string, err error)) (Done, error)
}

// Elections are Locks whose holder is elected.
type Elections interface {
	// Lead campaigns, and calls lead for each term until lead returns false.
	Lead(ctx context.Context, w Want, lead func(Lease) (again bool)) error
}

// Carriers are Locks that another process can take over, by a ticket.
type Carriers interface {
	// Adopt takes over the lock of a ticket. good reports whether the ticket may still be good after an error.
	Adopt(ctx context.Context, w Want, ticket string) (lease Lease, good bool, err error)
}

// Detachable is a Lease whose lock can be carried to another process.
type Detachable interface {
	Detach(ctx context.Context, ttl time.Duration) (ticket string, err error)
}

// Crowds are Locks at which parties wait for each other: latches and barriers.
type Crowds interface {
	// Join makes the caller a party, of a latch without waiting.
	Join(ctx context.Context, w Want) (Party, error)
	// CountDown, Reset, Wait and Count are for latches.
	CountDown(ctx context.Context, w Want) error
	Reset(ctx context.Context, w Want) error
	Wait(ctx context.Context, w Want) error
	Count(ctx context.Context, w Want) (int, error)
	// Tell returns what an error of these methods, or of a Party, says about the outcome.
	Tell(err error) Answer
}

// Party is the lease of a party.
type Party interface {
	Lease
	CountDown(ctx context.Context) error                 // of a latch, which ends the lease
	Await(ctx context.Context) (phase uint64, err error) // for barriers
}

// Quorums are Locks on several servers.
type Quorums interface {
	// NeedAdmission reports whether nothing is granted until Admit, because most servers
	// have restarted.
	NeedAdmission(err error) bool
}

// Share says which kind of lock is wanted, and which part of it.
type Share string

const (
	Whole   Share = ""        // of a mutex
	Reading Share = "reading" // a read-write lock, together with other readers
	Writing Share = "writing" // a read-write lock, alone
	Permits Share = "permits" // of a semaphore

	Owned Share = "owned" // the lock of an owner that spans processes

	Carried Share = "carried" // a mutex that goes from process to process

	Together Share = "together" // several mutexes, as one
	Job      Share = "job"      // the lock of a job that is run once in a window
	Leading  Share = "leading"  // leadership
	Agreed   Share = "agreed"   // the lock of a quorum

	Joining   Share = "joining"   // a seat at a latch, to count down with it
	Counting  Share = "counting"  // to count down a latch without joining it
	Waiting   Share = "waiting"   // to wait for a latch
	Looking   Share = "looking"   // to look at a latch's count
	Resetting Share = "resetting" // to reset a latch
	Meeting   Share = "meeting"   // a seat at a barrier, for some phases
)

// Names returns the names of the locks that are wanted.
func (w *Want) Names() []string { return append([]string{w.Name}, w.With...) }

// Want is a way to request a lock.
type Want struct {
	Name     string        `json:"name"`
	Key      string        `json:"key,omitempty"`      // the exact key of a lock that other programs share
	Redisson bool          `json:"redisson,omitempty"` // the lock under that key is in Redisson's form
	TTL      time.Duration `json:"ttl"`
	Fixed    bool          `json:"fixed,omitempty"`    // the lease is not renewed
	MaxHold  time.Duration `json:"max_hold,omitempty"` // 0: no bound
	Poll     time.Duration `json:"poll,omitempty"`     // 0: wait in the queue
	Try      bool          `json:"try,omitempty"`      // do not wait
	Again    bool          `json:"again,omitempty"`    // acquire it again while it is held
	Weight   int           `json:"weight"`             // how often, relative to the others
	Hold     time.Duration `json:"hold,omitempty"`     // at most; 0: as the script says

	Share   Share `json:"share,omitempty"`   // of a lock that several may hold
	Permits int   `json:"permits,omitempty"` // of the semaphore
	Take    int   `json:"take,omitempty"`    // how many of them
	Owner   int   `json:"owner,omitempty"`   // the owner that is to hold the lock

	With        []string      `json:"with,omitempty"`         // the other names, of several together
	Window      time.Duration `json:"window,omitempty"`       // of a job
	Slots       bool          `json:"slots,omitempty"`        // its windows have names
	NodeTimeout time.Duration `json:"node_timeout,omitempty"` // of a quorum
	Parties     int           `json:"parties,omitempty"`      // of a latch or a barrier

	adopted bool // the lease may last longer than the TTL, as the ticket did
}
