// Package wire reads and writes what clients and scripts exchange: locks' values, replies and notifications. It does
// not panic, whatever a server sends.
package wire

import "errors"

// MaxTime is the latest server time that is accepted, in µs. It is in the year 2255. Lua's numbers are exact up to it,
// and the difference of two such times fits in a time.Duration.
const MaxTime = 9e15

// ErrMalformed is returned for a reply or message that the protocol does not allow.
var ErrMalformed = errors.New("malformed reply")

// sane reports whether t, in µs, can be a server's time.
func sane(t int64) bool { return t > 0 && t <= MaxTime }
