package pipe

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// Call is a request and its answer. It may be used again after Send, unless Send returned an error.
type Call struct {
	Kind  Kind
	Words []string // of Command: its name and arguments

	// For Acquire, Vote, Release and Delete.
	Lock   string // the key
	Fences string // the key of the fence counter. Calls with the same counter, whose keys are in one Cluster slot, share commands
	Head   string // the beginning of the lock's value, up to the colon after the token
	Info   string // the last part of the value
	// Granted is the time in the value of a lock that Acquire has set: server time, ms. Acquire sets it, even if it fails; 0 means that
	// nothing was sent. Delete needs it.
	Granted int64

	// For Acquire and Vote.
	Queue string // the key of the queue
	TTL   time.Duration

	// For Vote.
	CaughtUp, Mark string        // the keys of a node's two marks
	Quarantine     time.Duration // how long the node must have waited since it may have lost locks; the same in all calls of a pipe

	// Late is called if ctx ends while a call that was sent is unanswered: with nil once the call is answered, or with the error with which
	// it fails. It must not block. It may be nil.
	Late func(error)

	// Began is when the call was last given to Send or Start.
	Began time.Time

	// The answer.
	Text   string        // Command: the reply
	Done   bool          // Acquire: the lock has the value. Release, Delete: the lock was released
	Fence  ID            // Acquire: if Done
	Queues int           // Acquire: if Done, how many queues exist of the locks that share the transaction
	Counts bool          // Vote: the node's vote counts
	Others int           // Acquire: how many other locks share the transaction
	Expiry int64         // Acquire, even if it fails: when the lock expires, if it was set; server time, ms
	Left   time.Duration // Acquire: how long the lock still had when the server answered
	Now    int64         // Acquire: server time, µs
	Sent   clock.Instant // Acquire: when the call was written, or shortly before
	Heard  clock.Instant // Acquire: when the answer was read, or shortly after

	use      uint  // counts uses
	line     *line // of the latest use
	deadline time.Time
	self     [1]*Call      // the call as the only one of a packet
	wake     chan struct{} // receives a value when the call is done, or its caller has to write or read
	sent     bool          // the call may have left this process
	done     atomic.Bool   // set after the answer
	left     bool          // the caller has given up
	err      error

	// For a call that was started.
	then   func(error) // called with err when the call is done
	driven bool        // a goroutine writes or reads for the call, or is about to
}

// Kind is the kind of a call.
type Kind uint8

const (
	Command Kind = iota // a command with one reply, which is not an array
	Acquire             // sets a lock if it is free, and adds a fence to the counter
	Vote                // an Acquire that also asks whether the server counts as a node of a quorum
	Release             // deletes a lock that has the head and no mark; by a script
	Delete              // deletes a lock that has the value set by Acquire; by a command that not all servers have
)

// ID is the id of an entry of a stream.
type ID struct{ Ms, Seq uint64 }

func (c *Call) prepare(began, deadline time.Time) {
	if c.wake == nil && c.then == nil {
		c.wake = make(chan struct{}, 1)
	}
	c.self[0] = c
	c.use++
	c.Began, c.deadline, c.sent, c.left, c.err = began, deadline, false, false, nil
	c.done.Store(false)
	c.Text, c.Done, c.Fence, c.Queues, c.Counts, c.Others, c.Now = "", false, ID{}, 0, false, 0, 0
	if c.Kind != Delete {
		c.Granted, c.Expiry = 0, 0
	}
}

// IsSettled reports whether the server has answered the call, even if its caller has given up.
func (c *Call) IsSettled() bool {
	if !c.done.Load() {
		return false
	}
	_, refused := c.err.(driver.ReplyError)
	return c.err == nil || refused
}

func (c *Call) awaken() {
	select {
	case c.wake <- struct{}{}:
	default: // the caller is about to look
	}
}

// finish ends the call and reports whether then has to be called. A caller that waits may use the call again as soon as finish returns.
func (c *Call) finish(err error) (tells bool) {
	started := c.then != nil
	// mutants: started-left
	tells = started && !c.left
	c.err = err
	c.done.Store(true)
	if !started {
		c.awaken()
	}
	return tells
}

// Leave gives up a call that was started, so that its function is not called. left is false if the call was given up already, or is done.
// Otherwise sent says whether the server may have carried out the call, or may still do so.
func (c *Call) Leave() (left, sent bool) {
	l := c.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.done.Load() || c.left {
		return false, true
	}
	c.left = true
	return true, c.sent
}
