// Package lockstatus says to people, and to programs, what is known of a lock.
package lockstatus

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// Report is what is known of a lock, as JSON.
type Report struct {
	Time    time.Time     `json:"time"` // by the server's clock
	Name    string        `json:"name"`
	Key     string        `json:"key"`
	Kind    holdfast.Kind `json:"kind,omitempty"`
	Held    bool          `json:"held"`
	Fence   uint64        `json:"fence,omitempty"`
	Limit   int           `json:"limit,omitempty"`
	Count   *int          `json:"count,omitempty"` // of a latch
	Holders []Holder      `json:"holders"`
	Waiting *int          `json:"waiting"` // null if it is not known
	Waiters []Waiter      `json:"waiters"` // the first; null if they are not known
}

// Process is who holds a lock or waits for it, and how.
type Process struct {
	Identity string            `json:"identity,omitempty"`
	Host     string            `json:"host,omitempty"`
	PID      int               `json:"pid,omitempty"`
	Meta     map[string]string `json:"meta,omitempty"`
	Mode     holdfast.Mode     `json:"mode,omitempty"`
	Permits  int               `json:"permits,omitempty"`
}

// Holder is a holder of a lock.
type Holder struct {
	Process
	Grant   string     `json:"grant,omitempty"`
	Fence   uint64     `json:"fence,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	TTL     *int64     `json:"ttl_ms"` // null: no expiry
	Foreign bool       `json:"foreign,omitempty"`
}

// Waiter is a process that waits for a lock.
type Waiter struct {
	Process
	Since time.Time `json:"since"`
}

// NewReport returns the report of a lock. Of a quorum's lock it is not known who waits.
func NewReport(s holdfast.Status, quorum bool) *Report {
	r := &Report{
		Time: s.Time, Name: s.Name, Key: s.Key, Kind: s.Kind, Held: s.Held(), Fence: s.Fence, Limit: s.Limit, Holders: []Holder{},
	}
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

// NewWaiters returns the report of a lock's waiters, in order.
func NewWaiters(waiters []holdfast.Waiter) []Waiter {
	all := []Waiter{}
	for _, w := range waiters {
		all = append(all, Waiter{Process{w.Identity, w.Host, w.PID, w.Meta, w.Mode, w.Permits}, w.Since})
	}
	return all
}

// NewHolder returns the report of a holder.
func NewHolder(h holdfast.Holder) Holder {
	own := Holder{Grant: h.Grant, Fence: h.Fence, Foreign: h.Foreign}
	own.Process = Process{h.Identity, h.Host, h.PID, h.Meta, h.Mode, h.Permits}
	if !h.Since.IsZero() {
		own.Since = &h.Since
	}
	if ttl := h.TTL.Milliseconds(); h.TTL >= 0 {
		own.TTL = &ttl
	}
	return own
}

// Summary is a lock in one line.
type Summary struct {
	Name    string
	Kind    string
	Holders string
	Age     time.Duration // of the oldest holder; negative if there is none, or it is not known
	TTL     time.Duration // of the holder that would expire first; negative if there is none, or it has no expiry
	Waiting int
	Standby int    // candidates of an election that has a leader: they wait for as long as all is well
	Grant   string // of the only holder
}

const (
	// maxShown bounds what is shown of a text that others wrote, in bytes; a name has as many at most.
	maxShown = 512
	// maxOwner bounds what is shown of an owner.
	maxOwner = 64
	// named is how many holders a Summary names.
	named = 3
)

// Summarize returns the summary of a lock.
func Summarize(s holdfast.Status) Summary {
	sum := Summary{Name: printable.Line(s.Name, maxShown), Kind: string(s.Kind), Holders: holders(s), Age: -1, TTL: -1, Waiting: s.Waiting}
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

// Awaited says how many wait for the lock, or stand by; "" if nobody does.
func (s Summary) Awaited() string {
	switch {
	case s.Waiting > 0:
		return strconv.Itoa(s.Waiting)
	case s.Standby > 0:
		return fmt.Sprintf("%d standby", s.Standby)
	}
	return ""
}

// holders says in a few words who holds a lock.
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

// OwnerOf names a holder.
func OwnerOf(h holdfast.Holder) string {
	switch {
	case h.Foreign:
		return "(another program)"
	case h.Identity == "":
		return "(unknown)"
	}
	return printable.Word(h.Identity, maxOwner)
}

// GrantOf says by which grant a holder has the lock.
func GrantOf(h holdfast.Holder) string {
	text := "grant " + h.Grant
	if h.Fence > 0 { // otherwise it is not known yet
		text += fmt.Sprintf(", fence %d", h.Fence)
	}
	return text
}

// Age writes how old something is, or how long it has left, in a few characters; "-" if it is negative.
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
