package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/holdfasttest"
)

// A file that appears while the lock is waited for stays as it is, as does the target of a link.
func TestATicketReplacesNothing(t *testing.T) {
	lease, err := holdfasttest.New(t).Mutex("orders").TryAcquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := lease.Detach(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	for name, put := range map[string]func(string) error{
		"file": func(name string) error { return os.WriteFile(name, []byte("mine"), 0o644) },
		"link": func(name string) error { return os.Symlink(target, name) },
	} {
		file := filepath.Join(dir, name)
		if err := put(file); err != nil {
			t.Fatal(err)
		}
		if err := checkFree(file); err == nil {
			t.Errorf("%s: it counts as free", name)
		}
		if err := writeTicket(file, ticket); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: written: %v", name, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != "mine" {
		t.Errorf("%q, %v", got, err)
	}
	if err := writeTicket(target, ticket); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readTicket(filepath.Join(dir, "link")); err == nil {
		t.Error("a link was followed")
	}
	if got, exposed, err := readTicket(target); err != nil || exposed || got.Name() != "orders" {
		t.Errorf("%s, %v, %v", got, exposed, err)
	}
}
