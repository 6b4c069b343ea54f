//go:build !unix

package tty

import (
	"os"
)

// Terminal is the controlling terminal of this process. There is none here, and its methods do nothing.
type Terminal struct{}

func Open() *Terminal                 { return nil }
func (*Terminal) Close()              {}
func (*Terminal) Foreground(int) bool { return false }
func (*Terminal) Pass(int, int)       {}
func OwnGroup() int                   { return 0 }

// IsTerminal reports whether f is a console.
func IsTerminal(f *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeCharDevice != 0
}

// Size returns false: whether a console interprets the sequences that move a cursor depends on its settings.
func Size(*os.File) (columns, rows int, ok bool) { return 0, 0, false }
