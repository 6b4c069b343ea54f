package lock

import (
	"context"
	"time"
)

// Observer is told what happens to locks. Any function may be nil. Functions are called without a mutex held; they must neither block nor
// panic.
type Observer struct {
	// AcquireStart returns the context whose values the other functions get. For them it never ends.
	AcquireStart  func(ctx context.Context, e AcquireEvent) context.Context
	AcquireQueued func(ctx context.Context, e AcquireEvent)
	AcquireEnd    func(ctx context.Context, e AcquireEvent)

	Renewed     func(ctx context.Context, e LeaseEvent)
	RenewFailed func(ctx context.Context, e LeaseEvent)
	Lost        func(ctx context.Context, e LeaseEvent)
	Revoked     func(ctx context.Context, e LeaseEvent)
	Released    func(ctx context.Context, e LeaseEvent)

	ServerLost  func(server string, err error)
	ServerFound func(server string, down time.Duration)
}

// Subject is the lock that an event is about.
type Subject struct {
	Name   string
	Kind   string // the kind's Form, or the word for a kind that only events have
	Weight int    // as in Holder
	Owner  string
}

// Handover says how a lock passes from one holder to the next.
type Handover string

// How a lock came to its holder, or where it went.
const (
	HandoverNone   Handover = ""
	HandoverServer Handover = "server"
	HandoverLocal  Handover = "local"
)

// AcquireEvent describes an acquire.
type AcquireEvent struct {
	Subject
	Try   bool // the acquire does not wait
	Start time.Time

	Ahead  int     // processes that are queued before this one, if known
	Holder *Holder // nil if unknown

	Waited   time.Duration
	Handover Handover
	Fence    uint64
	Grant    string // the grant id; "" if there are several locks
	Err      error  // nil if the lock was granted
}

// LeaseEvent describes something that happened to a lease.
type LeaseEvent struct {
	Subject
	Fence   uint64
	Grant   string // as in AcquireEvent
	Granted time.Time
	LeaseNews
}

// LeaseNews is what happened to a lease.
type LeaseNews struct {
	Deadline time.Time     // of Renewed and RenewFailed
	Slack    time.Duration // of Renewed: what was left of the lease
	Held     time.Duration // of Lost and Released
	Handover Handover      // of Released
	Reason   LossReason    // of Lost
	By       string        // of Revoked: who asks
	Note     string        // of Revoked: why
	Err      error
}
