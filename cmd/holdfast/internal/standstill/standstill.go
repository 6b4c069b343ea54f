// Package standstill measures how long this process, and most likely the machine, stood still.
package standstill

import (
	"context"
	"time"
)

// Until waits until ctx ends, and returns how long this process stood still meanwhile.
func Until(ctx context.Context) (all time.Duration) {
	const step, noticeable = 50 * time.Millisecond, 250 * time.Millisecond
	for last := time.Now(); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-time.After(step):
		}
		now := time.Now()
		if late := now.Sub(last) - step; late > noticeable {
			all += late
		}
		last = now
	}
	return all
}
