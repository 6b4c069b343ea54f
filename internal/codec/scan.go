package codec

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Scan asks a server for a page of keys that may be those of locks: scan.lua.
type Scan struct {
	Flags  Flags
	On     string   // any key on the server
	Cursor string   // "0", or Next of the previous reply
	Count  int      // about how many keys to look at
	Match  string   // a pattern, as SCAN takes it
	Begin  []string // prefixes: wanted keys have one of these
}

func (q *Scan) Call() driver.Call {
	words := append([]string{q.On, string(q.Flags), "", q.Cursor, strconv.Itoa(q.Count), q.Match}, q.Begin...)
	return call(script.Scan(), words, 1)
}

// ScanReply is a page of a server's keys: KeysAre.
type ScanReply struct {
	Head
	Next string
	Keys []string
}

// IsLast reports whether this was the last page.
func (r *ScanReply) IsLast() bool { return r.Next == "0" }

func (q *Scan) Parse(text string) (ScanReply, error) {
	head, r, err := begin(text)
	if err != nil {
		return ScanReply{}, err
	}
	var lines string
	r.rest, lines, _ = strings.Cut(r.rest, "\n")
	r.bad = head.Word != KeysAre
	reply := ScanReply{Head: head, Next: r.text()}
	r.bad = r.bad || r.rest != "" || reply.Next == ""
	if lines != "" {
		reply.Keys = strings.Split(lines, "\n")
	}
	return finish(&r, reply)
}
