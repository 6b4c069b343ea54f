package pipe

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// Call is a request, and then its answer. It may be used again after Send, unless that returned an error.
type Call struct {
	Kind  Kind
	Words []string // of Command: its name and its arguments

	// Of Acquire, Vote, Release and Delete.
	Lock   string // the key
	Fences string // the key of the fence counter. Calls with the same counter share commands: their keys are in one Cluster slot
	Head   string // how the lock's value begins, up to its token and the colon after that
	Info   string // its last part
	// Granted is the time in the value of a lock that Acquire has set: server time, ms. Of Acquire it is a part of the answer, even
	// if that is an error; it is 0 if nothing was sent. Delete needs it.
	Granted int64

	// Of Acquire and Vote.
	Queue string // the key of the queue
	TTL   time.Duration

	// Of Vote.
	CaughtUp, Mark string        // the keys of a node's two marks
	Quarantine     time.Duration // how long the node has to have waited since it may have lost locks; the same in all calls of a pipe

	// Late is called if ctx ends before Send has an answer. It gets nil once the call is answered, or the error with which it fails. If
	// there was no connection yet, it gets nil once there is one, or the error if none can be made. It must not block. It may be nil.
	Late func(error)

	// Began is when it was last given to Send or Start.
	Began time.Time

	// The answer.
	Text   string        // to Command: the reply
	Done   bool          // Acquire: the lock has the value. Release, Delete: it was released
	Fence  ID            // to Acquire, if Done
	Queues int           // to Acquire, if Done: how many queues exist of the locks that were asked for together
	Counts bool          // to Vote: the node counts
	Others int           // to Acquire: how many locks were asked for together with this one
	Expiry int64         // to Acquire, even if that is an error: when the lock expires, if it was set; server time, ms
	Now    int64         // to Acquire: server time, µs
	Sent   clock.Instant // of Acquire: when it was written, or shortly before
	Heard  clock.Instant // of Acquire: when the answer was read, or shortly after

	use      uint // counts its uses
	deadline time.Time
	self     [1]*Call
	wake     chan struct{} // receives a value when the call is done, or its caller is to write or read
	sent     bool          // it may have left this process
	done     atomic.Bool   // set after the answer
	left     bool          // its caller has given up
	err      error

	// Of a call that was started:
	then   func(error) // is called with err when it is done
	line   *line
	driven bool // a goroutine writes or reads for it, or is about to
}

// Left returns for how long the lock was still to last when the server answered an Acquire.
func (c *Call) Left() time.Duration { return time.Duration(c.Expiry*1000-c.Now) * time.Microsecond }

// Kind is what a call is for.
type Kind uint8

const (
	Command Kind = iota // a command with one reply, which is not an array
	Acquire             // sets a lock if it is free, and adds a fence to the counter
	Vote                // is an Acquire that also asks whether the server counts as a node of a quorum
	Release             // deletes a lock that has the head and no mark, by a script
	Delete              // deletes a lock that has the value that Acquire gave it, by a command that not all servers have
)

// ID is the id of an entry of a stream.
type ID struct{ Ms, Seq uint64 }

// prepare makes the call ready to be sent.
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

// IsSettled reports whether the server has answered a call, even if its caller had given up.
func (c *Call) IsSettled() bool {
	if !c.done.Load() {
		return false
	}
	_, refused := c.err.(driver.ReplyError)
	return c.err == nil || refused
}

// alone returns the call as all calls of a packet.
func (c *Call) alone() []*Call { return c.self[:] }

func (c *Call) awaken() {
	select {
	case c.wake <- struct{}{}:
	default: // it is about to look
	}
}

// finish ends the call and reports whether its function is to be called. A caller that waits may use the call again from then on.
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

// Leave gives up a call that was started, so that its function is not called. It returns false if the call was given up before, or is
// done. Otherwise sent says whether the server may carry out the call, or may have done so.
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
