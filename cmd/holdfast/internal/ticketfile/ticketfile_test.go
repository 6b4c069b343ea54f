//go:build unix

package ticketfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// ticket returns a ticket of a lock.
func ticket(t *testing.T) holdfast.Ticket {
	t.Helper()
	lease, err := holdfasttest.New(t).Mutex("orders").TryAcquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := lease.Detach(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func text(t *testing.T, of holdfast.Ticket) []byte {
	t.Helper()
	text, err := of.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A file that appears after Claim stays as it is, as does the target of a link.
func TestATicketReplacesNothing(t *testing.T) {
	want, dir := ticket(t), t.TempDir()
	target := filepath.Join(dir, "target")
	for name, put := range map[string]func(string) error{
		"file": func(name string) error { return os.WriteFile(name, []byte("mine"), 0o644) },
		"link": func(name string) error { return os.Symlink(target, name) },
	} {
		p := &Place{File: filepath.Join(dir, name)}
		pending, err := p.Reserve()
		if err != nil {
			t.Fatal(err)
		}
		if err := put(p.File); err != nil {
			t.Fatal(err)
		}
		if err := p.Claim(true); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: claimed: %v", name, err)
		}
		if err := pending.Write(t.Context(), Content{Ticket: want}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: written: %v", name, err)
		}
		if err := writeNew(p.File, []byte("x")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: written without links: %v", name, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != "mine" {
		t.Errorf("%q, %v", got, err)
	}
	if left := names(t, dir); len(left) != 2 {
		t.Errorf("left over: %q", left)
	}
	if err := writeNew(target, text(t, want)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (&Place{File: target}).Read(); err != nil {
		t.Error(err)
	}
	if _, _, err := (&Place{File: filepath.Join(dir, "link")}).Read(); err == nil {
		t.Error("a link was followed")
	}
}

// A ticket is read from a file whose line ends a shell has changed, too. If the line that says where it is from is missing or torn,
// only that is not known.
func TestATicketSaysWhereItIsFrom(t *testing.T) {
	from := Origin{Server: "redis:6379", RunID: "f00d", Expires: time.Date(2026, 11, 27, 2, 0, 0, 0, time.UTC)}
	p := &Place{File: filepath.Join(t.TempDir(), "t")}
	pending, err := p.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	written := from
	written.Expires = written.Expires.Add(999) // fractions of a second are left out
	want := Content{ticket(t), &written}
	if err := pending.Write(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(p.File)
	if err != nil {
		t.Fatal(err)
	}
	ticket := string(text(t, want.Ticket))
	for content, origin := range map[string]*Origin{
		string(kept): &from,
		strings.ReplaceAll(string(kept), "\n", " "):    &from,
		strings.ReplaceAll(string(kept), "\n", "\r\n"): &from,
		strings.TrimSpace(string(kept)):                &from,
		ticket + "\n":                                  nil,
		ticket + "\n{\"server\":\"re":                  nil,
		ticket + "\nx\ny\n":                            nil,
	} {
		if err := os.WriteFile(p.File, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, _, err := p.Read()
		if err != nil || string(text(t, got.Ticket)) != ticket || !reflect.DeepEqual(got.Origin, origin) {
			t.Errorf("%q: %+v, %v", content, got.Origin, err)
		}
	}
}

// A file that is gone, or has another ticket by now, is left as it is.
func TestOnlyTheTicketsOwnFileIsUpdated(t *testing.T) {
	c := Content{ticket(t), &Origin{Server: "redis:6379"}}
	p := &Place{File: filepath.Join(t.TempDir(), "t")}
	if err := p.Update(c); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	other := append(text(t, ticket(t)), '\n')
	if err := os.WriteFile(p.File, other, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Update(c); err == nil {
		t.Error("another ticket's file was updated")
	}
	if got, err := os.ReadFile(p.File); err != nil || string(got) != string(other) {
		t.Error("another ticket's file has changed: ", err)
	}
	if left := names(t, filepath.Dir(p.File)); len(left) != 1 {
		t.Errorf("left over: %q", left)
	}
}
