package job

import (
	"io"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/once"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Report is what --json writes about a run.
type Report struct {
	Name     string            `json:"name"`
	Server   string            `json:"server"`
	Outcome  Outcome           `json:"outcome"`
	ExitCode int               `json:"exit_code"`
	Fence    uint64            `json:"fence,omitempty"`
	Fences   map[string]uint64 `json:"fences,omitempty"` // with several locks
	Nodes    []string          `json:"nodes,omitempty"`  // of a quorum: those that agreed at the end
	Terms    int               `json:"terms,omitempty"`  // of an election
	Started  *time.Time        `json:"started,omitempty"`
	Ended    *time.Time        `json:"ended,omitempty"`
	Waited   int64             `json:"waited_ms"`
	Ran      int64             `json:"ran_ms"`
	Held     int64             `json:"held_ms"`
	Holder   *Holder           `json:"holder,omitempty"` // who holds the lock instead
	Run      *PastRun          `json:"run,omitempty"`
	Error    string            `json:"error,omitempty"`

	lost bool // the lock, while the command ran
}

// Outcome says how a run ended.
type Outcome string

// The outcomes.
const (
	Ran         Outcome = "ran"
	Busy        Outcome = "busy"
	Skipped     Outcome = "skipped"
	Lost        Outcome = "lost"
	Overtime    Outcome = "overtime"
	Interrupted Outcome = "interrupted"
	Failed      Outcome = "failed"
	Done        Outcome = "done"
	Tries       Outcome = "tries"
)

// PastRun is the run that counts for --once.
type PastRun struct {
	Completed time.Time `json:"completed"`
	Identity  string    `json:"identity"`
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Fence     uint64    `json:"fence"`
	Try       int       `json:"try"`
	Here      bool      `json:"here"`
}

// NewPastRun returns the report of a run.
func NewPastRun(r once.Completion) *PastRun {
	return &PastRun{r.Time, r.Identity, r.Host, r.PID, r.Fence, r.Try, r.Here}
}

// Holder is a holder of a lock for which so many wait.
type Holder struct {
	lockstatus.Holder
	Waiters int `json:"waiters"`
}

// NewHolder returns the report of a holder of a lock for which so many wait.
func NewHolder(h holdfast.Holder, waiters int) *Holder {
	return &Holder{lockstatus.NewHolder(h), waiters}
}

// ToStderr, in place of the name of a file, is standard error.
const ToStderr = "-"

func (r *Report) write(file string, stderr io.Writer) error {
	text, err := output.JSON(r)
	if err != nil {
		return err
	}
	if file == ToStderr {
		_, err := stderr.Write(text)
		return err
	}
	return output.ReplaceFile(file, text)
}
