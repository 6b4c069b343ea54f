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
		parts := []string{who(OwnerOf(h), h.Host, h.PID)}
		parts = append(parts, modeOf(h.Mode, h.Permits)...)
		if h.Grant != "" {
			parts = append(parts, GrantOf(h))
		}
		if !h.Since.IsZero() {
			parts = append(parts, since(h.Since, s.Time))
		}
		expiry := "no expiry"
		if h.TTL >= 0 {
			expiry = fmt.Sprintf("expires in %s unless renewed", h.TTL.Round(100*time.Millisecond))
		}
		writePerson(&b, i, append(parts, expiry), h.Meta)
	}
	switch awaited := sum.Awaited(); {
	case awaited != "":
		line("awaited", "by %s, in this order", awaited)
	case quorum && s.Kind != "":
		line("awaited", "not known of a lock of a quorum")
	}
	for i, w := range s.Waiters {
		parts := []string{who(OwnerOf(holdfast.Holder{Identity: w.Identity}), w.Host, w.PID)}
		writePerson(&b, i, append(append(parts, modeOf(w.Mode, w.Permits)...), since(w.Since, s.Time)), w.Meta)
	}
	if left := s.Waiting - len(s.Waiters); left > 0 && len(s.Waiters) > 0 {
		fmt.Fprintf(&b, "    and %d more\n", left)
	}
	return b.String()
}

// writePerson writes what is known of a holder or a waiter, and its notes.
func writePerson(b *strings.Builder, i int, parts []string, meta map[string]string) {
	fmt.Fprintf(b, "    %d. %s\n", i+1, strings.Join(parts, ", "))
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		fmt.Fprintf(b, "       %s=%s\n", printable.Word(k, maxShown), printable.Word(meta[k], maxShown))
	}
}

func who(owner, host string, pid int) string {
	if where := Where(host, pid); where != "" {
		return owner + " (" + where + ")"
	}
	return owner
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

// modeOf says how a lock is held or wanted, if that does not go without saying.
func modeOf(mode holdfast.Mode, permits int) []string {
	switch mode {
	case holdfast.ModeReader, holdfast.ModeWriter:
		return []string{string(mode)}
	case holdfast.ModePermits:
		return []string{fmt.Sprintf("permits: %d", permits)}
	}
	return nil
}

func since(t, now time.Time) string {
	return fmt.Sprintf("since %s (%s)", t.Local().Format(console.TimeFormat), Age(max(now.Sub(t), 0)))
}
