//go:build unix

package fences

import (
	"bufio"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// Fault: A holder's process is paused past its lease, and another holder writes to PostgreSQL. When the first wakes,
// its write is refused.
func TestAPausedHolderIsRefusedByPostgres(t *testing.T) {
	t.Parallel()
	total, said := pauseHolder(t, between, nil)
	if total != 101 || said != "stale" {
		t.Errorf("total is %d, the paused holder says %q", total, said)
	}
}

// Fault: A holder is paused within a transaction, which keeps the mark locked. The next holder waits until the server
// ends the paused one's session, which undoes its writes.
func TestAHolderPausedWithinATransactionIsCutOff(t *testing.T) {
	t.Parallel()
	// This is longer than a machine stands still, since the holder must get that far.
	total, said := pauseHolder(t, within, map[string]string{"idle_in_transaction_session_timeout": "3000"})
	if total != 101 || !strings.HasPrefix(said, "error") {
		t.Errorf("total is %d, the paused holder says %q", total, said)
	}
}

// pauseHolder pauses a holder with these parameters, adds 1 to the total of 100 meanwhile, and lets it go on.
// It returns the total after that, and what the holder prints.
func pauseHolder(t *testing.T, role string, parameters map[string]string) (total int64, said string) {
	d := openPostgres(t, nil)
	b := &backend.Backend{Server: server.Start(t, server.One(t))}
	cmd := exec.Command(os.Args[0], b.Server.Addr(), d.dsn(parameters))
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := make(chan string, 4)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	line := func() string {
		t.Helper()
		select {
		case l := <-lines:
			return l
		case <-time.After(2 * time.Minute):
			t.Fatal("the holder says nothing")
			return ""
		}
	}
	if got := line(); got != "holding" {
		t.Fatalf("the holder says %q", got)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// Its renewals stop, so the lock becomes free.
	lease := backend.Acquire(t, b.Client(t, nil).Mutex("ledger"))
	stamp, err := fence.Of(lease)
	if err != nil {
		t.Fatal(err)
	}
	taken(t, d.marks().Do(t.Context(), stamp, "ledger", func(tx *sql.Tx) error {
		execute(t, tx, "UPDATE ledger SET total = total + 1 WHERE id = 1")
		return nil
	}))
	backend.Release(t, lease)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(in, "go"); err != nil {
		t.Fatal(err)
	}
	said = line()
	return number(t, d, "SELECT total FROM ledger WHERE id = 1"), said
}
