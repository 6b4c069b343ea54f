// Package output writes what holdfast prints for programs: JSON, and files with reports.
package output

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
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

// ReplaceFile writes a file completely or not at all, and does not follow a symbolic link, which somebody else may
// have put there: it writes another file and renames it. It writes directly to what is not a regular file, such as a
// pipe or a terminal. A pipe that nobody reads is an error; one whose reader does not read is waited for.
func ReplaceFile(name string, text []byte) error { return replaceFile(name, text, 0) }

// PublishFile is ReplaceFile for a file that everybody may read, whatever the umask is and the file was. A reader never sees a
// part of it: without the right to rename in its folder, or if it is not a regular file, it fails.
func PublishFile(name string, text []byte) error { return replaceFile(name, text, 0o644) }

// replaceFile gives the file the permissions, if they are not 0.
func replaceFile(name string, text []byte, permissions fs.FileMode) error {
	mode := fs.FileMode(0o644) // before umask
	target, err := os.Stat(name)
	if err == nil && !target.Mode().IsRegular() || isDevice(name) {
		if permissions != 0 {
			return notRegular(name)
		}
		return writeDirectly(name, text, mode)
	}
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails, since Go 1.24
	next := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+hex.EncodeToString(random[:]))
	old, oldErr := os.Lstat(name)
	replaces := oldErr == nil && old.Mode().IsRegular()
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		if replaces && permissions == 0 { // in a directory that we may not write to
			return writeDirectly(name, text, mode)
		}
		return err
	}
	_, err = f.Write(text)
	switch {
	case permissions != 0:
		err = errors.Join(err, f.Chmod(permissions))
	case replaces:
		err = errors.Join(err, f.Chmod(old.Mode().Perm()))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, name)
	}
	if err != nil {
		_ = os.Remove(next)
	}
	return err
}

// writeDirectly overwrites a file, or writes to a device or pipe.
func writeDirectly(name string, text []byte, mode fs.FileMode) error {
	// Otherwise a pipe that nobody reads would be waited for.
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, mode)
	if errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("%w: it is a pipe that nobody reads, or a socket", err)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
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

// isDevice reports whether the system provides a file with this name, such as /dev/stdout.
func isDevice(name string) bool {
	path, err := filepath.Abs(name)
	return err == nil && (strings.HasPrefix(path, "/dev/") && !strings.HasPrefix(path, "/dev/shm/") || strings.HasPrefix(path, "/proc/"))
}
