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

// JSON returns one line of JSON, in which characters that do not print are escaped.
func JSON(value any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return printable.JSON(text.Bytes()), nil
}

// ReplaceFile writes a file completely or not at all, and does not follow a symbolic link, which somebody else may have put there: it
// writes another file and renames it. It writes directly to what is not a regular file, such as a pipe or a terminal. A pipe that
// nobody reads is an error; one whose reader does not read is waited for.
func ReplaceFile(name string, text []byte) error {
	if !isRegular(name) {
		// Without O_NONBLOCK a pipe that nobody reads would be waited for.
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

// PublishFile is ReplaceFile for a file that everybody may read, whatever the umask is and the file was. A reader never sees a part of
// it: if it is not a regular file, PublishFile fails.
func PublishFile(name string, text []byte) error {
	if !isRegular(name) {
		return notRegular(name)
	}
	return rename(name, text, 0o644)
}

// rename writes another file, and renames it. A mode of 0 leaves it to the umask who may read the file.
func rename(name string, text []byte, mode fs.FileMode) error {
	next := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+rand.Text())
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
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

// ReadRegular reads a regular file. Anything else, such as a pipe, is an error; ReadRegular does not wait for it.
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

// isRegular reports whether a file is regular, or does not exist, and is none that the system provides, such as /dev/stdout.
func isRegular(name string) bool {
	if path, err := filepath.Abs(name); err == nil && !strings.HasPrefix(path, "/dev/shm/") &&
		(strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/")) {
		return false
	}
	info, err := os.Stat(name)
	return err != nil || info.Mode().IsRegular()
}
