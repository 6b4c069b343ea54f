// Package format writes times for people.
package format

import "time"

// Duration writes a duration with about three digits.
func Duration(d time.Duration) string {
	unit := time.Microsecond
	for 1000*unit <= d.Abs() {
		unit *= 10
	}
	return d.Round(unit).String()
}
