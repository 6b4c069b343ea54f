package cli

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

func newPastRun(r holdfast.Completion) *pastRun {
	return &pastRun{r.Time, r.Owner, r.Host, r.PID, r.Fence, r.Try, r.Here}
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

func newOccupant(h holdfast.Holder, waiters int) *occupant {
	o := &occupant{Owner: h.Owner, Host: h.Host, PID: h.PID, Fence: h.Fence, Meta: h.Meta, TTL: h.TTL.Milliseconds(), Waiters: waiters, Foreign: h.Foreign}
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
	return replaceFile(file, text.Bytes())
}

// replaceFile writes a file whole or not at all, and does not follow a symbolic link, which somebody else may have put
// there: both by renaming. What is no file, such as a pipe or a terminal, is written to.
func replaceFile(name string, text []byte) error {
	mode := fs.FileMode(0o644) // before umask
	there, err := os.Stat(name)
	if err == nil && !there.Mode().IsRegular() || isDevice(name) {
		return os.WriteFile(name, text, mode)
	}
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails, since Go 1.24
	next := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+hex.EncodeToString(random[:]))
	old, oldErr := os.Lstat(name)
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		if oldErr == nil && old.Mode().IsRegular() { // in a directory of somebody else's
			return os.WriteFile(name, text, mode)
		}
		return err
	}
	_, err = f.Write(text)
	if oldErr == nil && old.Mode().IsRegular() {
		err = errors.Join(err, f.Chmod(old.Mode().Perm()))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, name)
	}
	if err != nil {
		_ = os.Remove(next)
	}
	return err
}

// isDevice reports whether a name is one of the system's for what is open already, such as /dev/stdout.
func isDevice(name string) bool {
	path, err := filepath.Abs(name)
	return err == nil && (strings.HasPrefix(path, "/dev/") && !strings.HasPrefix(path, "/dev/shm/") || strings.HasPrefix(path, "/proc/"))
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
