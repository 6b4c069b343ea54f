package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// places is how many winners are drawn.
const places = 10

// grace is what a take-over may cost beyond the TTL: a server and a machine
// that are busy with other things.
const grace = time.Second

// Check is one invariant, and whether the history keeps to it.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // evidence, or what is wrong
}

// check decides every invariant that the history should keep to.
func check(h *history, ttl time.Duration) []Check {
	checks := []Check{
		decide("10 draws, 10 different winners", checkDraws(h)),
		decide("never two holders at once", checkExclusion(h)),
		decide("fences strictly increasing", checkFences(h)),
	}
	if !h.locked {
		return checks // there is no more to it
	}
	checks = append(checks,
		decide("no update lost", checkLedger(h)),
		decide("next holder in time after SIGKILL", checkTakeover(h, wasKilled, ttl)))
	if h.pauses {
		checks = append(checks,
			decide("next holder in time after SIGSTOP", checkTakeover(h, wasPaused, ttl)),
			decide("woken holder told by its lease", checkStaleLease(h)),
			decide("late write refused by the fence", checkStaleWrite(h)))
	}
	return checks
}

// finding is what a check found: evidence, or problems.
type finding struct {
	evidence string
	problems []string
}

func (f *finding) problem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

func decide(name string, f finding) Check {
	if len(f.problems) == 0 {
		return Check{name, true, f.evidence}
	}
	const most = 2 // the first few tell what went wrong; all of them would hide it
	detail := strings.Join(f.problems[:min(most, len(f.problems))], "; ")
	if more := len(f.problems) - most; more > 0 {
		detail += fmt.Sprintf("; and %d more", more)
	}
	return Check{name, false, detail}
}

func checkDraws(h *history) (f finding) {
	draws := h.pick(isDraw)
	winners := map[string]bool{}
	byPlace := map[int][]string{}
	for _, d := range draws {
		winners[d.Winner] = true
		byPlace[d.Place] = append(byPlace[d.Place], d.Winner)
	}
	if len(draws) != places {
		f.problem("%d draws were made for %d places", len(draws), places)
	}
	for place := 1; place <= places; place++ {
		if drawn := byPlace[place]; len(drawn) != 1 {
			f.problem("place %d was drawn %d times%s", place, len(drawn), list(drawn))
		}
	}
	if len(winners) != places {
		f.problem("%d different people won", len(winners))
	}
	for i, name := range h.winners {
		if !slices.Contains(byPlace[i+1], name) {
			f.problem("the list has %s in place %d, whom nobody drew for it", name, i+1)
		}
	}
	if len(h.winners) != places {
		f.problem("the list has %d winners", len(h.winners))
	}
	f.evidence = "the list in Redis has the same"
	return f
}

func list(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ": " + strings.Join(names, ", ")
}

// checkExclusion sweeps over the grants and remembers the one that ends last.
func checkExclusion(h *history) (f finding) {
	count := 0
	for _, lock := range []string{lottery, ledger} {
		var longest grant
		for _, g := range h.grants(lock) {
			if !g.held() {
				continue
			}
			count++
			if g.at.add(clockError) < longest.end() {
				f.problem("%s: worker %d got the lock %s before worker %d let go of it",
					lock, g.worker, short(longest.end().sub(g.at)), longest.worker)
			}
			if g.end() > longest.end() {
				longest = g
			}
		}
	}
	if count == 0 {
		f.problem("nobody ever held a lock")
	}
	f.evidence = fmt.Sprintf("%s intervals compared", thousands(count))
	return f
}

func checkFences(h *history) (f finding) {
	count := 0
	for _, lock := range []string{lottery, ledger} {
		var highest grant
		for _, g := range h.grants(lock) {
			if !g.held() {
				continue
			}
			count++
			switch {
			case g.fence == 0:
				f.problem("%s: worker %d worked without a fence", lock, g.worker)
				continue
			case g.fence <= highest.fence:
				f.problem("%s: worker %d got fence %d after worker %d had got %d",
					lock, g.worker, g.fence, highest.worker, highest.fence)
				continue
			}
			highest = g
		}
	}
	if count == 0 {
		f.problem("no fence was ever issued")
	}
	f.evidence = fmt.Sprintf("%s fences in order", thousands(count))
	return f
}

// checkLedger compares the total with the writes that were accepted: each read
// the total and wrote one more.
func checkLedger(h *history) (f finding) {
	accepted := 0
	for _, e := range h.pick(isWrite) {
		if !e.Refused {
			accepted++
		}
	}
	if accepted == 0 {
		f.problem("nothing was ever written")
	}
	if h.total != accepted {
		f.problem("%s writes were accepted, and the ledger stands at %s", thousands(accepted), thousands(h.total))
	}
	f.evidence = fmt.Sprintf("%s writes, ledger at %s", thousands(accepted), thousands(h.total))
	return f
}

func checkTakeover(h *history, k kind, ttl time.Duration) (f finding) {
	idle := h.takeovers(k)
	if len(idle) == 0 {
		f.problem("it never came to that")
	}
	for _, d := range idle {
		switch {
		case d < 0:
			f.problem("nobody got the lock after that")
		case d > ttl+grace+h.stood:
			f.problem("it took %s, and the TTL is %s", short(d), short(ttl))
		}
		f.evidence = fmt.Sprintf("after %s; the TTL is %s", short(d.Truncate(time.Millisecond)), short(ttl))
	}
	return f
}

func checkStaleLease(h *history) (f finding) {
	woken := h.pick(isWoken)
	if len(woken) == 0 {
		f.problem("nobody woke up")
	}
	for _, e := range woken {
		if !e.Lost {
			f.problem("worker %d was told that it still holds the lock", e.Worker)
		}
	}
	f.evidence = "ErrLost at its first call of Err"
	return f
}

func checkStaleWrite(h *history) (f finding) {
	late := 0
	for _, e := range h.pick(isWrite) {
		if !e.Late {
			continue
		}
		late++
		if !e.Refused {
			f.problem("worker %d wrote with fence %d, and it was accepted", e.Worker, e.Fence)
		}
		f.evidence = fmt.Sprintf("fence …%06d is below …%06d", e.Fence%1e6, e.Mark%1e6)
	}
	if late == 0 {
		f.problem("nobody wrote late")
	}
	return f
}
