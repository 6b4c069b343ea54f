package console

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                         "0s",
		1234:                      "1µs",
		999 * time.Microsecond:    "999µs",
		1234 * time.Microsecond:   "1.23ms",
		148_200_000:               "148ms",
		1500 * time.Millisecond:   "1.5s",
		-1523 * time.Millisecond:  "-1.52s",
		80_540 * time.Millisecond: "1m20.5s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%d ns: %s, want %s", d, got, want)
		}
	}
}
