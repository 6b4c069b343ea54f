//go:build !unix

package signals

import (
	"os"
	"syscall"
)

// The numbers of SIGCONT and SIGSTOP, which do not exist here.
const Continue, Stop = 0, 0

// Handled returns the signals that holdfast handles. Nothing here stops jobs, and there is no SIGPIPE.
func Handled() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

func EndsProgram(os.Signal) bool   { return true }
func IsBrokenPipe(os.Signal) bool  { return false }
func outputClosed() bool           { return false }
func Suspends(os.Signal) bool      { return false }
func Resizes(os.Signal) bool       { return false }
func Continues(os.Signal) bool     { return false }
func IsTerminalAccess(int) bool    { return false }
func AllowTerminalFromBackground() {}
func StopGroup()                   {}

// Number returns the number of sig.
func Number(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}
