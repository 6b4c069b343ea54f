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

var voted = forms{
	{Granted, []field{ttl, fence}},
	{Held, []field{holder}}, // its Waiters are the tickets before this one
	{Wanted, []field{some}}, // the lock is free, but kept for that many earlier tickets
	{Gone, nil}, {Late, nil},
	{Quarantined, []field{rest}}, {Behind, []field{stands}},
}

func (q *NodeAcquire) Parse(text string) (Reply, error) { return voted.parse(text) }

// NodeFence tells a node the fence of a grant: node_fence.lua. Gone says that the node does not have the lock.
func NodeFence(l Lock, token string, fence uint64) Request[Reply] {
	return simple{
		l.onNode(script.NodeFence(), token, unsigned(fence)),
		forms{{Fenced, []field{ttl}}, {Gone, nil}, {Quarantined, []field{rest}}, {Behind, []field{stands}}},
	}
}

// NodeCounter asks a node for its fence counter, which is 0 if the node has none: node_counter.lua.
func NodeCounter(l Lock) Request[Reply] {
	return simple{
		l.onNode(script.NodeCounter(), ""),
		forms{{CounterIs, []field{counter}}, {Behind, []field{counter, stands}}, {Quarantined, []field{rest}}},
	}
}

// NodeRaise raises the fence counter of a node that is behind: node_raise.lua. found is Stands of the node's Refusal, before the other nodes'
// counters were read. The reply's count is the node's counter.
func NodeRaise(l Lock, n int64, found string) Request[Reply] {
	return simple{
		l.onNode(script.NodeRaise(), "", decimal(n), found),
		forms{{Raised, []field{counter}}, {Quarantined, []field{rest}}, {Behind, []field{stands}}},
	}
}
