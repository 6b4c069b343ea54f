package job

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/prometheus"
	"github.com/holdfast-go/holdfast/once"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Report is what --json writes about a run.
type Report struct {
	Name     string              `json:"name"`
	Server   string              `json:"server"`
	Outcome  Outcome             `json:"outcome"`
	ExitCode int                 `json:"exit_code"`
	Fence    uint64              `json:"fence,omitempty"`
	Fences   map[string]uint64   `json:"fences,omitempty"` // with several locks
	Nodes    []string            `json:"nodes,omitempty"`  // of a quorum: those that agreed at the end
	Terms    int                 `json:"terms,omitempty"`  // of an election
	Started  *time.Time          `json:"started,omitempty"`
	Ended    *time.Time          `json:"ended,omitempty"`
	Waited   int64               `json:"waited_ms"`
	Ran      int64               `json:"ran_ms"`
	Held     int64               `json:"held_ms"`
	Holder   *lockstatus.Process `json:"holder,omitempty"` // the holder that kept this run from the lock
	Run      *PastRun            `json:"run,omitempty"`
	Error    string              `json:"error,omitempty"`

	lost bool // the lock was lost while the command ran
}

// Outcome says how a run ended.
type Outcome string

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

// PastRun is a completed run of a job with --once.
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

// ToStderr is the name of a report's file that means standard error.
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

// successTime is the only metric that a failed run takes over from the run before it.
const successTime = "holdfast_run_success_time_seconds"

// writeMetrics writes a file for node_exporter's textfile collector. It reads the time of the last success from the file that it replaces.
func (r *Report) writeMetrics(file string) error {
	lock := prometheus.Label{Name: "lock", Value: r.Name}
	before, err := output.ReadRegular(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var text strings.Builder
	if err := prometheus.Write(&text, r.metrics(lock, string(before), time.Now())...); err != nil {
		return err
	}
	return output.PublishFile(file, []byte(text.String()))
}

// metrics returns the metrics of a run that ended now. before is the text of the file that they replace.
func (r *Report) metrics(lock prometheus.Label, before string, now time.Time) (all []prometheus.Metric) {
	gauge := func(name, help string, samples ...prometheus.Sample) {
		all = append(all, prometheus.Metric{Name: name, Help: help, Type: prometheus.Gauge, Samples: samples})
	}
	of := func(value float64) prometheus.Sample {
		return prometheus.Sample{Labels: []prometheus.Label{lock}, Value: value}
	}
	is := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	var outcomes []prometheus.Sample
	for _, o := range []Outcome{Ran, Busy, Skipped, Lost, Overtime, Interrupted, Failed, Done, Tries} {
		labels := []prometheus.Label{lock, {Name: "outcome", Value: string(o)}}
		outcomes = append(outcomes, prometheus.Sample{Labels: labels, Value: is(r.Outcome == o)})
	}
	gauge("holdfast_run_end_time_seconds", "When the last run ended, as a Unix time.", of(unix(now)))
	gauge("holdfast_run_exit_code", "The exit code of holdfast at the end of the last run.", of(float64(r.ExitCode)))
	gauge("holdfast_run_outcome", "How the last run ended: 1 for its outcome, 0 for the others.", outcomes...)
	gauge("holdfast_run_lost", "1 if the lock was lost during the last run, else 0.", of(is(r.lost || r.Outcome == Lost)))
	gauge("holdfast_run_wait_seconds", "How long the last run waited for the lock.", of(seconds(r.Waited)))
	gauge("holdfast_run_hold_seconds", "How long the last run held the lock; 0 if it did not.", of(seconds(r.Held)))
	gauge("holdfast_run_command_seconds", "How long the command of the last run took; 0 if it was not run.", of(seconds(r.Ran)))
	succeeded, known := r.succeeded()
	if !known {
		succeeded, known = prometheus.Read(before, successTime, lock)
	}
	if known {
		gauge(successTime, "When a run last succeeded, as a Unix time. With --once, on any machine.", of(succeeded))
	}
	return all
}

// succeeded returns the latest known success of the command: in this run or, with --once, on any machine.
func (r *Report) succeeded() (unixTime float64, known bool) {
	switch {
	case r.Run != nil:
		return unix(r.Run.Completed), true
	case r.Outcome == Ran && r.ExitCode == 0 && !r.lost:
		return unix(*r.Ended), true
	}
	return 0, false
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func seconds(ms int64) float64 { return float64(ms) / 1000 }
