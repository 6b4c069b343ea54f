package job

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/prometheus"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// successTime is the only metric that outlives a run that fails.
const successTime = "holdfast_run_success_time_seconds"

// writeMetrics writes a file for the textfile collector of node_exporter. It reads the time of the last success from the file
// that it replaces.
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

// metrics are those of a run that ended now, under which the file before had the others.
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

// succeeded returns when the command was last known to succeed, if that was in this run or, with --once, before it.
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
