// Package output writes what holdfast prints for programs: JSON, and files with reports.
package output

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// JSON returns a value as one line of JSON. Characters that do not print are escaped.
func JSON(value any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return printable.JSON(text.Bytes()), nil
}

// ReplaceFile replaces a file completely or not at all: it writes another file and renames it. So it does not follow a symbolic link,
// which another user may have made. It writes directly to anything that is not a regular file, such as a pipe or a terminal. A pipe
// without a reader is an error; a reader that does not read makes ReplaceFile wait.
func ReplaceFile(name string, text []byte) error {
	if !isRegular(name) {
		// Without O_NONBLOCK, opening a pipe would wait for a reader.
		f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, syscall.ENXIO) {
			return fmt.Errorf("%w: it is a pipe that nobody reads, or a socket", err)
		}
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Close())
	}
	var mode fs.FileMode
	if old, err := os.Lstat(name); err == nil && old.Mode().IsRegular() {
		mode = old.Mode().Perm()
	}
	return rename(name, text, mode)
}

// PublishFile is ReplaceFile for a file that every user may read, whatever the umask and the mode of the old file. It fails if the file
// exists and is not a regular file.
func PublishFile(name string, text []byte) error {
	if !isRegular(name) {
		return notRegular(name)
	}
	return rename(name, text, 0o644)
}

// rename writes another file, and renames it. With mode 0, the umask decides who may read the file.
func rename(name string, text []byte, mode fs.FileMode) error {
	next := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+rand.Text())
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return &fs.PathError{Op: "create", Path: name, Err: errors.Unwrap(err)}
	}
	_, err = f.Write(text)
	if mode != 0 {
		err = errors.Join(err, f.Chmod(mode))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, name)
	}
	if err != nil {
		_ = os.Remove(next)
	}
	return err
}

// ReadRegular reads a regular file. For anything else, such as a pipe, it returns an error without waiting.
func ReadRegular(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(name)
	}
	return io.ReadAll(f)
}

func notRegular(name string) error { return fmt.Errorf("%s is not a regular file", name) }

// isRegular reports whether a file is regular or does not exist. A file that the system provides, such as /dev/stdout, is not regular.
func isRegular(name string) bool {
	if path, err := filepath.Abs(name); err == nil && !strings.HasPrefix(path, "/dev/shm/") &&
		(strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/")) {
		return false
	}
	info, err := os.Stat(name)
	return err != nil || info.Mode().IsRegular()
}
