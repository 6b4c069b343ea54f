package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// Summary is the result of a demo.
type Summary struct {
	Workers            int     `json:"workers"`
	Seed               uint64  `json:"seed"`
	TTLMillis          int64   `json:"ttl_ms"`
	TookMillis         int64   `json:"took_ms"`
	Draws              int     `json:"draws"`
	Grants             int     `json:"grants"`
	Handovers          int     `json:"handovers"`
	HandoverMicros     int64   `json:"handover_us"` // the median of History.Handovers
	AfterKillMillis    []int64 `json:"takeover_after_kill_ms"`
	AfterPauseMillis   []int64 `json:"takeover_after_pause_ms"`
	StaleLeasesRefused int     `json:"stale_leases_refused"`
	StaleWritesRefused int     `json:"stale_writes_refused"`
	Checks             []Check `json:"checks"`
	OK                 bool    `json:"ok"`
}

func summarize(cfg Config, h *History, took time.Duration) *Summary {
	s := &Summary{
		Workers:          cfg.Workers,
		Seed:             cfg.Seed,
		TTLMillis:        ttl.Milliseconds(),
		TookMillis:       took.Milliseconds(),
		Draws:            len(h.Of(Drew)),
		AfterKillMillis:  survived(h.Takeovers(Killed)),
		AfterPauseMillis: survived(h.Takeovers(Paused)),
		Checks:           h.Check(),
	}
	s.OK = !slices.ContainsFunc(s.Checks, func(c Check) bool { return !c.OK })
	if h.Locked {
		s.Grants = len(h.Of(Granted))
		handovers := h.Handovers()
		slices.Sort(handovers)
		if s.Handovers = len(handovers); s.Handovers > 0 {
			s.HandoverMicros = handovers[s.Handovers/2].Microseconds()
		}
	}
	for _, e := range h.Events {
		switch {
		case e.Kind == Woke && e.Lost:
			s.StaleLeasesRefused++
		case e.Kind == Wrote && e.Refused:
			s.StaleWritesRefused++
		}
	}
	return s
}

// survived returns the times of takeovers, without those that did not happen.
func survived(idle []time.Duration) (millis []int64) {
	for _, d := range idle {
		if d >= 0 {
			millis = append(millis, d.Milliseconds())
		}
	}
	return millis
}

// failed returns an error that says which checks failed, if any did.
func (s *Summary) failed() error {
	var names []string
	for _, c := range s.Checks {
		if !c.OK {
			names = append(names, c.Name)
		}
	}
	if names == nil {
		return nil
	}
	return exitcode.Errorf(exitcode.None, "%d of %d checks failed: %s", len(names), len(s.Checks), strings.Join(names, "; "))
}

// show prints the summary in 80 columns.
func (s *Summary) show(scr *screen) {
	scr.line("")
	scr.line(scr.Bold("What happened"))
	row := func(name string, n int, note string) {
		if note != "" {
			note = "   " + scr.Dim(note)
		}
		scr.line(fmt.Sprintf("   %-20s %8d%s", name, n, note))
	}
	row("draws", s.Draws, "")
	if s.Grants > 0 {
		row("grants", s.Grants, "")
		row("hand-overs", s.Handovers, "median "+console.Duration(time.Duration(s.HandoverMicros)*time.Microsecond)+" from Release to the next")
		row("kills survived", len(s.AfterKillMillis), idleNote(s.AfterKillMillis))
		row("pauses survived", len(s.AfterPauseMillis), idleNote(s.AfterPauseMillis))
		row("stale leases refused", s.StaleLeasesRefused, "")
		row("stale writes refused", s.StaleWritesRefused, "")
	}
	scr.line("")
	scr.line(scr.Bold("What must hold") + scr.Dim("  (checked against what all processes recorded)"))
	for _, c := range s.Checks {
		if c.OK {
			scr.line(fmt.Sprintf("   %s  %-34s %s", scr.Green("ok    "), c.Name, scr.Dim(c.Detail)))
			continue
		}
		scr.line(fmt.Sprintf("   %s  %s", scr.Red("FAILED"), c.Name))
		for _, problem := range strings.Split(c.Detail, "; ") {
			scr.line("           " + problem)
		}
	}
	scr.line("")
	if s.OK {
		scr.line(fmt.Sprintf("%s, in %s. %s", scr.Green(fmt.Sprintf("All %d hold", len(s.Checks))),
			console.Duration(time.Duration(s.TookMillis)*time.Millisecond), scr.Dim("(demo --no-lock shows the lottery without the lock.)")))
	}
}

// idleNote says how long the takeovers after accidents took.
func idleNote(millis []int64) string {
	var times []string
	for _, m := range millis {
		times = append(times, console.Duration(time.Duration(m)*time.Millisecond))
	}
	if times == nil {
		return ""
	}
	return "next holder after " + strings.Join(times, ", ") + "; TTL " + console.Duration(ttl)
}
