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

// grace is how much longer than the TTL a takeover may take, because the machine may be busy.
const grace = time.Second

// Check is an invariant, and whether a history keeps it.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // evidence, or what is wrong
}

// Check checks all invariants.
func (h *History) Check() []Check {
	exclusion, fences := h.checkGrants()
	checks := []Check{
		h.checkDraws().check("10 draws, 10 different winners"),
		exclusion.check("never two holders at once"),
		fences.check("fences strictly increasing"),
	}
	if !h.Locked {
		return checks // the demo has ended after the lottery
	}
	checks = append(checks,
		h.checkLedger().check("no update lost"),
		h.checkTakeover(Killed).check("next holder in time after SIGKILL"))
	if h.Pauses {
		checks = append(checks,
			h.checkTakeover(Paused).check("next holder in time after SIGSTOP"),
			h.checkStaleLease().check("woken holder told by its lease"),
			h.checkStaleWrite().check("late write refused by the fence"))
	}
	return checks
}

type result struct {
	evidence string
	problems []string
}

func (r *result) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

func (r result) check(name string) Check {
	if len(r.problems) == 0 {
		return Check{name, true, r.evidence}
	}
	const most = 2 // more would hide what went wrong first
	detail := strings.Join(r.problems[:min(most, len(r.problems))], "; ")
	if more := len(r.problems) - most; more > 0 {
		detail += fmt.Sprintf("; and %d more", more)
	}
	return Check{name, false, detail}
}

func (h *History) checkDraws() (r result) {
	draws := h.Of(Drew)
	winners := map[string]bool{}
	byPlace := map[int][]string{}
	for _, d := range draws {
		winners[d.Winner] = true
		byPlace[d.Place] = append(byPlace[d.Place], d.Winner)
	}
	if len(draws) != Places {
		r.problem("%d draws were made for %d places", len(draws), Places)
	}
	for place := 1; place <= Places; place++ {
		if drawn := byPlace[place]; len(drawn) != 1 {
			r.problem("place %d was drawn %d times: %s", place, len(drawn), strings.Join(drawn, ", "))
		}
	}
	if len(winners) != Places {
		r.problem("%d different people won", len(winners))
	}
	for i, name := range h.Winners {
		if !slices.Contains(byPlace[i+1], name) {
			r.problem("the list has %s in place %d, whom nobody drew for it", name, i+1)
		}
	}
	if len(h.Winners) != Places {
		r.problem("the list has %d winners", len(h.Winners))
	}
	r.evidence = "the list in Redis has the same"
	return r
}

// checkGrants compares each grant with the latest end and the highest fence of the grants before it.
func (h *History) checkGrants() (exclusion, fences result) {
	count := 0
	for _, lock := range []string{Lottery, Ledger} {
		var latest, highest Grant
		for _, g := range h.Grants(lock) {
			if !g.held() {
				continue
			}
			count++
			if g.At+clockError < latest.End() {
				exclusion.problem("%s: worker %d got the lock %s before worker %d gave it up",
					lock, g.Worker, console.Duration(latest.End()-g.At), latest.Worker)
			}
			if g.End() > latest.End() {
				latest = g
			}
			switch {
			case g.Fence == 0:
				fences.problem("%s: worker %d worked without a fence", lock, g.Worker)
			case g.Fence <= highest.Fence:
				fences.problem("%s: worker %d got fence %d after worker %d had got %d", lock, g.Worker, g.Fence, highest.Worker, highest.Fence)
			default:
				highest = g
			}
		}
	}
	if count == 0 {
		exclusion.problem("nobody ever held a lock")
		fences.problem("no fence was ever issued")
	}
	exclusion.evidence, fences.evidence = fmt.Sprintf("%d intervals compared", count), fmt.Sprintf("%d fences in order", count)
	return exclusion, fences
}

// checkLedger compares the ledger's total with the number of accepted writes, because each of them added one.
func (h *History) checkLedger() (r result) {
	accepted := 0
	for _, e := range h.Of(Wrote) {
		if !e.Refused {
			accepted++
		}
	}
	if accepted == 0 {
		r.problem("nothing was ever written")
	}
	if h.Total != accepted {
		r.problem("%d writes were accepted, but the ledger has %d", accepted, h.Total)
	}
	r.evidence = fmt.Sprintf("%d writes, ledger at %d", accepted, h.Total)
	return r
}

func (h *History) checkTakeover(k Kind) (r result) {
	idle := h.Takeovers(k)
	if len(idle) == 0 {
		r.problem("it did not happen")
	}
	for _, d := range idle {
		switch {
		case d < 0:
			r.problem("nobody got the lock afterwards")
		case d > ttl+grace+h.Stood:
			r.problem("it took %s, but the TTL is %s", console.Duration(d), console.Duration(ttl))
		}
		r.evidence = fmt.Sprintf("after %s; the TTL is %s", console.Duration(d), console.Duration(ttl))
	}
	return r
}

func (h *History) checkStaleLease() (r result) {
	woken := h.Of(Woke)
	if len(woken) == 0 {
		r.problem("nobody woke up")
	}
	for _, e := range woken {
		if !e.Lost {
			r.problem("worker %d was told that it still holds the lock", e.Worker)
		}
	}
	r.evidence = "ErrLost at its first call of Err"
	return r
}

func (h *History) checkStaleWrite() (r result) {
	late := 0
	for _, e := range h.Of(Wrote) {
		if !e.Late {
			continue
		}
		late++
		if !e.Refused {
			r.problem("worker %d wrote with fence %d, and it was accepted", e.Worker, e.Fence)
		}
		r.evidence = fmt.Sprintf("%s is below %s", Fence(e.Fence), Fence(e.Highest))
	}
	if late == 0 {
		r.problem("nobody wrote late")
	}
	return r
}
