package lockstatus

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

// Text says all that is known of a lock, for people. Of a quorum's lock it is not known who waits.
func Text(s holdfast.Status, quorum bool) string {
	var b strings.Builder
	sum := Summarize(s)
	kind := sum.Kind
	if kind == "" {
		kind = "lock"
	}
	fmt.Fprintf(&b, "%s %s\n", kind, sum.Name)
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("key", "%s", printable.Line(s.Key, maxShown))
	if s.Fence > 0 {
		line("fence", "%d", s.Fence)
	}
	switch {
	case s.Kind == "":
		line("free", "the server has no lock of this name")
	case sum.Holders == "-":
		line("free", "nobody holds it")
	case s.Kind == holdfast.KindLatch || s.Kind == holdfast.KindBarrier || s.Kind == holdfast.KindElection:
		line("state", "%s", sum.Holders)
	default:
		line("held by", "%s", sum.Holders)
	}
	for i, h := range s.Holders {
		about := []string{}
		if h.Grant != "" {
			about = append(about, GrantOf(h))
		}
		if !h.Since.IsZero() {
			about = append(about, since(h.Since, s.Time))
		}
		if h.TTL < 0 {
			about = append(about, "no expiry")
		} else {
			about = append(about, fmt.Sprintf("expires in %s unless renewed", h.TTL.Round(100*time.Millisecond)))
		}
		writeProcess(&b, i, OwnerOf(h), NewHolder(h).Process, about)
	}
	switch awaited := sum.Awaited(); {
	case awaited != "":
		line("awaited", "by %s, in this order", awaited)
	case quorum && s.Kind != "":
		line("awaited", "not known of a lock of a quorum")
	}
	for i, w := range NewWaiters(s.Waiters) {
		writeProcess(&b, i, OwnerOf(holdfast.Holder{Identity: w.Identity}), w.Process, []string{since(w.Since, s.Time)})
	}
	if left := s.Waiting - len(s.Waiters); left > 0 && len(s.Waiters) > 0 {
		fmt.Fprintf(&b, "    and %d more\n", left)
	}
	return b.String()
}

// writeProcess writes what is known of a holder or a waiter, and its notes.
func writeProcess(b *strings.Builder, i int, owner string, p Process, about []string) {
	if where := Where(p.Host, p.PID); where != "" {
		owner += " (" + where + ")"
	}
	switch p.Mode {
	case holdfast.ModeReader, holdfast.ModeWriter:
		owner += ", " + string(p.Mode)
	case holdfast.ModePermits:
		owner += fmt.Sprintf(", permits: %d", p.Permits)
	}
	fmt.Fprintf(b, "    %d. %s, %s\n", i+1, owner, strings.Join(about, ", "))
	for _, k := range slices.Sorted(maps.Keys(p.Meta)) {
		fmt.Fprintf(b, "       %s=%s\n", printable.Word(k, maxShown), printable.Word(p.Meta[k], maxShown))
	}
}

// Where says in which process a holder or waiter is; "" if it is not known.
func Where(host string, pid int) string {
	var parts []string
	if pid != 0 {
		parts = append(parts, fmt.Sprintf("pid %d", pid))
	}
	if host != "" {
		parts = append(parts, "on "+printable.Word(host, maxOwner))
	}
	return strings.Join(parts, " ")
}

func since(t, now time.Time) string {
	return fmt.Sprintf("since %s (%s)", t.Local().Format(console.TimeFormat), Age(max(now.Sub(t), 0)))
}
