//go:build !unix

package terminal

import (
	"os"
	"syscall"
)

// Signals that do not exist here.
const Continue, Stop, Suspend, Resize = syscall.Signal(0), syscall.Signal(0), syscall.Signal(0), syscall.Signal(0)

// Signals returns the signals that holdfast handles. Nothing here stops jobs, and there is no SIGPIPE.
func Signals() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

func outputClosed() bool  { return false }
func StopsUsers(int) bool { return false }
func StopGroup()          {}

// Terminal is the controlling terminal of this process. There is none here, and its methods do nothing.
type Terminal struct{}

func Open() *Terminal                 { return nil }
func (*Terminal) Close()              {}
func (*Terminal) Foreground(int) bool { return false }
func (*Terminal) Pass(int, int)       {}
func OwnGroup() int                   { return 0 }

// Is reports whether f is a console.
func Is(f *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeCharDevice != 0
}

// Size returns false: whether a console interprets the sequences that move a cursor depends on its settings.
func Size(*os.File) (columns, rows int, ok bool) { return 0, 0, false }
