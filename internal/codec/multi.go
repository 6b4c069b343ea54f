package codec

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// MultiAcquire asks for several mutexes, all or none: multi_acquire.lua.
type MultiAcquire struct {
	Flags    Flags
	Locks    []TokenOf
	Mark     string // the incarnation mark, in Strict mode; else ""
	TTL      time.Duration
	NotAfter int64 // server time, µs
	Info     string
}

// TokenOf is a lock and the token that asks for it.
type TokenOf struct {
	Keys  Keys
	Token string
}

func (q *MultiAcquire) Call() driver.Call {
	words := make([]string, 0, 4*len(q.Locks)+5)
	for i := range q.Locks {
		words = q.Locks[i].Keys.appendOwn(words)
	}
	if q.Mark != "" {
		words = append(words, q.Mark)
	}
	c := onKeys(script.MultiAcquire(), words, q.Flags, q.Locks[0].Token, milliseconds(q.TTL), decimal(q.NotAfter), q.Info)
	for _, l := range q.Locks[1:] {
		c.Args = append(c.Args, l.Token)
	}
	return c
}

// MultiReply is the reply to a request for several locks. Its word says which fields are set:
//
//	Granted       TTL of the lock that expires first, and a fence for each
//	Held          Holder of the lock with that index
//	Queued, Late  none; after Queued, ask for each lock by itself
//	Quarantined   Refusal
type MultiReply struct {
	Reply
	Fences []uint64
	Index  int
}

func (q *MultiAcquire) Parse(text string) (MultiReply, error) {
	r := begin(text)
	reply := MultiReply{Reply: Reply{Head: r.Head}}
	switch r.Word {
	case Granted:
		reply.TTL, reply.Fences = r.ttl(), make([]uint64, len(q.Locks))
		for i := range reply.Fences {
			reply.Fences[i] = r.fence(1)
		}
	case Held:
		reply.Index = r.count(1) - 1
		r.bad = r.bad || reply.Index >= len(q.Locks)
		r.read(&reply.Reply, holder)
	case Quarantined:
		r.read(&reply.Reply, rest)
	default:
		r.bad = r.Word != Queued && r.Word != Late
	}
	return finish(&r, reply)
}
