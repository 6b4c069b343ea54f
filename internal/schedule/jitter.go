package schedule

import (
	"math/rand/v2"
	"time"
)

// Jitter returns d, lengthened or shortened at random by up to that many percent.
func Jitter(d time.Duration, percent int) time.Duration {
	spread := d * time.Duration(percent) / 100
	if spread <= 0 {
		return d
	}
	return d - spread + rand.N(2*spread)
}
