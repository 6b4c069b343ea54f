// Package lockstatus describes locks, their holders and their waiters, to people and as JSON.
package lockstatus

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
)

// Report is a lock's status as JSON.
type Report struct {
	Time    time.Time     `json:"time"` // by the server's clock
	Name    string        `json:"name"`
	Key     string        `json:"key"`
	Kind    holdfast.Kind `json:"kind,omitempty"`
	Held    bool          `json:"held"`
	Fence   uint64        `json:"fence,omitempty"`
	Limit   int           `json:"limit,omitempty"`
	Count   *int          `json:"count,omitempty"` // of a latch
	Holders []Process     `json:"holders"`
	Waiting *int          `json:"waiting"` // null if unknown
	Waiters []Process     `json:"waiters"` // the first ones; null if unknown
}

// Process is a process that holds a lock or waits for it, as JSON. What is unknown is left out.
type Process struct {
	Identity string            `json:"identity,omitempty"`
	Host     string            `json:"host,omitempty"`
	PID      int               `json:"pid,omitempty"`
	Meta     map[string]string `json:"meta,omitempty"`
	Mode     holdfast.Mode     `json:"mode,omitempty"`
	Permits  int               `json:"permits,omitempty"`
	Grant    string            `json:"grant,omitempty"`
	Fence    uint64            `json:"fence,omitempty"`
	Since    time.Time         `json:"since,omitzero"`
	TTL      *int64            `json:"ttl_ms,omitempty"` // of a holder; left out if there is no expiry
	Foreign  bool              `json:"foreign,omitempty"`
	Waiters  *int              `json:"waiters,omitempty"` // of a holder's lock; set by NewAwaited
}

// NewReport returns the report of a lock. quorum means that it is a quorum's lock, whose waiters are unknown.
func NewReport(s holdfast.Status, quorum bool) *Report {
	r := &Report{Time: s.Time, Name: s.Name, Key: s.Key, Kind: s.Kind, Held: s.Held(), Fence: s.Fence, Limit: s.Limit, Holders: []Process{}}
	if s.Kind == holdfast.KindLatch {
		r.Count = &s.Count
	}
	for _, h := range s.Holders {
		r.Holders = append(r.Holders, NewHolder(h))
	}
	if !quorum {
		r.Waiting, r.Waiters = &s.Waiting, NewWaiters(s.Waiters)
	}
	return r
}

// NewWaiters returns the reports of waiters, in the same order.
func NewWaiters(waiters []holdfast.Waiter) []Process {
	all := []Process{}
	for _, w := range waiters {
		all = append(all, Process{
			Identity: w.Identity, Host: w.Host, PID: w.PID, Meta: w.Meta, Mode: w.Mode, Permits: w.Permits, Since: w.Since,
		})
	}
	return all
}

// NewHolder returns the report of a holder.
func NewHolder(h holdfast.Holder) Process {
	p := Process{h.Identity, h.Host, h.PID, h.Meta, h.Mode, h.Permits, h.Grant, h.Fence, h.Since, nil, h.Foreign, nil}
	if ttl := h.TTL.Milliseconds(); h.TTL >= 0 {
		p.TTL = &ttl
	}
	return p
}

// NewAwaited returns the report of a holder of a lock with this number of waiters.
func NewAwaited(h holdfast.Holder, waiters int) *Process {
	p := NewHolder(h)
	p.Waiters = &waiters
	return &p
}

// Summary is a lock in one line.
type Summary struct {
	Name    string
	Kind    string
	Holders string
	Age     time.Duration // how long the oldest holder has held the lock; negative if unknown, or without holders
	TTL     time.Duration // of the lease that expires first; negative if there is none, or if it never expires
	Waiting int
	Standby int    // number of candidates of an election that has a leader, which wait while all is well
	Grant   string // of the only holder; "" if there are several
}

const (
	// MaxShown bounds what is shown of a text that others wrote, in bytes. Names of locks are never longer.
	MaxShown = 512
	// maxOwner bounds what is shown of an identity or a host, in bytes.
	maxOwner = 64
	// named is the maximum number of holders that a Summary names.
	named = 3
)

// Summarize returns the summary of a lock.
func Summarize(s holdfast.Status) Summary {
	sum := Summary{Name: printable.Line(s.Name, MaxShown), Kind: string(s.Kind), Holders: holders(s), Age: -1, TTL: -1, Waiting: s.Waiting}
	if s.Kind == holdfast.KindElection && s.Held() {
		sum.Waiting, sum.Standby = 0, s.Waiting
	}
	if len(s.Holders) == 1 {
		sum.Grant = s.Holders[0].Grant
	}
	for _, h := range s.Holders {
		if !h.Since.IsZero() {
			sum.Age = max(sum.Age, s.Time.Sub(h.Since), 0)
		}
		if h.TTL >= 0 && (sum.TTL < 0 || h.TTL < sum.TTL) {
			sum.TTL = h.TTL
		}
	}
	return sum
}

// Awaited says how many processes wait for the lock or stand by. It returns "" if none does.
func (s Summary) Awaited() string {
	switch {
	case s.Waiting > 0:
		return strconv.Itoa(s.Waiting)
	case s.Standby > 0:
		return fmt.Sprintf("%d standby", s.Standby)
	}
	return ""
}

// holders says in a few words who holds the lock.
func holders(s holdfast.Status) string {
	var who []string
	permits := 0
	for _, h := range s.Holders {
		permits += h.Permits
		if owner := OwnerOf(h); !slices.Contains(who, owner) {
			who = append(who, owner)
		}
	}
	names := strings.Join(who[:min(len(who), named)], ", ")
	if len(who) > named {
		names += ", …"
	}
	before := ""
	switch n := len(s.Holders); {
	case s.Kind == holdfast.KindSemaphore:
		before = fmt.Sprintf("%d of %d", permits, s.Limit)
	case s.Kind == holdfast.KindLatch:
		before = fmt.Sprintf("%d of %d left", s.Count, s.Limit)
	case s.Kind == holdfast.KindBarrier:
		before = fmt.Sprintf("%d of %d", n, s.Limit)
	case s.Kind == holdfast.KindElection && n == 0:
		return "no leader"
	case n == 0:
		return "-"
	case s.Kind == holdfast.KindElection:
		before = "leader"
	case s.Kind == holdfast.KindRWMutex && s.Holders[0].Mode == holdfast.ModeWriter:
		before = "writer"
	case s.Kind == holdfast.KindRWMutex && n == 1:
		before = "reader"
	case s.Kind == holdfast.KindRWMutex:
		before = fmt.Sprintf("%d readers", n)
	case n > 1:
		return fmt.Sprintf("%s (%d times)", names, n)
	default:
		return names
	}
	if names == "" {
		return before
	}
	return before + ": " + names
}

// OwnerOf returns the holder's identity, for people.
func OwnerOf(h holdfast.Holder) string {
	switch {
	case h.Foreign:
		return "(another program)"
	case h.Identity == "":
		return "(unknown)"
	}
	return printable.Word(h.Identity, maxOwner)
}

// GrantOf returns the holder's grant id and fence, for people.
func GrantOf(h holdfast.Holder) string {
	text := "grant " + h.Grant
	if h.Fence > 0 { // 0 while it is unknown to others
		text += fmt.Sprintf(", fence %d", h.Fence)
	}
	return text
}

// Age returns a duration in a few characters, or "-" if it is negative.
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "-"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// Text says everything that is known of a lock. quorum means that it is a quorum's lock, whose waiters are unknown.
func Text(s holdfast.Status, server string, quorum bool) string {
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
	line("key", "%s", printable.Line(s.Key, MaxShown))
	if s.Fence > 0 {
		line("fence", "%d", s.Fence)
	}
	switch {
	case s.Kind == "":
		line("free", "%s has no lock of this name", server)
	case sum.Holders == "-":
		line("free", "nobody holds it on %s", server)
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
		writeProcess(&b, i, OwnerOf(h), NewHolder(h), about)
	}
	switch awaited := sum.Awaited(); {
	case awaited != "":
		line("awaited", "by %s, in this order", awaited)
	case quorum && s.Kind != "":
		line("awaited", "not known of a lock of a quorum")
	}
	for i, w := range NewWaiters(s.Waiters) {
		writeProcess(&b, i, OwnerOf(holdfast.Holder{Identity: w.Identity}), w, []string{since(w.Since, s.Time)})
	}
	if left := s.Waiting - len(s.Waiters); left > 0 && len(s.Waiters) > 0 {
		fmt.Fprintf(&b, "    and %d more\n", left)
	}
	return b.String()
}

// writeProcess writes the ith holder or waiter in a line, and each of its notes in another.
func writeProcess(b *strings.Builder, i int, owner string, p Process, about []string) {
	if where := where(p.Host, p.PID); where != "" {
		owner += " (" + where + ")"
	}
	switch p.Mode {
	case holdfast.ModeReader, holdfast.ModeWriter:
		owner += ", " + string(p.Mode)
	case holdfast.ModePermits:
		owner += fmt.Sprintf(", permits: %d", p.Permits)
	}
	fmt.Fprintf(b, "    %d. %s, %s\n", i+1, owner, strings.Join(about, ", "))
	for _, note := range notes(p.Meta) {
		fmt.Fprintf(b, "       %s\n", note)
	}
}

// Describe describes a holder in a phrase.
func Describe(h holdfast.Holder) string {
	switch {
	case h.Foreign && h.TTL < 0:
		return "another program, without an expiry"
	case h.Foreign:
		return "another program"
	}
	text := "somebody"
	if h.Identity != "" {
		text = printable.Word(h.Identity, MaxShown)
	}
	var about []string
	switch h.Mode {
	case holdfast.ModeReader:
		about = append(about, "shared")
	case holdfast.ModeWriter:
		about = append(about, "exclusive")
	}
	if where := where(h.Host, h.PID); where != "" {
		about = append(about, where)
	}
	if !h.Since.IsZero() {
		about = append(about, "since "+h.Since.Local().Format(console.TimeFormat))
	}
	if about = append(about, notes(h.Meta)...); len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	return text
}

func notes(meta map[string]string) (all []string) {
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		all = append(all, printable.Word(k, MaxShown)+"="+printable.Word(meta[k], MaxShown))
	}
	return all
}

// where returns the host and process id of a holder or waiter; "" if both are unknown.
func where(host string, pid int) string {
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
