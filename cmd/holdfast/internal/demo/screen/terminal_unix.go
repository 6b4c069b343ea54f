//go:build unix

package screen

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize returns the size of a terminal; false if f is none, or does not interpret the sequences that move a
// cursor.
func terminalSize(f *os.File) (columns, rows int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || os.Getenv("TERM") == "dumb" {
		return 0, 0, false
	}
	return int(size.Col), int(size.Row), true
}
