// Package format writes numbers and times for people.
package format

import (
	"fmt"
	"strings"
	"time"
)

// Duration writes a duration with about three digits.
func Duration(d time.Duration) string {
	switch {
	case d >= time.Second:
		return withoutZeros(fmt.Sprintf("%.2f", d.Seconds())) + " s"
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%d µs", d.Microseconds())
}

// Fence writes the last 10 digits of a fence. A fence is close to a time in microseconds, so these digits differ within a run, and
// rise as the fences do.
func Fence(f uint64) string { return fmt.Sprintf("…%010d", f%1e10) }

func withoutZeros(number string) string {
	return strings.TrimSuffix(strings.TrimRight(number, "0"), ".")
}

// Count writes 1234567 as 1,234,567.
func Count(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
