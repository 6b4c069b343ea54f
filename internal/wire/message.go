package wire

import "strings"

// maxMessage bounds a message, in bytes. Its longest part is a key.
const maxMessage = 2048

// Grant tells a waiter that it has been handed the lock.
type Grant struct {
	Now   int64 // server time of the grant, µs
	Claim int64 // how long the waiter has to claim the lock, ms
	Fence uint64
	Lock  string // the lock's key
	Kind  string // the lock's kind; "" for a mutex
}

// Standby tells a waiter that it is the first in the queue.
type Standby struct {
	Now int64 // server time, µs
	Due int64 // server time at which the waiter should look, µs
}

// Message is a message for the waiter with the token. Either Grant or Standby is set.
type Message struct {
	Token   string
	Grant   *Grant
	Standby *Standby
}

// Notice says that an operator has broken a lock, or asks its holder to let go. Anyone who may publish can send one, so only the journal
// can be trusted.
type Notice struct {
	Broken bool // otherwise the holder is asked to let go
	Now    int64
	Grant  string // the holder's
	Fence  uint64 // of the holder; 0 if unknown
	Lock   string // the lock's key
	Note   Remark
}

// ParseNotice parses a notice. It returns ErrMalformed if the notice is invalid.
func ParseNotice(s string) (Notice, error) {
	head, note, _ := strings.Cut(s, "\n")
	parts := strings.SplitN(head, " ", 3)
	if len(s) > maxMessage+maxRemark || len(parts) != 3 || parts[0] != "hf2" || parts[1] != "broken" && parts[1] != "revoked" {
		return Notice{}, ErrMalformed
	}
	n := Notice{Broken: parts[1] == "broken", Note: ParseRemark(note)}
	var fence int64
	rest, err1 := ints(parts[2], &n.Now)
	n.Grant, rest, _ = strings.Cut(rest, " ")
	rest, err2 := ints(rest, &fence)
	if err1 != nil || err2 != nil || !sane(n.Now) || !IsGrant(n.Grant) || fence < 0 || rest == "" {
		return Notice{}, ErrMalformed
	}
	n.Fence, n.Lock = uint64(fence), rest
	return n, nil
}

// ParseMessage parses a message. It returns ErrMalformed if the message is invalid.
func ParseMessage(s string) (Message, error) {
	parts := strings.SplitN(s, " ", 4)
	if len(s) > maxMessage || len(parts) != 4 || parts[0] != "hf2" || parts[2] == "" {
		return Message{}, ErrMalformed
	}
	m := Message{Token: parts[2]}
	switch parts[1] {
	case "grant", "redisson", "rw", "sem", "own", "bar":
		var fence int64
		g := &Grant{Kind: parts[1]}
		if g.Kind == "grant" {
			g.Kind = ""
		}
		rest, err := ints(parts[3], &g.Now, &g.Claim, &fence)
		if err != nil || !sane(g.Now) || g.Claim <= 0 || fence <= 0 || rest == "" {
			return Message{}, ErrMalformed
		}
		g.Fence, g.Lock = uint64(fence), rest
		m.Grant = g
	case "standby":
		b := &Standby{}
		if _, err := ints(parts[3], &b.Now, &b.Due); err != nil || !sane(b.Now) || !sane(b.Due) {
			return Message{}, ErrMalformed
		}
		m.Standby = b
	default:
		return Message{}, ErrMalformed
	}
	return m, nil
}
