//go:build unix

package demo

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize returns the size of the terminal that f is; false if it is none,
// or does not know the sequences by which a cursor moves.
func terminalSize(f *os.File) (columns, rows int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || os.Getenv("TERM") == "dumb" {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}
