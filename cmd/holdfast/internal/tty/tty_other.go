//go:build !unix

// Package tty moves a terminal's foreground between process groups, and knows a terminal's size, on systems that have such
// things.
package tty

import "os"

// Terminal is the controlling terminal of this process, which does not exist here.
type Terminal struct{}

// Open returns nil.
func Open() *Terminal { return nil }

// Close does nothing.
func (*Terminal) Close() {}

// Foreground returns false.
func (*Terminal) Foreground(int) bool { return false }

// Pass does nothing.
func (*Terminal) Pass(int, int) {}

// OwnGroup returns 0.
func OwnGroup() int { return 0 }

// IsTerminal reports whether f is a console.
func IsTerminal(f *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeCharDevice != 0
}

// Size returns false: whether a console interprets the sequences that move a cursor depends on its settings.
func Size(*os.File) (columns, rows int, ok bool) { return 0, 0, false }

// Resized returns a channel that receives nothing.
func Resized() (resized <-chan os.Signal, stop func()) { return nil, func() {} }
