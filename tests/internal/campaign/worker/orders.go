package worker

import (
	"math"
	"time"
)

// Order is a line that tells a worker what to do next.
type Order struct {
	Do     Verb          `json:"do"`
	Script *Script       `json:"script,omitempty"` // to Start
	For    time.Duration `json:"for,omitempty"`    // to Hog
}

// Verb is what an Order asks for.
type Verb string

const (
	Start  Verb = "start"  // carry out the script; answered by Started
	Cancel Verb = "cancel" // end the contexts of all acquires under way
	Reopen Verb = "reopen" // close the client, and continue with a new one
	Hog    Verb = "hog"    // occupy all threads, as a garbage collection can
	Drain  Verb = "drain"  // begin nothing new; answered by Drained when all is done
	End    Verb = "end"    // close the client; answered by Ended
)

// Script is one process's part in a history.
type Script struct {
	Setting

	Admit      bool   `json:"admit,omitempty"`    // admits the servers, before everything else
	Operator   bool   `json:"operator,omitempty"` // admits them again, in the end, if they need it
	Seed       uint64 `json:"seed"`
	Resource   string `json:"resource"` // socket of the guarded resource
	Goroutines int    `json:"goroutines"`
	Wants      []Want `json:"wants"`

	Hold  time.Duration `json:"hold"`  // at most
	Think time.Duration `json:"think"` // at most
	// Patience is the longest time after which an acquire is cancelled. Impatient is the percentage that are.
	Patience  time.Duration `json:"patience"`
	Impatient int           `json:"impatient"`
	// Overdue is the percentage of turns that are held past the TTL, Extending the percentage that extend the
	// lease.
	Overdue   int `json:"overdue"`
	Extending int `json:"extending"`

	// Finally is requested when all turns have ended, each until it is granted; and each job that was
	// requested, until it is done.
	Finally []Want `json:"finally,omitempty"`
}

// A worker's answers are lines: a letter, a space, and JSON.
const (
	EventLine    = 'e' // a history.Event
	AccessLine   = 'a' // an Access
	FailureLine  = 'f' // a Failure
	ExtendLine   = 'x' // {}: a call of Extend succeeded
	CallLine     = 'c' // a Call
	StepLine     = 'p' // a Step
	DeadlockLine = 'l' // a Deadlock
	StartedLine  = 's' // {}
	DrainedLine  = 'd' // {}
	EndedLine    = 'z' // an Ended
)

// Access is an access to the guarded resource, by which processes also hand each other tickets. Times are history.Now's.
type Access struct {
	ID        uint64 `json:"id"` // of the access within its process
	Process   int    `json:"process"`
	Goroutine int    `json:"goroutine"`
	Name      string `json:"name"`
	Fence     uint64 `json:"fence"`
	Write     bool   `json:"write,omitempty"`
	Value     uint64 `json:"value"`           // written or, if accepted, read
	OK        bool   `json:"ok"`              // accepted
	Carry     string `json:"carry,omitempty"` // no access: put or pick a ticket
	Ticket    string `json:"ticket,omitempty"`
	Held      int64  `json:"held,omitempty"` // before the check of the lease that allowed it; 0: the lease was known to be over
	Call      int64  `json:"call"`
	Return    int64  `json:"return,omitempty"` // 0: its process died before the answer
}

// End returns the latest time at which the access took effect.
func (x Access) End() int64 {
	if x.Return == 0 {
		return math.MaxInt64
	}
	return x.Return
}

// Failure is an operation on a lock that failed.
type Failure struct {
	Op    string `json:"op"`
	Error string `json:"error"`
}

// Ended is how a worker's part ended.
type Ended struct {
	Close  string `json:"close,omitempty"` // error of Close
	Before int    `json:"before"`          // goroutines
	After  int    `json:"after"`
	Stacks string `json:"stacks,omitempty"` // of goroutines, if any were left
}
