package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

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
