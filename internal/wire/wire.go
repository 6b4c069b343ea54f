// Package wire reads and writes what clients and scripts exchange: values of locks,
// replies and notifications. Nothing that a server sends makes it panic.
package wire

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// MaxTime is the latest server time, in µs, that is believed: in the year 2255. Lua
// cannot count further, and times up to here can be subtracted as durations.
const MaxTime = 9e15

// maxMessage bounds a notification, of which a key is the longest part.
const maxMessage = 2048

// Info is what a lock says of its holder, kept at the end of its value.
type Info struct {
	Owner string            `json:"o"`
	Host  string            `json:"h,omitempty"`
	PID   int               `json:"p,omitempty"`
	Meta  map[string]string `json:"m,omitempty"`
}

// maxInfo bounds an encoded Info: it is sent with every acquire.
const maxInfo = 1024

// Encode returns info as it stands in values: one line of JSON.
func (i Info) Encode() (string, error) {
	text, err := json.Marshal(i)
	if err != nil {
		return "", err
	}
	if len(text) > maxInfo {
		return "", errors.New("owner and meta take " + strconv.Itoa(len(text)) + " bytes; at most " + strconv.Itoa(maxInfo) + " are allowed")
	}
	return string(text), nil
}

// Value is a lock's value.
type Value struct {
	Token   string
	Fence   uint64
	Granted int64 // server time of the grant, ms
	Info    Info
}

// ParseValue reads a lock's value. It is false for a value that is not of this
// format: another program's, or a later version's.
func ParseValue(s string) (Value, bool) {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(s, "+"), "hf1:")
	if !ok {
		return Value{}, false
	}
	part := strings.SplitN(rest, ":", 5)
	if len(part) != 5 {
		return Value{}, false
	}
	fence, err1 := strconv.ParseUint(part[1], 10, 64)
	granted, err2 := strconv.ParseInt(part[2], 10, 64)
	if err1 != nil || err2 != nil || granted < 0 || granted > MaxTime/1000 {
		return Value{}, false
	}
	v := Value{Token: part[0], Fence: fence, Granted: granted}
	v.Info = ParseInfo(part[4])
	return v, true
}

// ParseInfo reads an encoded Info. One that cannot be read is empty: a holder whose info
// is not understood still holds. Clients in other languages have other ideas of types: a field
// of another type is taken as its text, and does not cost the others.
func ParseInfo(text string) (info Info) {
	var field, notes map[string]json.RawMessage
	if len(text) > maxInfo || json.Unmarshal([]byte(text), &field) != nil {
		return Info{}
	}
	info.Owner, info.Host = plain(field["o"]), plain(field["h"])
	if pid, err := strconv.ParseFloat(plain(field["p"]), 64); err == nil && pid > 0 && pid < 1<<31 {
		info.PID = int(pid)
	}
	if json.Unmarshal(field["m"], &notes) != nil {
		return info
	}
	for key, value := range notes {
		if info.Meta == nil {
			info.Meta = map[string]string{}
		}
		info.Meta[key] = plain(value)
	}
	return info
}

// plain returns a string of JSON as it is meant, and any other value as it is written.
func plain(value json.RawMessage) (text string) {
	if len(value) == 0 || json.Unmarshal(value, &text) == nil { // null is ""
		return text
	}
	return string(value)
}

// Reply is a script's reply: a word, the server's time, and the fields after it.
type Reply struct {
	Word string
	Now  int64 // server time, µs
	rest string
}

// ErrMalformed says that a reply or message is not what the protocol allows.
var ErrMalformed = errors.New("malformed reply")

// ScriptError is an error that a script caught and returned.
type ScriptError string

func (e ScriptError) Error() string { return string(e) }

// ParseReply reads the beginning of a script's reply. Its error is a ScriptError
// when the script reports one.
func ParseReply(s string) (Reply, error) {
	word, rest, _ := strings.Cut(s, " ")
	if word == "error" {
		return Reply{}, ScriptError(rest)
	}
	now, rest, _ := strings.Cut(rest, " ")
	t, err := strconv.ParseInt(now, 10, 64)
	if err != nil || !sane(t) {
		return Reply{}, ErrMalformed
	}
	return Reply{Word: word, Now: t, rest: rest}, nil
}

// Ints reads the reply's next fields as numbers. The last may be followed by more.
func (r *Reply) Ints(into ...*int64) error {
	for _, p := range into {
		field, rest, _ := strings.Cut(r.rest, " ")
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return ErrMalformed
		}
		*p, r.rest = n, rest
	}
	return nil
}

// ParseTimeless is ParseReply of a reply without the server's time.
func ParseTimeless(s string) (Reply, error) {
	word, rest, _ := strings.Cut(s, " ")
	if word == "error" {
		return Reply{}, ScriptError(rest)
	}
	return Reply{Word: word, rest: rest}, nil
}

// Left reads the rest of a reply to a batch of so many: the numbers of those that it leaves, from
// 0 on, in their order.
func (r *Reply) Left(batch int) ([]int, error) {
	var all []int
	for last := -1; r.rest != ""; {
		var n int64
		if err := r.Ints(&n); err != nil || n < int64(last)+2 || n > int64(batch) {
			return nil, ErrMalformed
		}
		last = int(n - 1)
		all = append(all, last)
	}
	return all, nil
}

// Fields makes a Reply of fields alone.
func Fields(s string) Reply { return Reply{rest: s} }

// Rest returns what was not read yet.
func (r *Reply) Rest() string { return r.rest }

// Grant is the notification that a waiter was handed the lock.
type Grant struct {
	Now   int64 // server time of the grant, µs
	Claim int64 // ms
	Fence uint64
	Lock  string // the lock's key
	Kind  string // of the lock; "" for a mutex
}

// Standby is the notification that a waiter is the first now.
type Standby struct {
	Now int64 // server time, µs
	Due int64 // server time at which to look, µs
}

// Message is a notification for the waiter with that token: one of the two is set.
type Message struct {
	Token   string
	Grant   *Grant
	Standby *Standby
}

// ParseMessage reads a notification.
func ParseMessage(s string) (Message, error) {
	part := strings.SplitN(s, " ", 4)
	if len(s) > maxMessage || len(part) != 4 || part[0] != "hf1" || part[2] == "" {
		return Message{}, ErrMalformed
	}
	r := Reply{rest: part[3]}
	m := Message{Token: part[2]}
	switch part[1] {
	case "grant", "redisson", "rw", "sem", "own", "bar":
		var fence int64
		g := &Grant{Kind: part[1]}
		if g.Kind == "grant" {
			g.Kind = ""
		}
		if err := r.Ints(&g.Now, &g.Claim, &fence); err != nil || !sane(g.Now) || g.Claim <= 0 || fence <= 0 || r.rest == "" {
			return Message{}, ErrMalformed
		}
		g.Fence, g.Lock = uint64(fence), r.rest
		m.Grant = g
	case "standby":
		b := &Standby{}
		if err := r.Ints(&b.Now, &b.Due); err != nil || !sane(b.Now) || !sane(b.Due) {
			return Message{}, ErrMalformed
		}
		m.Standby = b
	default:
		return Message{}, ErrMalformed
	}
	return m, nil
}

// sane reports whether a server time can be one.
func sane(t int64) bool { return t > 0 && t <= MaxTime }
