//go:build !unix

package cli

import (
	"errors"
	"os"
)

// duplicate fails: only on Unix does a process inherit descriptors by their numbers.
func duplicate(int, bool) (*os.File, error) {
	return nil, errors.New("--ticket-fd needs a Unix system: use --ticket FILE")
}
