package wire

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ticket carries a lock that its holder has detached to another process. It is a secret: anyone who has it can adopt or release the lock.
type Ticket struct {
	Prefix    string // of the clients' keys
	Lock      string // the lock's name or, if Exact, its key
	Exact     bool   // Lock is its key
	Token     string // in the lock's value
	Fence     uint64 // in the lock's value
	Tombstone int64  // server time, µs, until which an acquire of the token may still arrive; 0 if none can
}

// ErrTicket is the error of a text that is no ticket. It does not show the text, which may contain most of a secret.
var ErrTicket = errors.New("it is not the text of a ticket of this version, or not all of it")

// The beginning of a ticket's text, and its bounds. The rest of the text is base64url, so that it passes through headers, shells and URLs.
const (
	ticketBegin = "hf2t."
	maxTicket   = 2048
	maxPart     = 512     // bytes of the prefix, and of the name or key
	tokenLength = 22      // of 128 bits in base64
	maxFence    = 1 << 53 // Lua's numbers are exact up to this
)

// Text returns the ticket as text, including the secret.
func (t *Ticket) Text() string {
	what := "name"
	if t.Exact {
		what = "key"
	}
	fields := []string{what, t.Token, strconv.FormatUint(t.Fence, 10), strconv.FormatInt(t.Tombstone, 10), t.Prefix + "{" + t.Lock + "}"}
	return ticketBegin + base64.RawURLEncoding.EncodeToString([]byte(strings.Join(fields, " ")))
}

// ParseTicket parses what Text returns, and nothing else.
func ParseTicket(text string) (Ticket, error) {
	encoded, begun := strings.CutPrefix(text, ticketBegin)
	if !begun || len(text) > maxTicket {
		return Ticket{}, ErrTicket
	}
	decoded, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return Ticket{}, ErrTicket
	}
	fields := strings.SplitN(string(decoded), " ", 5)
	if len(fields) != 5 {
		return Ticket{}, ErrTicket
	}
	fence, err1 := strconv.ParseUint(fields[2], 10, 64)
	tombstone, err2 := strconv.ParseInt(fields[3], 10, 64)
	prefix, lock, found := strings.Cut(strings.TrimSuffix(fields[4], "}"), "{")
	t := Ticket{Prefix: prefix, Lock: lock, Exact: fields[0] == "key", Token: fields[1], Fence: fence, Tombstone: tombstone}
	// Each ticket has one text: no other spelling of a number, nothing cut off, nothing after the end.
	if err1 != nil || err2 != nil || !found || !t.sound() || t.Text() != text {
		return Ticket{}, ErrTicket
	}
	return t, nil
}

// sound reports whether the ticket can be that of a lock.
func (t *Ticket) sound() bool {
	token, err := base64.RawURLEncoding.DecodeString(t.Token)
	return err == nil && len(t.Token) == tokenLength && len(token) == 16 &&
		t.Fence > 0 && t.Fence <= maxFence && t.Tombstone >= 0 && t.Tombstone <= MaxTime &&
		isPart(t.Prefix) && !strings.Contains(t.Prefix, "}") && isPart(t.Lock)
}

// isPart reports whether s can be a part of a key.
func isPart(s string) bool {
	return s != "" && len(s) <= maxPart && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
