package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Value is a lock's value.
type Value struct {
	Token   string
	Fence   uint64
	Granted int64 // server time of the grant, ms
	Info    Info
}

// NoToken is the token in the value of a lock that nobody holds.
const NoToken = "-"

// A grant id is the first 8 of the 22 characters of a token: 48 of its 128 bits. It is public; the rest is a secret.
const (
	grantLength   = 8
	tokenAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// GrantOf returns the grant id of a token, or of a grant id. It returns "" for any other text.
func GrantOf(token string) string {
	if len(token) < grantLength || !IsGrant(token[:grantLength]) {
		return ""
	}
	return token[:grantLength]
}

// IsGrant reports whether s can be a grant id.
func IsGrant(s string) bool {
	return len(s) == grantLength && strings.Trim(s, tokenAlphabet) == ""
}

// ParseValue parses a lock's value. It returns false for a value in another format, written by another program or a later version.
func ParseValue(s string) (Value, bool) {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(s, "+"), "hf2:")
	if !ok {
		return Value{}, false
	}
	parts := strings.SplitN(rest, ":", 5)
	if len(parts) != 5 {
		return Value{}, false
	}
	fence, err1 := strconv.ParseUint(parts[1], 10, 64)
	granted, err2 := strconv.ParseInt(parts[2], 10, 64)
	if err1 != nil || err2 != nil || granted < 0 || granted > MaxTime/1000 {
		return Value{}, false
	}
	return Value{Token: parts[0], Fence: fence, Granted: granted, Info: ParseInfo(parts[4])}, true
}

// Info describes a lock's holder. It is the last part of the lock's value.
type Info struct {
	Owner string            `json:"o"`
	Host  string            `json:"h,omitempty"`
	PID   int               `json:"p,omitempty"`
	Kind  string            `json:"k,omitempty"` // if the lock's form does not say it, as for an election
	Meta  map[string]string `json:"m,omitempty"`
}

// maxInfo bounds an encoded Info, in bytes, since every acquire sends it.
const maxInfo = 1024

// Encode returns i as it appears in values: one line of JSON.
func (i Info) Encode() (string, error) { return encode(i, "owner and meta", maxInfo) }

// encode returns v as JSON of at most that many bytes. parts are what can make it longer.
func encode(v any, parts string, most int) (string, error) {
	text, err := json.Marshal(v)
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s take %d bytes; the limit is %d", parts, len(text), most)
	}
	if err != nil {
		return "", err
	}
	return string(text), nil
}

// ParseInfo parses an encoded Info. If it cannot, it returns an empty Info, since the holder holds the lock all the same. A field of an
// unexpected type, which a client in another language may write, becomes its JSON text.
func ParseInfo(text string) (info Info) {
	var fields, meta map[string]json.RawMessage
	if len(text) > maxInfo || json.Unmarshal([]byte(text), &fields) != nil {
		return Info{}
	}
	info.Owner, info.Host, info.Kind = plain(fields["o"]), plain(fields["h"]), plain(fields["k"])
	if pid, err := strconv.ParseFloat(plain(fields["p"]), 64); err == nil && pid > 0 && pid < 1<<31 {
		info.PID = int(pid)
	}
	if json.Unmarshal(fields["m"], &meta) != nil {
		return info
	}
	for key, value := range meta {
		if info.Meta == nil {
			info.Meta = map[string]string{}
		}
		info.Meta[key] = plain(value)
	}
	return info
}

// Remark says who broke a lock, or asked its holder to let go, and why.
type Remark struct {
	By     string `json:"b"`
	Reason string `json:"r,omitempty"`
	Whole  string `json:"w,omitempty"` // on a node of a quorum: the id of the request to all nodes
}

// maxRemark bounds an encoded Remark, in bytes.
const maxRemark = 2048

// Encode returns r as one line of JSON.
func (r Remark) Encode() (string, error) { return encode(r, "owner and reason", maxRemark) }

// ParseRemark parses an encoded Remark. If it cannot, it returns an empty one.
func ParseRemark(text string) Remark {
	var fields map[string]json.RawMessage
	if len(text) > maxRemark || json.Unmarshal([]byte(text), &fields) != nil {
		return Remark{}
	}
	return Remark{By: plain(fields["b"]), Reason: plain(fields["r"]), Whole: plain(fields["w"])}
}

// plain returns the string that value encodes or, if value is no string, its JSON text.
func plain(value json.RawMessage) (text string) {
	if len(value) == 0 || json.Unmarshal(value, &text) == nil { // null leaves text empty
		return text
	}
	return string(value)
}

// A head is a token between HeadBegin, which begins every lock's value, and HeadEnd.
const (
	HeadBegin = "hf2:"
	HeadEnd   = ":"
)

// Head is the beginning of the values of all locks that a token holds: the format and the token, each followed by a colon.
type Head string

// Token returns the head's token.
func (h Head) Token() string { return string(h[len(HeadBegin) : len(h)-len(HeadEnd)]) }

// AppendGrant appends the beginning of the value of a grant: the head and the grant's fence, followed by a colon.
func (h Head) AppendGrant(text []byte, fence uint64) []byte {
	text = strconv.AppendUint(append(text, h...), fence, 10)
	return append(text, ':')
}

// TokenOf returns the token in a value, whatever else the value contains. In another program's value it returns the text at that place.
func TokenOf(value string) string {
	token, _, _ := strings.Cut(strings.TrimPrefix(value, HeadBegin), ":")
	return token
}
