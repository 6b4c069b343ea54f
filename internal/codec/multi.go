package codec

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
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

// The replies have a fence for each lock, and the TTL of the lock that expires first; or the holder of the lock with the number Count, from 1.
// After Queued, ask for each lock by itself.
var several = forms{{Granted, []field{ttl, fences}}, {Held, []field{some, holder}}, {Queued, nil}, {Late, nil}, {Quarantined, []field{rest}}}

func (q *MultiAcquire) Parse(text string) (Reply, error) {
	reply, err := several.parse(text)
	if n := len(q.Locks); reply.Word == Granted && len(reply.Fences) != n || reply.Word == Held && int(reply.Count) > n {
		return Reply{}, wire.ErrMalformed
	}
	return reply, err
}
