//go:build !linux

package backend

import "time"

func bootTime() time.Duration { return 0 }
