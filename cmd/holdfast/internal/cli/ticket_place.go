package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/transfer"
)

// ticketPlace is where a ticket is: a file that only its owner can read or, if file is "", a file descriptor that this process was given.
// The first line is the ticket, as transfer.Ticket marshals it. The second line, which may be missing, is the ticketOrigin.
type ticketPlace struct {
	file string
	fd   int

	descriptor *os.File // a copy of fd
}

func (p *ticketPlace) String() string {
	if p.file != "" {
		return p.file
	}
	return fmt.Sprintf("file descriptor %d", p.fd)
}

// claim copies the file descriptor. It is called before anything is opened, which might get the descriptor's number if it is not open.
func (p *ticketPlace) claim(forWriting bool) (err error) {
	if p.file == "" {
		p.descriptor, err = duplicate(p.fd, forWriting)
	}
	return err
}

// checkFree returns an error if the file exists, whatever it is, or if its folder does not.
func (p *ticketPlace) checkFree() error {
	if p.file == "" {
		return nil
	}
	_, err := os.Lstat(p.file)
	switch {
	case err == nil:
		return fmt.Errorf("%s exists: if it is a ticket, holdfast release --ticket FILE releases the lock and removes the file", p.file)
	case errors.Is(err, fs.ErrNotExist):
		_, err = os.Stat(filepath.Dir(p.file))
	}
	return err
}

// ticketOrigin says which server gave a ticket, and how long the ticket lasts.
type ticketOrigin struct {
	Server  string    `json:"server"`           // its address, without credentials
	RunID   string    `json:"run_id,omitempty"` // the server's run id at that time
	Expires time.Time `json:"expires"`          // or later; by the clock of the machine that wrote the ticket
}

func ticketText(t transfer.Ticket, from *ticketOrigin) ([]byte, error) {
	text, err := t.MarshalText()
	if err != nil || from == nil {
		return append(text, '\n'), err
	}
	origin, err := json.Marshal(ticketOrigin{from.Server, from.RunID, from.Expires.UTC().Truncate(time.Second)})
	return fmt.Appendf(text, "\n%s\n", origin), err
}

// write writes a ticket. After an error there is no file. If ctx ends, write stops waiting for a pipe's reader.
func (p *ticketPlace) write(ctx context.Context, t transfer.Ticket, from *ticketOrigin) error {
	text, err := ticketText(t, from)
	if err != nil {
		return err
	}
	if p.file != "" {
		f, err := os.OpenFile(p.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			_ = os.Remove(p.file)
		}
		return err
	}
	written := make(chan error, 1)
	go func() {
		_, err := p.descriptor.Write(text)
		written <- errors.Join(err, p.descriptor.Close())
	}()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// update replaces the origin in a ticket's file.
func (p *ticketPlace) update(t transfer.Ticket, from *ticketOrigin) error {
	if p.file == "" {
		return nil
	}
	was, err := os.ReadFile(p.file)
	if err != nil {
		return err
	}
	text, err := ticketText(t, from)
	if err != nil {
		return err
	}
	if ticket := bytes.IndexByte(text, '\n'); !bytes.HasPrefix(was, text[:ticket]) {
		return fmt.Errorf("%s has another ticket now", p.file)
	}
	f, err := os.OpenFile(p.file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Truncate(int64(len(text))), f.Close())
}

// maxTicket bounds how many bytes are read. A ticket takes up to 2 KiB.
const maxTicket = 4096

// read reads a ticket and its origin, which is nil if unknown. exposed reports that other users can read the file. A shell may have turned
// line ends into spaces.
func (p *ticketPlace) read() (t transfer.Ticket, from *ticketOrigin, exposed bool, err error) {
	f := p.descriptor
	if p.file != "" {
		info, err := os.Lstat(p.file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return t, nil, false, fmt.Errorf("there is no ticket %s: it was released, or never acquired", p.file)
		case err != nil:
			return t, nil, false, err
		case !info.Mode().IsRegular():
			return t, nil, false, fmt.Errorf("%s is not a regular file", p.file)
		}
		exposed = runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
		if f, err = os.Open(p.file); err != nil {
			return t, nil, false, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTicket))
	if err = errors.Join(err, f.Close()); err != nil {
		return t, nil, false, err
	}
	fields := bytes.Fields(text)
	if len(fields) == 0 || t.UnmarshalText(fields[0]) != nil {
		return t, nil, false, fmt.Errorf("%s has no ticket", p)
	}
	if rest := bytes.Join(fields[1:], []byte(" ")); json.Unmarshal(rest, &from) != nil {
		from = nil
	}
	return t, from, exposed, nil
}

func (p *ticketPlace) remove() error {
	if p.file == "" {
		return nil
	}
	return os.Remove(p.file)
}
