//go:build !unix

// Package tty passes a terminal's foreground from one process group to another,
// where systems have such a thing: not here.
package tty

import "os"

// Terminal is the controlling terminal of this process: there is none.
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

// Is reports whether f is a console.
func Is(f *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeCharDevice != 0
}
