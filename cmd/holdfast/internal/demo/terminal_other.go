//go:build !unix

package demo

import "os"

// terminalSize says that f is no terminal: whether a console here knows the
// sequences by which a cursor moves, depends on its settings.
func terminalSize(*os.File) (columns, rows int, ok bool) { return 0, 0, false }
