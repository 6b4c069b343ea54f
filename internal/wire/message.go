package wire

import "strings"

// maxMessage bounds a notification, in bytes. Its longest part is a key.
const maxMessage = 2048

// Grant notifies a waiter that it has been handed the lock.
type Grant struct {
	Now   int64 // server time of the grant, µs
	Claim int64 // how long the waiter has to claim the lock, ms
	Fence uint64
	Lock  string // the lock's key
	Kind  string // the lock's kind; "" for a mutex
}

// Standby notifies a waiter that it is the first in the queue.
type Standby struct {
	Now int64 // server time, µs
	Due int64 // server time at which the waiter should look, µs
}

// Message is a notification for the waiter with the token. Either Grant or Standby is set.
type Message struct {
	Token   string
	Grant   *Grant
	Standby *Standby
}

// ParseMessage parses a notification. It returns ErrMalformed if the notification is not valid.
func ParseMessage(s string) (Message, error) {
	parts := strings.SplitN(s, " ", 4)
	if len(s) > maxMessage || len(parts) != 4 || parts[0] != "hf1" || parts[2] == "" {
		return Message{}, ErrMalformed
	}
	r := Reply{rest: parts[3]}
	m := Message{Token: parts[2]}
	switch parts[1] {
	case "grant", "redisson", "rw", "sem", "own", "bar":
		var fence int64
		g := &Grant{Kind: parts[1]}
		if g.Kind == "grant" {
			g.Kind = ""
		}
		if err := r.ints(&g.Now, &g.Claim, &fence); err != nil || !sane(g.Now) || g.Claim <= 0 || fence <= 0 || r.rest == "" {
			return Message{}, ErrMalformed
		}
		g.Fence, g.Lock = uint64(fence), r.rest
		m.Grant = g
	case "standby":
		b := &Standby{}
		if err := r.ints(&b.Now, &b.Due); err != nil || !sane(b.Now) || !sane(b.Due) {
			return Message{}, ErrMalformed
		}
		m.Standby = b
	default:
		return Message{}, ErrMalformed
	}
	return m, nil
}
