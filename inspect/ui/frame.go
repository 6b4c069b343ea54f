package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// changes are what has changed about the list since it was published last.
type changes struct {
	rows    []row      // new, or different
	renewed [][2]int64 // locks by id, of which only the end of the lease is different, and that
	gone    []int      // locks by id
}

func (c *changes) clear() { c.rows, c.renewed, c.gone = c.rows[:0], c.renewed[:0], c.gone[:0] }

// frame returns the changes as an event of the stream. With a state, they are all changes of a look.
func (c *changes) frame(s *state) []byte {
	return event("changes", struct {
		Rows    []row      `json:"rows,omitempty"`
		Renewed [][2]int64 `json:"renewed,omitempty"`
		Gone    []int      `json:"gone,omitempty"`
		State   *state     `json:"state,omitempty"`
	}{c.rows, c.renewed, c.gone, s})
}

// event returns an event as server-sent events are written. JSON has no line feeds.
func event(name string, value any) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\ndata: ", name)
	text, err := json.Marshal(value)
	if err != nil { // All values are plain.
		text = []byte(strconv.Quote(err.Error()))
	}
	b.Write(text)
	b.WriteString("\n\n")
	return b.Bytes()
}

// credentials matches those in a URL. Our own errors have none; those of client libraries may.
var credentials = regexp.MustCompile(`://[^\s"']*@`)

// errorText is an error as people read it.
func errorText(err error) string {
	return credentials.ReplaceAllString(strings.TrimPrefix(err.Error(), "holdfast: "), "://")
}

// why sorts errors by what the page says above them.
type why string

// What may be the matter.
const (
	silent why = "silent" // the server does not answer
	denied why = "denied" // it refuses
	other  why = "other"
)

func whyOf(err error) why {
	switch {
	case errors.Is(err, holdfast.ErrDenied):
		return denied
	case errors.Is(err, holdfast.ErrUnavailable):
		return silent
	}
	return other
}

// fenceText is a fence for JavaScript, whose numbers have 53 bits; "" if there is none.
func fenceText(fence uint64) string {
	if fence == 0 {
		return ""
	}
	return strconv.FormatUint(fence, 10)
}
