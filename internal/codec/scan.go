package codec

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Scan asks a server for keys that may be those of locks, some at a time: scan.lua.
type Scan struct {
	Flags  Flags
	On     string   // any key of the server
	Cursor string   // "0", or the reply's Next
	Count  int      // about how many keys to look at
	Match  string   // a pattern, as SCAN takes it
	Begin  []string // the keys that are wanted begin with one of these
}

// Call returns the script's call.
func (q *Scan) Call() driver.Call {
	words := append([]string{q.On, string(q.Flags), "", q.Cursor, strconv.Itoa(q.Count), q.Match}, q.Begin...)
	return call(script.Scan(), words, 1)
}

// ScanReply has some of a server's keys: KeysAre.
type ScanReply struct {
	Head
	Next string
	Keys []string
}

// IsLast reports whether there are no more keys to ask for.
func (r *ScanReply) IsLast() bool { return r.Next == "0" }

// Parse reads the script's reply.
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
