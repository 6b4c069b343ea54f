//go:build !unix

package ticketfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// duplicate fails: only on Unix does a process inherit descriptors by their numbers.
func duplicate(int, bool) (*os.File, error) {
	return nil, errors.New("--ticket-fd needs a Unix system: use --ticket FILE")
}

// openUnlinked opens an existing file, and refuses a symbolic link.
func openUnlinked(name string, flag int) (*os.File, error) {
	info, err := os.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		err = fmt.Errorf("%s is a symbolic link: name the file itself", name)
	}
	if err != nil {
		return nil, err
	}
	return os.OpenFile(name, flag, 0)
}

// isExposed returns false: the mode does not say who may read a file.
func isExposed(fs.FileInfo) bool { return false }
