// Package worker is a process that uses locks at random, as a campaign tells it to,
// and says what happened. What it locks with stands behind Locks, so that any lock can
// be put to the test.
package worker

import (
	"context"
	"time"
)

// Opener opens locks as a program does when it starts.
type Opener func(Setting) (Locks, error)

// Setting is what the locks of one client share.
type Setting struct {
	Addr           string        `json:"addr"`            // of the server, or a proxy before it
	Nodes          []string      `json:"nodes,omitempty"` // addresses of all servers, of a quorum
	Mode           string        `json:"mode"`            // of data loss: "default" or "strict"
	LocalHandovers int           `json:"local_handovers"`
	CommandTimeout time.Duration `json:"command_timeout"`
	RetryTimeout   time.Duration `json:"retry_timeout"`
	MaxTTL         time.Duration `json:"max_ttl"`
}

// Locks are the locks of one client.
type Locks interface {
	// Acquire brings a lease, or an error and no lease. It returns soon after ctx has
	// ended.
	Acquire(ctx context.Context, w Want) (Lease, error)
	// Admit makes an empty server one that grants locks in the strict mode. Once in a
	// history, before all else.
	Admit(ctx context.Context) error
	// Close ends the client, and leaves nothing behind in the process. Waiters
	// return.
	Close(ctx context.Context) error
}

// Lease is a lock that is held.
type Lease interface {
	Fence() uint64         // 0 for a lock without
	Err() error            // nil while it is held
	Done() <-chan struct{} // closed when it is held no longer
	Deadline() time.Time   // until when it is held if it is not renewed
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

// Jobs are Locks that have jobs run once.
type Jobs interface {
	// Do calls job under its lock, unless it was completed in its window already, and returns
	// which run counts. slot names the window; "" is one of w.Window that a run begins.
	Do(ctx context.Context, w Want, slot string, job func(Lease) (result string, err error)) (Done, error)
}

// Elections are Locks whose holder is elected.
type Elections interface {
	// Lead campaigns, and calls lead for each term until that does not want another.
	Lead(ctx context.Context, w Want, lead func(Lease) (again bool)) error
}

// Crowds are Locks at which parties wait for each other: latches and barriers.
type Crowds interface {
	// Join makes the caller a party, of a latch without waiting.
	Join(ctx context.Context, w Want) (Party, error)
	// CountDown, Reset, Wait and Count are those of a latch.
	CountDown(ctx context.Context, w Want) error
	Reset(ctx context.Context, w Want) error
	Wait(ctx context.Context, w Want) error
	Count(ctx context.Context, w Want) (int, error)
	// Tell says what an error of these, or of a Party, tells of what was asked.
	Tell(err error) Answer
}

// Party is the lease of a party.
type Party interface {
	Lease
	CountDown(ctx context.Context) error                 // of a latch, which ends the lease
	Await(ctx context.Context) (phase uint64, err error) // of a barrier
}

// Quorums are Locks on several servers.
type Quorums interface {
	// NeedAdmission reports whether nothing is granted until Admit, because most servers
	// have restarted.
	NeedAdmission(err error) bool
}

// Share is which kind of lock is wanted, and which part of it.
type Share string

const (
	Whole   Share = ""        // of a mutex
	Reading Share = "reading" // a read-write lock, beside other readers
	Writing Share = "writing" // the same, alone
	Permits Share = "permits" // of a semaphore

	Owned Share = "owned" // a lock of owners that span processes

	Together Share = "together" // several mutexes, as one
	Job      Share = "job"      // the lock of a job that is run once in a window
	Leading  Share = "leading"  // to be elected
	Agreed   Share = "agreed"   // the lock of a quorum

	Joining   Share = "joining"   // to be a latch's party, and to count down as that
	Counting  Share = "counting"  // to count a latch down without joining it
	Waiting   Share = "waiting"   // for a latch
	Looking   Share = "looking"   // how far a latch is
	Resetting Share = "resetting" // a latch
	Meeting   Share = "meeting"   // to be a barrier's party, for some phases
)

// Names are the names of the locks that are wanted.
func (w *Want) Names() []string { return append([]string{w.Name}, w.With...) }

// Want is a way to ask for a lock.
type Want struct {
	Name     string        `json:"name"`
	Key      string        `json:"key,omitempty"`      // the exact key, of a lock that other programs share
	Redisson bool          `json:"redisson,omitempty"` // that key is of a lock in Redisson's form
	TTL      time.Duration `json:"ttl"`
	Fixed    bool          `json:"fixed,omitempty"`    // the lease is not renewed
	MaxHold  time.Duration `json:"max_hold,omitempty"` // 0: no bound
	Poll     time.Duration `json:"poll,omitempty"`     // 0: wait in the queue
	Try      bool          `json:"try,omitempty"`      // do not wait
	Again    bool          `json:"again,omitempty"`    // acquire it again while it is held
	Weight   int           `json:"weight"`             // how often, beside the others
	Hold     time.Duration `json:"hold,omitempty"`     // at most; 0: as the script says

	Share   Share `json:"share,omitempty"`   // of a lock that several may hold
	Permits int   `json:"permits,omitempty"` // of a semaphore
	Take    int   `json:"take,omitempty"`    // of them
	Owner   int   `json:"owner,omitempty"`   // whose the lock is to be

	With        []string      `json:"with,omitempty"`         // the other names, of several together
	Window      time.Duration `json:"window,omitempty"`       // of a job
	Slots       bool          `json:"slots,omitempty"`        // its windows have names
	NodeTimeout time.Duration `json:"node_timeout,omitempty"` // of a quorum
	Parties     int           `json:"parties,omitempty"`      // of a latch or a barrier
}
