package format

import (
	"testing"
	"time"
)

func TestFormat(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                       "0 µs",
		950 * time.Microsecond:  "950 µs",
		1500 * time.Microsecond: "1.5 ms",
		42 * time.Millisecond:   "42 ms",
		1500 * time.Millisecond: "1.5 s",
		20 * time.Second:        "20 s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%v) = %q, not %q", d, got, want)
		}
	}
	if got := Count(1234567) + " " + Count(123) + " " + Count(0); got != "1,234,567 123 0" {
		t.Errorf("counts: %s", got)
	}
	// The second fence is from two seconds later: it is higher, although its last six digits are lower.
	if got := Fence(1795478613705873) + " < " + Fence(1795478615702671); got != "…8613705873 < …8615702671" {
		t.Errorf("fences: %s", got)
	}
}
