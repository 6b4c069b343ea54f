package wire

import (
	"strconv"
	"strings"
)

// Reply is a script's reply: a word, the server's time, and further fields.
type Reply struct {
	Word string
	Now  int64  // server time, µs
	rest string // the fields not read yet
}

// ScriptError is an error that a script caught and returned.
type ScriptError string

func (e ScriptError) Error() string { return string(e) }

// ParseReply parses the word and the time of a script's reply. It returns a ScriptError if the script reports an error,
// and ErrMalformed if the reply is not valid.
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

// Ints reads the next fields as numbers, one for each pointer.
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

// ParseTimeless is ParseReply for a reply without the server's time.
func ParseTimeless(s string) (Reply, error) {
	word, rest, _ := strings.Cut(s, " ")
	if word == "error" {
		return Reply{}, ScriptError(rest)
	}
	return Reply{Word: word, rest: rest}, nil
}

// Left reads the remaining fields of the reply to a batch of that size: which items the script left undone. It returns
// their indexes, in ascending order.
func (r *Reply) Left(batch int) ([]int, error) {
	var left []int
	for last := -1; r.rest != ""; {
		var n int64
		if err := r.Ints(&n); err != nil || n < int64(last)+2 || n > int64(batch) {
			return nil, ErrMalformed
		}
		last = int(n - 1) // numbered from 1 on the wire
		left = append(left, last)
	}
	return left, nil
}

// Fields returns a Reply that has only fields.
func Fields(s string) Reply { return Reply{rest: s} }

// Rest returns the fields not read yet, as text.
func (r *Reply) Rest() string { return r.rest }
