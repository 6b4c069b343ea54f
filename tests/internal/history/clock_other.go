//go:build !linux

package history

import "time"

func nanotime() int64 { return time.Now().UnixNano() }
