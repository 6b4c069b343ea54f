//go:build !unix

package signals

import (
	"os"
	"syscall"
)

// Continue is the number of SIGCONT, which does not exist here.
const Continue = 0

// Handled lists the signals that holdfast handles.
func Handled() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

// EndsProgram reports whether sig asks a program to end.
func EndsProgram(os.Signal) bool { return true }

// IsBrokenPipe returns false: there is no SIGPIPE here.
func IsBrokenPipe(os.Signal) bool { return false }

func outputClosed() bool { return false }

// Suspends returns false: nothing here stops jobs.
func Suspends(os.Signal) bool { return false }

// Continues returns false: nothing here stops jobs.
func Continues(os.Signal) bool { return false }

// Number returns the number of sig.
func Number(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}

// IsTerminalAccess returns false: nothing here stops jobs.
func IsTerminalAccess(int) bool { return false }

// AllowTerminalFromBackground does nothing.
func AllowTerminalFromBackground() {}

// StopGroup does nothing.
func StopGroup() {}
