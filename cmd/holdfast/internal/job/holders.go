package job

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
)

// MaxShown bounds what is shown of a text that others wrote, in bytes.
const MaxShown = 512

// longest returns the holder that has held the lock for the longest time.
func longest(holders []holdfast.Holder) holdfast.Holder {
	return slices.MinFunc(holders, func(a, b holdfast.Holder) int { return a.Since.Compare(b.Since) })
}

// describeAll describes the holders of a lock, or of several. keyOf returns the key of a lock.
func describeAll(holders []holdfast.Holder, keyOf func(name string) string) string {
	if len(holders) == 0 {
		return "a holder that is handing it over"
	}
	first := longest(holders)
	text := Describe(first, keyOf(first.Name))
	switch others := len(holders) - 1; others {
	case 0:
	case 1:
		text += " and 1 other"
	default:
		text += fmt.Sprintf(" and %d others", others)
	}
	return text
}

// Describe describes a holder of the lock with this key.
func Describe(h holdfast.Holder, key string) string {
	if h.Foreign {
		expiry := ""
		if h.TTL < 0 {
			expiry = ", which has no expiry"
		}
		return fmt.Sprintf("another program (key %s%s)", printable.Line(key, MaxShown), expiry)
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
	if where := lockstatus.Where(h.Host, h.PID); where != "" {
		about = append(about, where)
	}
	if !h.Since.IsZero() {
		about = append(about, "since "+h.Since.Local().Format(console.TimeFormat))
	}
	var meta []string
	for k, v := range h.Meta {
		meta = append(meta, printable.Word(k, MaxShown)+"="+printable.Word(v, MaxShown))
	}
	slices.Sort(meta)
	if about = append(about, meta...); len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	return text
}

// DescribeWaiter describes a process that waits for a lock.
func DescribeWaiter(w holdfast.Waiter) string {
	return Describe(holdfast.Holder{Identity: w.Identity, Host: w.Host, PID: w.PID, Meta: w.Meta, Since: w.Since}, "")
}
