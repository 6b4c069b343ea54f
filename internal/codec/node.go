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
	Keep     time.Duration // how long the node remembers the ticket
}

// Ticket is a place among those who wait for a quorum's lock: a fixed number of digits, or one of the tickets below.
type Ticket string

const (
	NoTicket    Ticket = ""  // after all others
	FirstTicket Ticket = "0" // before all others
)

// Member returns the ticket's member of a node's queue, with which a Release removes it.
func (t Ticket) Member() string { return "t:" + string(t) }

func (q *NodeAcquire) Call() driver.Call {
	return q.Lock.onNode(script.NodeAcquire(), q.Token, milliseconds(q.TTL), decimal(q.NotAfter), q.Info, string(q.Ticket), milliseconds(q.Keep))
}

// NodeAcquireReply is a node's reply to a request for a lock. Its word says which fields are set:
//
//	Granted              Grant, whose Block is 1
//	Held                 Holder, without Waiters, and Ahead
//	Wanted               Ahead: the lock is free, but kept for earlier tickets
//	Gone, Late           none
//	Quarantined, Behind  Refusal
type NodeAcquireReply struct {
	Head
	Grant   Grant
	Holder  Holder
	Ahead   int // tickets before this one
	Refusal Refusal
}

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

func (q *NodeFence) Call() driver.Call {
	return q.Lock.onNode(script.NodeFence(), q.Token, unsigned(q.Fence))
}

// NodeFenceReply says whether a node knows the fence of a grant. Its word says which fields are set:
//
//	Fenced               TTL of the lock
//	Gone                 none: the node does not have the lock
//	Quarantined, Behind  Refusal
type NodeFenceReply struct {
	Head
	TTL     time.Duration
	Refusal Refusal
}

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

func (q *NodeCounter) Call() driver.Call { return q.Lock.onNode(script.NodeCounter(), "") }

// NodeCounterReply contains a node's fence counter. Its word says which fields are set:
//
//	CounterIs    Counter
//	Behind       Counter and Refusal
//	Quarantined  Refusal
type NodeCounterReply struct {
	Head
	Counter int64 // 0 if the node has none
	Refusal Refusal
}

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
	Stands  string // from the node's Refusal, before the other nodes' counters were read
}

func (q *NodeRaise) Call() driver.Call {
	return q.Lock.onNode(script.NodeRaise(), "", decimal(q.Counter), q.Stands)
}

// NodeRaiseReply says whether a node may grant again: Raised with Counter, or Quarantined or Behind with Refusal.
type NodeRaiseReply struct {
	Head
	Counter int64
	Refusal Refusal
}

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
