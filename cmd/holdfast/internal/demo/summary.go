package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/format"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/screen"
)

// Summary sums up a run of the demo.
type Summary struct {
	Server             string          `json:"server"`
	Workers            int             `json:"workers"`
	Seed               uint64          `json:"seed"`
	TTLMillis          int64           `json:"ttl_ms"`
	TookMillis         int64           `json:"took_ms"`
	Draws              int             `json:"draws"`
	Grants             int             `json:"grants"`
	Handovers          int             `json:"handovers"`
	HandoverMicros     *Quantiles      `json:"handover_us,omitempty"` // from the call of Release to the next holder's first step
	KillsSurvived      int             `json:"kills_survived"`
	AfterKillMillis    []int64         `json:"takeover_after_kill_ms,omitempty"`
	PausesSurvived     int             `json:"pauses_survived"`
	AfterPauseMillis   []int64         `json:"takeover_after_pause_ms,omitempty"`
	StaleLeasesRefused int             `json:"stale_leases_refused"`
	StaleWritesRefused int             `json:"stale_writes_refused"`
	LeftOut            []string        `json:"left_out,omitempty"`
	Checks             []history.Check `json:"checks"`
	OK                 bool            `json:"ok"`
}

// Quantiles are in microseconds.
type Quantiles struct {
	Median int64 `json:"median"`
	P99    int64 `json:"p99"`
}

func summarize(cfg Config, server string, h *history.History, took time.Duration) *Summary {
	s := &Summary{
		Server:     server,
		Workers:    cfg.Workers,
		Seed:       cfg.Seed,
		TTLMillis:  ttl.Milliseconds(),
		TookMillis: took.Milliseconds(),
		Draws:      len(h.Of(history.Drew)),
		Grants:     len(h.Of(history.Granted)),
		Checks:     h.Check(ttl),
		OK:         true,
	}
	for _, c := range s.Checks {
		s.OK = s.OK && c.OK
	}
	if h.Locked {
		took := h.Handovers()
		s.Handovers, s.HandoverMicros = len(took), quantiles(took)
	}
	s.KillsSurvived, s.AfterKillMillis = survived(h.Takeovers(history.Killed))
	s.PausesSurvived, s.AfterPauseMillis = survived(h.Takeovers(history.Paused))
	for _, e := range h.Of(history.Woke) {
		if e.Lost {
			s.StaleLeasesRefused++
		}
	}
	for _, e := range h.Of(history.Wrote) {
		if e.Refused {
			s.StaleWritesRefused++
		}
	}
	switch {
	case !h.Locked:
		s.Grants = 0
		s.LeftOut = []string{"the lock (--no-lock), and with it the second act"}
	case !h.Pauses:
		s.LeftOut = []string{"the paused holder: this system cannot pause a process"}
	}
	return s
}

func survived(idle []time.Duration) (n int, millis []int64) {
	for _, d := range idle {
		if d >= 0 {
			n++
			millis = append(millis, d.Milliseconds())
		}
	}
	return n, millis
}

func quantiles(all []time.Duration) *Quantiles {
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	at := func(percent int) int64 { return all[min(len(all)*percent/100, len(all)-1)].Microseconds() }
	return &Quantiles{Median: at(50), P99: at(99)}
}

// failed returns a *FailedError if a check failed.
func (s *Summary) failed() error {
	if s.OK {
		return nil
	}
	e := &FailedError{Of: len(s.Checks)}
	for _, c := range s.Checks {
		if !c.OK {
			e.Failed = append(e.Failed, c)
		}
	}
	return e
}

// show writes the summary for people, in 80 columns.
func (s *Summary) show(scr *screen.Screen) {
	scr.Line("")
	scr.Line(scr.Bold("What happened"))
	row := func(name string, n int, note string) {
		if note != "" {
			note = "   " + scr.Dim(note)
		}
		scr.Line(fmt.Sprintf("   %-20s %8s%s", name, format.Count(n), note))
	}
	row("draws", s.Draws, "")
	if q := s.HandoverMicros; q != nil {
		row("grants", s.Grants, "")
		row("hand-overs", s.Handovers, "from one process to the next in the queue")
		scr.Line(fmt.Sprintf("   %-20s %8s   %s", "hand-over latency", micros(q.Median),
			scr.Dim("median; p99 "+micros(q.P99)+"; from Release to the next")))
		row("kills survived", s.KillsSurvived, idleNote(s.AfterKillMillis))
		row("pauses survived", s.PausesSurvived, idleNote(s.AfterPauseMillis))
		row("stale leases refused", s.StaleLeasesRefused, "")
		row("stale writes refused", s.StaleWritesRefused, "")
	}
	for _, what := range s.LeftOut {
		scr.Line("   left out: " + what)
	}
	scr.Line("")
	scr.Line(scr.Bold("What must hold") + scr.Dim("  (checked against what all processes recorded)"))
	for _, c := range s.Checks {
		if c.OK {
			scr.Line(fmt.Sprintf("   %s  %-34s %s", scr.Green("ok    "), c.Name, scr.Dim(c.Detail)))
			continue
		}
		scr.Line(fmt.Sprintf("   %s  %s", scr.Red("FAILED"), c.Name))
		for _, problem := range strings.Split(c.Detail, "; ") {
			scr.Line("           " + problem)
		}
	}
	scr.Line("")
	if s.OK {
		scr.Line(fmt.Sprintf("%s, in %s. %s", scr.Green(fmt.Sprintf("All %d hold", len(s.Checks))),
			format.Duration(time.Duration(s.TookMillis)*time.Millisecond), scr.Dim("(demo --no-lock shows the lottery without the lock.)")))
	}
}

func micros(n int64) string { return format.Duration(time.Duration(n) * time.Microsecond) }

// idleNote says how long the lock was idle after accidents.
func idleNote(millis []int64) string {
	if len(millis) == 0 {
		return ""
	}
	times := make([]string, len(millis))
	for i, m := range millis {
		times[i] = format.Duration(time.Duration(m) * time.Millisecond)
	}
	return "next holder after " + strings.Join(times, ", ") + "; TTL " + format.Duration(ttl)
}
