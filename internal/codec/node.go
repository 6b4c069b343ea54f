package codec

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// NodeAcquire asks a node of a quorum for a lock: node_acquire.lua.
type NodeAcquire struct {
	Lock     Lock
	Token    string
	TTL      time.Duration
	NotAfter int64 // server time, µs
	Info     string
	Ticket   Ticket
	Keep     time.Duration // how long the node keeps the ticket
}

// Ticket is a place among those who wait for a lock of a quorum: digits, all tickets as many, or one of these.
type Ticket string

const (
	NoTicket    Ticket = ""  // comes after all others
	FirstTicket Ticket = "0" // comes before all others
)

// Member returns the ticket's member of a node's queue, by which a Release takes it back.
func (t Ticket) Member() string { return "t:" + string(t) }

// Call returns the script's call.
func (q *NodeAcquire) Call() driver.Call {
	return q.Lock.onNode(script.NodeAcquire(), q.Token, milliseconds(q.TTL), decimal(q.NotAfter), q.Info, string(q.Ticket), milliseconds(q.Keep))
}

// NodeAcquireReply is a node's reply to a request for a lock. Which of its fields counts depends on its word:
//
//	Granted              Grant, whose Block is 1
//	Held                 Holder, whose Waiters are unknown, and Ahead
//	Wanted               Ahead: the lock is free, and kept for them
//	Gone, Late           none
//	Quarantined, Behind  Refusal
type NodeAcquireReply struct {
	Head
	Grant   Grant
	Holder  Holder
	Ahead   int // tickets that come before this one
	Refusal Refusal
}

// Parse reads the script's reply.
func (q *NodeAcquire) Parse(text string) (NodeAcquireReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return NodeAcquireReply{}, err
	}
	reply := NodeAcquireReply{Head: head}
	switch head.Word {
	case Granted:
		reply.Grant = Grant{TTL: r.ttl(), Fence: r.fence(1), Block: 1}
	case Held:
		reply.Holder = r.holder()
		reply.Ahead, reply.Holder.Waiters = reply.Holder.Waiters, 0
	case Wanted:
		reply.Ahead = r.count(1)
	case Gone, Late:
	default:
		reply.Refusal = r.refusal(head.Word)
	}
	return finish(&r, reply)
}

// NodeFence tells a node the fence of a grant: node_fence.lua.
type NodeFence struct {
	Lock  Lock
	Token string
	Fence uint64
}

// Call returns the script's call.
func (q *NodeFence) Call() driver.Call {
	return q.Lock.onNode(script.NodeFence(), q.Token, unsigned(q.Fence))
}

// NodeFenceReply says whether a node knows the fence of a grant. Which of its fields counts depends on its word:
//
//	Fenced               TTL of the lock
//	Gone                 none: the node has not the lock
//	Quarantined, Behind  Refusal
type NodeFenceReply struct {
	Head
	TTL     time.Duration
	Refusal Refusal
}

// Parse reads the script's reply.
func (q *NodeFence) Parse(text string) (NodeFenceReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return NodeFenceReply{}, err
	}
	reply := NodeFenceReply{Head: head}
	switch head.Word {
	case Fenced:
		reply.TTL = r.ttl()
	case Gone:
	default:
		reply.Refusal = r.refusal(head.Word)
	}
	return finish(&r, reply)
}

// NodeCounter asks a node for its fence counter: node_counter.lua.
type NodeCounter struct{ Lock Lock }

// Call returns the script's call.
func (q *NodeCounter) Call() driver.Call { return q.Lock.onNode(script.NodeCounter(), "") }

// NodeCounterReply has a node's fence counter. Which of its fields counts depends on its word:
//
//	CounterIs    Counter
//	Behind       Counter and Refusal
//	Quarantined  Refusal
type NodeCounterReply struct {
	Head
	Counter int64 // 0 if the node has none
	Refusal Refusal
}

// Parse reads the script's reply.
func (q *NodeCounter) Parse(text string) (NodeCounterReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return NodeCounterReply{}, err
	}
	reply := NodeCounterReply{Head: head}
	if head.Word != Quarantined {
		reply.Counter = r.number(0)
	}
	if head.Word != CounterIs {
		reply.Refusal = r.refusal(head.Word)
	}
	return finish(&r, reply)
}

// NodeRaise raises the fence counter of a node that is behind: node_raise.lua.
type NodeRaise struct {
	Lock    Lock
	Counter int64
	Stands  string // what the node's Refusal said before the others were read
}

// Call returns the script's call.
func (q *NodeRaise) Call() driver.Call {
	return q.Lock.onNode(script.NodeRaise(), "", decimal(q.Counter), q.Stands)
}

// NodeRaiseReply says whether a node may grant again: Raised with Counter, or Quarantined or Behind with Refusal.
type NodeRaiseReply struct {
	Head
	Counter int64
	Refusal Refusal
}

// Parse reads the script's reply.
func (q *NodeRaise) Parse(text string) (NodeRaiseReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return NodeRaiseReply{}, err
	}
	reply := NodeRaiseReply{Head: head}
	if head.Word == Raised {
		reply.Counter = r.number(0)
	} else {
		reply.Refusal = r.refusal(head.Word)
	}
	return finish(&r, reply)
}
