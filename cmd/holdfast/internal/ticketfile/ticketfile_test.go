//go:build unix

package ticketfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// ticket returns a ticket of a lock.
func ticket(t *testing.T) holdfast.Ticket {
	t.Helper()
	server := holdfasttest.Run(t)
	redis := redis.NewClient(&redis.Options{Addr: server.Addr(), Dialer: server.Dial})
	t.Cleanup(func() { redis.Close() })
	client, err := holdfastgoredis.New(redis, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(context.Background()) })
	lease, err := client.Mutex("orders").TryAcquire(t.Context())
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

func TestATicketIsWrittenForItsOwnerAndRead(t *testing.T) {
	want := ticket(t)
	p := &Place{File: filepath.Join(t.TempDir(), "t")}
	if err := p.Claim(true); err != nil {
		t.Fatal(err)
	}
	pending, err := p.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(p.File); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the file exists before it is complete: ", err)
	}
	if err := pending.Write(t.Context(), Content{Ticket: want}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(p.File)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want mode 600", info.Mode(), err)
	}
	if left := names(t, filepath.Dir(p.File)); len(left) != 1 {
		t.Errorf("left over: %q", left)
	}
	got, exposed, err := p.Read()
	if err != nil || exposed {
		t.Fatal(exposed, err)
	}
	if string(text(t, got.Ticket)) != string(text(t, want)) {
		t.Error("another ticket was read")
	}
	if err := os.Chmod(p.File, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, exposed, err = p.Read(); err != nil || !exposed {
		t.Error("a file that others can read: ", exposed, err)
	}
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

// The file of a ticket says where the ticket is from. Files that do not, and files whose line ends a shell has changed, can be
// read, too.
func TestATicketSaysWhereItIsFrom(t *testing.T) {
	want := Content{ticket(t), &Origin{Server: "redis:6379", RunID: "f00d", Expires: time.Date(2026, 11, 27, 1, 2, 3, 999, time.UTC)}}
	p := &Place{File: filepath.Join(t.TempDir(), "t")}
	pending, err := p.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	if err := pending.Write(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	check := func(expires time.Time) {
		t.Helper()
		got, _, err := p.Read()
		if err != nil || got.Origin == nil || *got.Origin != (Origin{"redis:6379", "f00d", expires}) || string(text(t, got.Ticket)) != string(text(t, want.Ticket)) {
			t.Errorf("%+v, %v", got.Origin, err)
		}
	}
	check(time.Date(2026, 11, 27, 1, 2, 3, 0, time.UTC))

	later := time.Date(2026, 11, 27, 2, 0, 0, 0, time.UTC)
	want.Origin.Expires = later
	if err := p.Update(want); err != nil {
		t.Fatal(err)
	}
	check(later)
	if left := names(t, filepath.Dir(p.File)); len(left) != 1 {
		t.Errorf("left over: %q", left)
	}
	kept, err := os.ReadFile(p.File)
	if err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]string{
		"words":  strings.ReplaceAll(string(kept), "\n", " "),
		"dos":    strings.ReplaceAll(string(kept), "\n", "\r\n"),
		"no end": strings.TrimSpace(string(kept)),
	} {
		if err := os.WriteFile(p.File, []byte(put), 0o600); err != nil {
			t.Fatal(name, err)
		}
		check(later)
	}
	for name, rest := range map[string]string{"of before": "\n", "torn": "\n{\"server\":\"re", "with other lines": "\nx\ny\n"} {
		if err := os.WriteFile(p.File, append(text(t, want.Ticket), rest...), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _, err := p.Read(); err != nil || got.Origin != nil || string(text(t, got.Ticket)) != string(text(t, want.Ticket)) {
			t.Errorf("%s: %+v, %v", name, got.Origin, err)
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
