// Package ticketfile keeps the ticket of a lock where a shell script can pass it on: in a file that only its owner can
// read, or on a file descriptor. A ticket is a secret, and gives its bearer the lock.
//
// The first line is the ticket, as holdfast.Ticket marshals it. The second line, which is optional, is a JSON object that says
// where the ticket is from.
package ticketfile

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Place is where a ticket is put or found: a file or, if File is "", a file descriptor.
type Place struct {
	File string
	FD   int

	descriptor *os.File // a copy of FD
}

// String names the place.
func (p *Place) String() string {
	if p.File != "" {
		return p.File
	}
	return fmt.Sprintf("file descriptor %d", p.FD)
}

// Claim opens the descriptor before anything else does, which could be given the same number. forWriting says for what.
// Before a ticket is written, Claim refuses a file that exists, whatever it is.
func (p *Place) Claim(forWriting bool) (err error) {
	if p.File == "" {
		p.descriptor, err = duplicate(p.FD, forWriting)
		return err
	}
	if !forWriting {
		return nil
	}
	_, err = os.Lstat(p.File)
	switch {
	case err == nil:
		return existsError(p.File)
	case errors.Is(err, fs.ErrNotExist):
		_, err = os.Stat(filepath.Dir(p.File)) // rather than after a long wait
	}
	return err
}

// existsError says that a file exists, whose name it is. It matches fs.ErrExist.
type existsError string

func (e existsError) Error() string {
	return fmt.Sprintf("%s exists: if it is the ticket of a lock, holdfast release --ticket FILE releases the lock and removes the file", string(e))
}

func (existsError) Is(target error) bool { return target == fs.ErrExist }

// Content is a ticket, and where it is from.
type Content struct {
	Ticket holdfast.Ticket
	Origin *Origin // nil if that is not known
}

// Origin says where a ticket is from.
type Origin struct {
	Server  string    `json:"server"`           // its address, without credentials
	RunID   string    `json:"run_id,omitempty"` // the server's when it issued the ticket
	Expires time.Time `json:"expires"`          // or later; by the clock of the machine that wrote it
}

// text returns the content as it is written. It leaves out an origin for which there is no room.
func (c Content) text() ([]byte, error) {
	text, err := c.Ticket.MarshalText()
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	if c.Origin == nil {
		return text, nil
	}
	origin, err := json.Marshal(Origin{c.Origin.Server, c.Origin.RunID, c.Origin.Expires.UTC().Truncate(time.Second)})
	if err != nil {
		return nil, err
	}
	if len(text)+len(origin) < room {
		text = append(append(text, origin...), '\n')
	}
	return text, nil
}

// parse reads what text returned, even if a shell has turned the line end into a space. It ignores an origin that it cannot read.
func parse(text []byte) (c Content, err error) {
	ticket, rest := bytes.TrimSpace(text), []byte(nil)
	if end := bytes.IndexAny(ticket, " \t\r\n"); end >= 0 {
		ticket, rest = ticket[:end], ticket[end:]
	}
	if err := c.Ticket.UnmarshalText(ticket); err != nil {
		return Content{}, err
	}
	var origin Origin
	if json.Unmarshal(rest, &origin) == nil {
		c.Origin = &origin
	}
	return c, nil
}

// A Pending ticket has its place, but is not there yet.
type Pending struct {
	place *Place
	temp  *os.File // beside the file; nil of a descriptor
}

// room is how many bytes are reserved for a ticket, which takes up to 2 KiB, and its origin.
const room = 4096

// Reserve makes sure that there is room for a ticket, so that a full disk is noticed before there is one.
func (p *Place) Reserve() (*Pending, error) {
	if p.File == "" {
		return &Pending{place: p}, nil
	}
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails, since Go 1.24
	name := filepath.Join(filepath.Dir(p.File), "."+filepath.Base(p.File)+"."+hex.EncodeToString(random[:]))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	pending := &Pending{place: p, temp: f}
	if _, err = f.Write(make([]byte, room)); err == nil {
		err = f.Sync()
	}
	if err != nil {
		pending.Drop()
		return nil, err
	}
	return pending, nil
}

// Write puts the ticket in its place, completely or not at all. A file never replaces another. After an error nothing is
// left of the ticket, unless it was written to a descriptor. When ctx ends, it no longer waits for the reader of a pipe.
func (p *Pending) Write(ctx context.Context, c Content) error {
	text, err := c.text()
	if err != nil {
		return err
	}
	if p.temp == nil {
		written := make(chan error, 1)
		go func() {
			_, err := p.place.descriptor.Write(text)
			written <- errors.Join(err, p.place.descriptor.Close())
		}()
		select {
		case err := <-written:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer p.Drop()
	if _, err = p.temp.WriteAt(text, 0); err == nil {
		err = p.temp.Truncate(int64(len(text)))
	}
	if err == nil {
		err = p.temp.Sync()
	}
	if err != nil {
		return err
	}
	err = os.Link(p.temp.Name(), p.place.File)
	switch {
	case errors.Is(err, fs.ErrExist):
		return existsError(p.place.File)
	case err != nil: // a filesystem without hard links
		return writeNew(p.place.File, text)
	}
	return nil
}

// Update replaces the origin in the file of a ticket, and leaves the ticket as it is. With a descriptor it does nothing.
func (p *Place) Update(c Content) error {
	if p.File == "" {
		return nil
	}
	text, err := c.text()
	if err != nil {
		return err
	}
	f, err := openUnlinked(p.File, os.O_RDWR)
	if err != nil {
		return err
	}
	ticket := bytes.IndexByte(text, '\n') + 1
	was := make([]byte, ticket)
	if _, err = f.ReadAt(was, 0); err == nil && !bytes.Equal(was, text[:ticket]) {
		err = fmt.Errorf("%s has another ticket now", p)
	}
	if err == nil {
		_, err = f.WriteAt(text[ticket:], int64(ticket))
	}
	if err == nil {
		err = f.Truncate(int64(len(text)))
	}
	return errors.Join(err, f.Close())
}

// writeNew writes a file that does not exist yet.
func writeNew(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return existsError(name)
	}
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(name)
	}
	return err
}

// Drop removes what Reserve has made.
func (p *Pending) Drop() {
	if p.temp != nil {
		_ = p.temp.Close()
		_ = os.Remove(p.temp.Name())
		p.temp = nil
	}
}

// Read returns the content, and whether other users can read the file. It does not follow a symbolic link.
func (p *Place) Read() (c Content, exposed bool, err error) {
	f := p.descriptor
	if p.File != "" {
		if f, err = openUnlinked(p.File, os.O_RDONLY); err != nil {
			return c, false, err
		}
		info, err := f.Stat()
		if err != nil {
			return c, false, errors.Join(err, f.Close())
		}
		if !info.Mode().IsRegular() {
			return c, false, errors.Join(fmt.Errorf("%s is not a regular file", p.File), f.Close())
		}
		exposed = isExposed(info)
	}
	text, err := io.ReadAll(io.LimitReader(f, room+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return c, exposed, err
	}
	if c, err = parse(text); err != nil {
		return c, exposed, fmt.Errorf("%s has no ticket", p)
	}
	return c, exposed, nil
}

// Remove removes the file.
func (p *Place) Remove() error {
	if p.File == "" {
		return nil
	}
	return os.Remove(p.File)
}
