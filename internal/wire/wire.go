// Package wire reads and writes what clients and scripts exchange: locks' values, replies and messages. It does not panic, whatever a
// server sends.
package wire

import (
	"errors"
	"strconv"
	"strings"
)

// MaxTime is the latest server time that is accepted, in µs. It is in the year 2255. Lua's numbers are exact up to it, and the difference
// of two such times fits in a time.Duration.
const MaxTime = 9e15

// ErrMalformed is the error of a reply or message that the protocol does not allow.
var ErrMalformed = errors.New("malformed reply")

// sane reports whether t, in µs, can be a server's time.
func sane(t int64) bool { return t > 0 && t <= MaxTime }

// Reply is a script's reply: a word, the server's time, and further fields.
type Reply struct {
	Word string
	Now  int64  // server time, µs
	Rest string // the further fields
}

// ScriptError is an error that a script caught and returned.
type ScriptError string

func (e ScriptError) Error() string { return string(e) }

// ParseReply parses the word and the time of a script's reply. It returns a ScriptError if the script reports an error, and ErrMalformed if
// the reply is invalid.
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
	return Reply{Word: word, Now: t, Rest: rest}, nil
}

// ints reads the first fields of a text as numbers, one for each pointer. It returns the rest of the text.
func ints(text string, into ...*int64) (rest string, err error) {
	for _, p := range into {
		field, rest, _ := strings.Cut(text, " ")
		if *p, err = strconv.ParseInt(field, 10, 64); err != nil {
			return "", ErrMalformed
		}
		text = rest
	}
	return text, nil
}
