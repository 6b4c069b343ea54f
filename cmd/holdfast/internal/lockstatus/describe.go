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

// maxShown bounds what is shown of a text that others wrote, in bytes.
const maxShown = 512

// Text says all that is known of a lock, for people. Of a quorum's lock it is not known who waits.
func Text(s holdfast.Status, quorum bool) string {
	var b strings.Builder
	kind := string(s.Kind)
	if kind == "" {
		kind = "lock"
	}
	fmt.Fprintf(&b, "%s %s\n", kind, printable.Line(s.Name, maxName))
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("key", "%s", printable.Line(s.Key, maxShown))
	switch s.Kind {
	case holdfast.KindSemaphore:
		used := 0
		for _, h := range s.Holders {
			used += h.Permits
		}
		line("permits", "%d of %d are taken", used, s.Limit)
	case holdfast.KindLatch:
		line("count", "%d of %d parties have not counted down", s.Count, s.Limit)
	case holdfast.KindBarrier:
		line("parties", "%d of %d have joined", len(s.Holders), s.Limit)
	}
	if s.Fence > 0 {
		line("fence", "%d", s.Fence)
	}
	switch n := len(s.Holders); {
	case n > 0 && s.Kind == holdfast.KindLatch, n > 0 && s.Kind == holdfast.KindBarrier:
		line("parties", "%d", n)
	case s.Kind == holdfast.KindElection && n > 0:
		line("led by", "%d", n)
	case n > 0:
		line("held by", "%d", n)
	case s.Kind == "":
		line("free", "the server has no lock of this name")
	case s.Kind == holdfast.KindElection:
		line("led by", "nobody")
	case s.Kind != holdfast.KindLatch && s.Kind != holdfast.KindBarrier:
		line("free", "nobody holds it")
	}
	for i, h := range s.Holders {
		fmt.Fprintf(&b, "    %d. %s\n", i+1, describeHolder(h, s.Time))
		writeMeta(&b, h.Meta)
	}
	switch waiting, standby := Waiting(s); {
	case standby > 0:
		line("standby", "%d, in this order", standby)
	case waiting > 0:
		line("awaited", "by %d, in this order", waiting)
	case s.Kind == holdfast.KindLatch || s.Kind == "":
	case quorum:
		line("awaited", "not known of a lock of a quorum")
	default:
		line("awaited", "by nobody")
	}
	for i, waiter := range s.Waiters {
		fmt.Fprintf(&b, "    %d. %s\n", i+1, describeWaiter(waiter, s.Time))
		writeMeta(&b, waiter.Meta)
	}
	if left := s.Waiting - len(s.Waiters); left > 0 && len(s.Waiters) > 0 {
		fmt.Fprintf(&b, "    and %d more\n", left)
	}
	return b.String()
}

func writeMeta(b *strings.Builder, meta map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		fmt.Fprintf(b, "       %s=%s\n", printable.Word(k, maxShown), printable.Word(meta[k], maxShown))
	}
}

func describeHolder(h holdfast.Holder, now time.Time) string {
	parts := []string{who(OwnerOf(h), h.Host, h.PID)}
	parts = append(parts, modeOf(h.Mode, h.Permits)...)
	if h.Grant != "" {
		parts = append(parts, GrantOf(h))
	}
	if !h.Since.IsZero() {
		parts = append(parts, since(h.Since, now))
	}
	if h.TTL < 0 {
		parts = append(parts, "no expiry")
	} else {
		parts = append(parts, fmt.Sprintf("expires in %s unless renewed", h.TTL.Round(100*time.Millisecond)))
	}
	return strings.Join(parts, ", ")
}

func describeWaiter(w holdfast.Waiter, now time.Time) string {
	parts := []string{who(OwnerOf(holdfast.Holder{Identity: w.Identity}), w.Host, w.PID)}
	parts = append(parts, modeOf(w.Mode, w.Permits)...)
	return strings.Join(append(parts, since(w.Since, now)), ", ")
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
		if permits == 1 {
			return []string{"1 permit"}
		}
		return []string{fmt.Sprintf("%d permits", permits)}
	}
	return nil
}

func since(t, now time.Time) string {
	return fmt.Sprintf("since %s (%s)", t.Local().Format(console.TimeFormat), Age(max(now.Sub(t), 0)))
}
