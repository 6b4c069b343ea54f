package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/transfer"
)

func newTicket(t *testing.T) transfer.Ticket {
	t.Helper()
	lease, err := holdfasttest.New(t).Mutex("orders").TryAcquire(t.Context())
	must(t, err)
	ticket, err := transfer.Detach(t.Context(), lease, time.Minute)
	must(t, err)
	return ticket
}

// A file that appears during the wait for the lock stays as it is, and so does the target of a link.
func TestATicketReplacesNothing(t *testing.T) {
	ticket, dir := newTicket(t), t.TempDir()
	target := filepath.Join(dir, "target")
	for name, put := range map[string]func(string) error{
		"file": func(name string) error { return os.WriteFile(name, []byte("mine"), 0o644) },
		"link": func(name string) error { return os.Symlink(target, name) },
	} {
		file := ticketPlace{file: filepath.Join(dir, name)}
		must(t, put(file.file))
		if err := file.checkFree(); err == nil {
			t.Errorf("%s: it counts as free", name)
		}
		if err := file.write(t.Context(), ticket, nil); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: written: %v", name, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != "mine" {
		t.Errorf("%q, %v", got, err)
	}
	file := ticketPlace{file: target}
	must(t, file.write(t.Context(), ticket, nil))
	if _, _, _, err := (&ticketPlace{file: filepath.Join(dir, "link")}).read(); err == nil {
		t.Error("a link was followed")
	}
	if got, _, exposed, err := file.read(); err != nil || exposed || got.Name() != "orders" {
		t.Errorf("%s, %v, %v", got, exposed, err)
	}
}

// A ticket can be read from a file whose line ends a shell has changed. If the line with its origin is missing or incomplete, only the
// origin is unknown.
func TestATicketSaysWhereItIsFrom(t *testing.T) {
	ticket := newTicket(t)
	from := ticketOrigin{Server: "redis:6379", RunID: "f00d", Expires: time.Date(2026, 11, 27, 2, 0, 0, 0, time.UTC)}
	written := from
	written.Expires = written.Expires.Add(999) // fractions of a second are left out
	p := &ticketPlace{file: filepath.Join(t.TempDir(), "t")}
	must(t, p.write(t.Context(), ticket, &written))
	text, err := os.ReadFile(p.file)
	must(t, err)
	kept := string(text)
	first, _, _ := strings.Cut(kept, "\n")
	for content, want := range map[string]*ticketOrigin{
		kept:                                   &from,
		strings.ReplaceAll(kept, "\n", " "):    &from,
		strings.ReplaceAll(kept, "\n", "\r\n"): &from,
		strings.TrimSpace(kept):                &from,
		first + "\n":                           nil,
		first + "\n{\"server\":\"re":           nil,
		first + "\nx\ny\n":                     nil,
	} {
		must(t, os.WriteFile(p.file, []byte(content), 0o600))
		got, origin, _, err := p.read()
		if err != nil || got.Name() != "orders" || !reflect.DeepEqual(origin, want) {
			t.Errorf("%q: %+v, %v", content, origin, err)
		}
	}
}

// A file that is gone, or contains another ticket by now, is not changed.
func TestOnlyTheTicketsOwnFileIsUpdated(t *testing.T) {
	from, p := &ticketOrigin{Server: "redis:6379"}, &ticketPlace{file: filepath.Join(t.TempDir(), "t")}
	if err := p.update(newTicket(t), from); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	must(t, p.write(t.Context(), newTicket(t), nil))
	was, err := os.ReadFile(p.file)
	must(t, err)
	if err := p.update(newTicket(t), from); err == nil {
		t.Error("another ticket's file was updated")
	}
	if got, err := os.ReadFile(p.file); err != nil || string(got) != string(was) {
		t.Error("another ticket's file has changed: ", err)
	}
}
