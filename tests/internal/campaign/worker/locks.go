// Package worker is a process that uses locks at random, as a campaign orders, and reports what happened. The
// locks are those of this library, or others behind the interface Locks.
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

// Locks are the locks of one client. Want.Share is Whole for all but those of this library.
type Locks interface {
	// Acquire returns a lease or an error. It returns soon after ctx has ended.
	Acquire(ctx context.Context, w Want) (Lease, error)
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
	Nested   Share = "nested"   // several mutexes, each within the lease of the one before
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
