package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Summary is what a run of the demo comes to.
type Summary struct {
	Server             string     `json:"server"`
	Workers            int        `json:"workers"`
	Seed               uint64     `json:"seed"`
	TTLMillis          int64      `json:"ttl_ms"`
	TookMillis         int64      `json:"took_ms"`
	Draws              int        `json:"draws"`
	Grants             int        `json:"grants"`
	Handovers          int        `json:"handovers"`
	HandoverMicros     *Quantiles `json:"handover_us,omitempty"` // call of Release → next holder running
	KillsSurvived      int        `json:"kills_survived"`
	AfterKillMillis    []int64    `json:"takeover_after_kill_ms,omitempty"`
	PausesSurvived     int        `json:"pauses_survived"`
	AfterPauseMillis   []int64    `json:"takeover_after_pause_ms,omitempty"`
	StaleLeasesRefused int        `json:"stale_leases_refused"`
	StaleWritesRefused int        `json:"stale_writes_refused"`
	LeftOut            []string   `json:"left_out,omitempty"`
	Checks             []Check    `json:"checks"`
	OK                 bool       `json:"ok"`
}

// Quantiles of some durations, in microseconds.
type Quantiles struct {
	Median int64 `json:"median"`
	P99    int64 `json:"p99"`
}

func summarize(cfg Config, where string, h *history, took time.Duration) *Summary {
	s := &Summary{
		Server:     where,
		Workers:    cfg.Workers,
		Seed:       cfg.Seed,
		TTLMillis:  ttl.Milliseconds(),
		TookMillis: took.Milliseconds(),
		Draws:      len(h.pick(isDraw)),
		Grants:     len(h.pick(isGrant)),
		Checks:     check(h, ttl),
		OK:         true,
	}
	for _, c := range s.Checks {
		s.OK = s.OK && c.OK
	}
	if h.locked {
		took := h.handovers()
		s.Handovers, s.HandoverMicros = len(took), quantiles(took)
	}
	s.KillsSurvived, s.AfterKillMillis = survived(h.takeovers(wasKilled))
	s.PausesSurvived, s.AfterPauseMillis = survived(h.takeovers(wasPaused))
	for _, e := range h.pick(isWoken) {
		if e.Lost {
			s.StaleLeasesRefused++
		}
	}
	for _, e := range h.pick(isWrite) {
		if e.Refused {
			s.StaleWritesRefused++
		}
	}
	switch {
	case !h.locked:
		s.Grants = 0
		s.LeftOut = []string{"the lock, as asked for, and with it the second act"}
	case !h.pauses:
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

// failed returns what a summary leads to.
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

// report writes the summary, and returns a *FailedError when it is not good.
func report(cfg Config, s *Summary) error {
	if cfg.JSON {
		if err := json.NewEncoder(cfg.Out).Encode(s); err != nil {
			return err
		}
		return s.failed()
	}
	newStage(cfg).table(s)
	return s.failed()
}

// table writes the summary for people, in 80 columns.
func (s *stage) table(sum *Summary) {
	s.line("")
	s.line(s.bold("What happened"))
	row := func(name string, n int, note string) {
		s.line(strings.TrimRight(fmt.Sprintf("   %-20s %8s   %s", name, thousands(n), s.dim(note)), " "))
	}
	row("draws", sum.Draws, "")
	if q := sum.HandoverMicros; q != nil {
		row("grants", sum.Grants, "")
		row("hand-overs", sum.Handovers, "from one process to the next in the queue")
		s.line(fmt.Sprintf("   %-20s %8s   %s", "hand-over latency", micros(q.Median),
			s.dim("median; p99 "+micros(q.P99)+"; from Release to the next")))
		row("kills survived", sum.KillsSurvived, idleNote(sum.AfterKillMillis))
		row("pauses survived", sum.PausesSurvived, idleNote(sum.AfterPauseMillis))
		row("stale leases refused", sum.StaleLeasesRefused, "")
		row("stale writes refused", sum.StaleWritesRefused, "")
	}
	for _, what := range sum.LeftOut {
		s.line("   left out: " + what)
	}
	s.line("")
	s.line(s.bold("What must hold") + s.dim("  (checked from what all processes recorded)"))
	for _, c := range sum.Checks {
		if c.OK {
			s.line(fmt.Sprintf("   %s  %-34s %s", s.green("ok    "), c.Name, s.dim(c.Detail)))
			continue
		}
		s.line(fmt.Sprintf("   %s  %s", s.red("FAILED"), c.Name))
		for _, problem := range strings.Split(c.Detail, "; ") {
			s.line("           " + problem)
		}
	}
	s.line("")
	if sum.OK {
		s.line(fmt.Sprintf("%s, in %s. %s", s.green(fmt.Sprintf("All %d hold", len(sum.Checks))),
			short(time.Duration(sum.TookMillis)*time.Millisecond), s.dim("(demo --no-lock shows the lottery without the lock.)")))
	}
}

func micros(n int64) string { return short(time.Duration(n) * time.Microsecond) }

// idleNote says how long the lock lay idle after an accident.
func idleNote(millis []int64) string {
	if len(millis) == 0 {
		return ""
	}
	times := make([]string, len(millis))
	for i, m := range millis {
		times[i] = short(time.Duration(m) * time.Millisecond)
	}
	return "next holder after " + strings.Join(times, ", ") + "; TTL " + short(ttl)
}
