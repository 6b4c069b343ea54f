package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/transfer"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// ticketPlace is the name of a ticket's file, which only its owner can read, or of a file descriptor that this process was given, such as
// /dev/fd/3. The first line is the ticket, as transfer.Ticket marshals it. The second, which may be missing, is the address of the server
// that gave it, without credentials.
type ticketPlace string

func (p ticketPlace) isDescriptor() bool {
	return strings.HasPrefix(string(p), "/dev/fd/") || p == "/dev/stdin" || p.isStdout()
}

func (p ticketPlace) isStdout() bool { return p == "/dev/stdout" || p == "/dev/fd/1" }

// check returns an error if a ticket could not be written: if the file exists, or its folder does not. It is called before a long wait.
func (p ticketPlace) check() error {
	if p.isDescriptor() {
		f, err := os.OpenFile(string(p), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, _, ok := terminal.Size(f); ok {
			return fmt.Errorf("%s is a terminal, and a ticket is a secret", p)
		}
		return nil
	}
	_, err := os.Lstat(string(p))
	switch {
	case err == nil:
		return fmt.Errorf("%s exists: if it is a ticket, holdfast release --ticket FILE releases the lock and removes the file", p)
	case errors.Is(err, fs.ErrNotExist):
		_, err = os.Stat(filepath.Dir(string(p)))
	}
	return err
}

// write writes a ticket. After an error there is no file. If ctx ends, write stops waiting for a pipe's reader.
func (p ticketPlace) write(ctx context.Context, t transfer.Ticket, server string) error {
	text, err := t.MarshalText()
	if err != nil {
		return err
	}
	text = fmt.Appendf(text, "\n%s\n", server)
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if p.isDescriptor() {
		// Opening does not wait for a pipe's reader. Linux opens a file anew, at its beginning, whose content must stay.
		flags = os.O_WRONLY | os.O_APPEND | syscall.O_NONBLOCK
	}
	f, err := os.OpenFile(string(p), flags, 0o600)
	if err != nil {
		return err
	}
	if p.isDescriptor() {
		written := make(chan error, 1)
		go func() {
			_, err := f.Write(text)
			written <- errors.Join(err, f.Close())
		}()
		select {
		case err := <-written:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(string(p))
	}
	return err
}

// maxTicket bounds how many bytes are read. A ticket takes up to 2 KiB.
const maxTicket = 4096

// read reads a ticket and the address of its server, which is "" if unknown. exposed reports that other users can read the file. A shell
// may have turned line ends into spaces.
func (p ticketPlace) read() (t transfer.Ticket, server string, exposed bool, err error) {
	if !p.isDescriptor() {
		info, err := os.Lstat(string(p))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return t, "", false, fmt.Errorf("there is no ticket %s: it was released, or never acquired", p)
		case err != nil:
			return t, "", false, err
		case !info.Mode().IsRegular():
			return t, "", false, fmt.Errorf("%s is not a regular file", p)
		}
		exposed = runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
	}
	f, err := os.Open(string(p))
	if err != nil {
		return t, "", false, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTicket))
	if err = errors.Join(err, f.Close()); err != nil {
		return t, "", false, err
	}
	fields := bytes.Fields(text)
	if len(fields) == 0 || t.UnmarshalText(fields[0]) != nil {
		return t, "", false, fmt.Errorf("%s has no ticket", p)
	}
	if len(fields) == 2 {
		server = string(fields[1])
	}
	return t, server, exposed, nil
}

func (p ticketPlace) remove() error {
	if p.isDescriptor() {
		return nil
	}
	return os.Remove(string(p))
}
