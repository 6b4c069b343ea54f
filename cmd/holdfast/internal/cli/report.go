package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// report is what --json tells.
type report struct {
	Name     string            `json:"name"`
	Server   string            `json:"server"`
	Outcome  string            `json:"outcome"`
	ExitCode int               `json:"exit_code"`
	Fence    uint64            `json:"fence,omitempty"`
	Fences   map[string]uint64 `json:"fences,omitempty"` // of several locks
	Nodes    []string          `json:"nodes,omitempty"`  // of a quorum, those that agreed at the end
	Terms    int               `json:"terms,omitempty"`  // of an election
	Started  *time.Time        `json:"started,omitempty"`
	Ended    *time.Time        `json:"ended,omitempty"`
	Waited   int64             `json:"waited_ms"`
	Ran      int64             `json:"ran_ms"`
	Held     int64             `json:"held_ms"`
	Holder   *occupant         `json:"holder,omitempty"`
	Run      *pastRun          `json:"run,omitempty"`
	Error    string            `json:"error,omitempty"`
}

// Outcomes.
const (
	outcomeRan         = "ran"
	outcomeBusy        = "busy"
	outcomeSkipped     = "skipped"
	outcomeLost        = "lost"
	outcomeOvertime    = "overtime"
	outcomeInterrupted = "interrupted"
	outcomeFailed      = "failed"
	outcomeDone        = "done"
	outcomeTries       = "tries"
)

// pastRun is the run of --once that counts.
type pastRun struct {
	Completed time.Time `json:"completed"`
	Owner     string    `json:"owner"`
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Fence     uint64    `json:"fence"`
	Try       int       `json:"try"`
	Here      bool      `json:"here"`
}

func newPastRun(r holdfast.Run) *pastRun {
	return &pastRun{r.Completed, r.Owner, r.Host, r.PID, r.Fence, r.Try, r.Here}
}

// occupant is who held the lock instead.
type occupant struct {
	Owner   string            `json:"owner,omitempty"`
	Host    string            `json:"host,omitempty"`
	PID     int               `json:"pid,omitempty"`
	Fence   uint64            `json:"fence,omitempty"`
	Meta    map[string]string `json:"meta,omitempty"`
	Since   *time.Time        `json:"since,omitempty"`
	TTL     int64             `json:"ttl_ms"`
	Waiters int               `json:"waiters"`
	Foreign bool              `json:"foreign,omitempty"`
}

func newOccupant(h holdfast.Holder) *occupant {
	o := &occupant{Owner: h.Owner, Host: h.Host, PID: h.PID, Fence: h.Fence, Meta: h.Meta, TTL: h.TTL.Milliseconds(), Waiters: h.Waiters, Foreign: h.Foreign}
	if !h.Since.IsZero() {
		o.Since = &h.Since
	}
	return o
}

// write writes the report to a file, or to stderr.
func (r *report) write(file string, stderr io.Writer, v *voice) error {
	r.Error = v.redact(r.Error)
	var text bytes.Buffer
	if err := writeJSON(&text, r); err != nil {
		return err
	}
	if file == toStderr {
		_, err := stderr.Write(text.Bytes())
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// writeJSON writes one line of JSON, in which what does not print is escaped.
func writeJSON(w io.Writer, value any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(printable.JSON(text.Bytes()))
	return err
}
