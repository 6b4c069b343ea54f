package codec

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Status asks for a page of a lock's holders, and who waits for it: status.lua.
type Status struct {
	Lock    Lock
	Kind    string  // of the lock, as in WhatIsReply; "" for any kind, and then Waiters is ignored
	Others  []Queue // if the lock may be of other kinds, too
	Cursor  string  // "0", or Next of the previous reply
	Holds   int     // about how many holders to return
	Waiters int     // how many waiters to return at most
}

// Queue is the queue for locks of a kind.
type Queue struct{ Kind, Key string }

func (q *Status) Call() driver.Call {
	kinds, words := q.Kind, make([]string, 0, 8+len(q.Others))
	words = append(words, q.Lock.Keys.Lock, q.Lock.Keys.Queue)
	for _, other := range q.Others {
		words, kinds = append(words, other.Key), kinds+" "+other.Kind
	}
	n := len(words)
	words = append(words, string(q.Lock.Flags), "", kinds, q.Cursor, strconv.Itoa(q.Holds), strconv.Itoa(q.Waiters))
	return call(script.Status(), words, n)
}

// HoldsForeign is the kind of a lock that this library did not write.
const HoldsForeign = "foreign"

// StatusReply is a page of a lock's holders and, on the first page, its first waiters.
type StatusReply struct {
	Head
	// Kind is HoldsNothing, HoldsMutex, HoldsRedisson, a kind of lock with several holders, or HoldsForeign. With Others, the kind of a
	// free lock is that for which somebody waits.
	Kind    string
	Fence   uint64 // of the latest grant; 0 if only the holds contain it
	Limit   int    // of the sum of all weights; 0 if the server has no limit
	Count   int    // parties of a latch that have not counted down; -1 if the server has no count
	Queued  int    // how many wait
	Next    string
	Holds   []Hold
	Waiters []Waiter // the first ones
}

// IsLast reports whether this was the last page.
func (r *StatusReply) IsLast() bool { return r.Next == "0" }

// Waiter is a waiter in a lock's queue.
type Waiter struct {
	Since  int64 // server time, µs
	Weight int   // 0 if the lock has one holder
	Info   wire.Info
}

// Parse reads the script's reply. It refuses more waiters than were asked for.
func (q *Status) Parse(text string) (StatusReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return StatusReply{}, err
	}
	lines := r.rest
	r.rest, lines, _ = strings.Cut(lines, "\n")
	r.bad = head.Word != StatusIs
	reply := StatusReply{
		Head: head, Kind: r.text(), Fence: r.fence(0), Limit: r.count(0), Count: r.count(-1), Queued: r.count(0), Next: r.text(),
	}
	holds := r.count(0)
	r.bad = r.bad || r.rest != ""
	for lines != "" && !r.bad {
		r.rest, lines, _ = strings.Cut(lines, "\n")
		switch {
		case len(reply.Holds) < holds:
			reply.Holds = append(reply.Holds, r.hold())
		case len(reply.Waiters) < q.Waiters:
			reply.Waiters = append(reply.Waiters, r.waiter())
		default:
			r.bad = true
		}
	}
	r.bad = r.bad || len(reply.Holds) < holds || len(reply.Waiters) > reply.Queued
	return finish(&r, reply)
}

func (r *reader) waiter() Waiter {
	return Waiter{Since: min(r.number(0), wire.MaxTime), Weight: r.count(0), Info: wire.ParseInfo(r.all())}
}
