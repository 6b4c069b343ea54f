//go:build !unix

package measure

import "time"

// ProcessCPU returns false: this system does not report the processor time of a process.
func ProcessCPU() (used time.Duration, ok bool) { return 0, false }
