// Package standstill notices that this process, and so most likely the machine, stood still.
package standstill

import (
	"context"
	"time"
)

// Until returns for how long this process stood still until ctx ended.
func Until(ctx context.Context) (all time.Duration) {
	const step, noticeable = 50 * time.Millisecond, 250 * time.Millisecond
	for last := time.Now(); ; {
		ended := false
		select {
		case <-ctx.Done():
			ended = true
		case <-time.After(step):
		}
		now := time.Now()
		if late := now.Sub(last) - step; late > noticeable {
			all += late
		}
		if ended {
			return all
		}
		last = now
	}
}
