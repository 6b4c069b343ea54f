package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
		file := ticketPlace(filepath.Join(dir, name))
		must(t, put(string(file)))
		if err := file.check(); err == nil {
			t.Errorf("%s: it counts as free", name)
		}
		if err := file.write(t.Context(), ticket, "redis:6379"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: written: %v", name, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != "mine" {
		t.Errorf("%q, %v", got, err)
	}
	file := ticketPlace(target)
	must(t, file.write(t.Context(), ticket, "redis:6379"))
	if _, _, _, err := ticketPlace(filepath.Join(dir, "link")).read(); err == nil {
		t.Error("a link was followed")
	}
	if got, _, exposed, err := file.read(); err != nil || exposed || got.Name() != "orders" {
		t.Errorf("%s, %v, %v", got, exposed, err)
	}
}

// A ticket can be read from a file whose line ends a shell has changed. If the line with its server is missing or not alone, only the server
// is unknown.
func TestATicketSaysWhereItIsFrom(t *testing.T) {
	p := ticketPlace(filepath.Join(t.TempDir(), "t"))
	must(t, p.write(t.Context(), newTicket(t), "redis:6379"))
	text, err := os.ReadFile(string(p))
	must(t, err)
	kept := string(text)
	first, _, _ := strings.Cut(kept, "\n")
	for content, want := range map[string]string{
		kept:                                   "redis:6379",
		strings.ReplaceAll(kept, "\n", " "):    "redis:6379",
		strings.ReplaceAll(kept, "\n", "\r\n"): "redis:6379",
		strings.TrimSpace(kept):                "redis:6379",
		first + "\n":                           "",
		first + "\nx\ny\n":                     "",
	} {
		must(t, os.WriteFile(string(p), []byte(content), 0o600))
		got, server, _, err := p.read()
		if err != nil || got.Name() != "orders" || server != want {
			t.Errorf("%q: %q, %v", content, server, err)
		}
	}
}
