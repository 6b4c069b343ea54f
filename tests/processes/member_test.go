//go:build unix

package processes

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// member is a worker of a storm. It writes its history to a file, and ends with its input.
type member struct {
	t     *testing.T
	cmd   *exec.Cmd
	file  string
	input io.WriteCloser
	read  int // how much of the file was read
}

// enlist starts a member: program in that role, with the file and these arguments.
func enlist(t *testing.T, program, role string, args ...string) *member {
	t.Helper()
	m := &member{t: t, file: filepath.Join(t.TempDir(), strconv.FormatInt(enlisted.Add(1), 10))}
	m.cmd = exec.Command(program, append([]string{m.file}, args...)...)
	m.cmd.Env = append(os.Environ(), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0")
	m.cmd.Stderr = os.Stderr
	input, err := m.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	m.input = input
	if err := child.Start(m.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if m.cmd.ProcessState == nil {
			_ = m.cmd.Process.Kill()
			_ = m.cmd.Wait()
		}
	})
	return m
}

var enlisted atomic.Int64

// untilDismissed returns a context that ends when the member should end. A line of input means that it is
// doomed.
func untilDismissed(doomed *atomic.Bool) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			doomed.Store(true)
		}
		cancel()
	}()
	return ctx
}

// dismiss ends members, and requires that they end without an error.
func dismiss(t *testing.T, members []*member) {
	t.Helper()
	for _, m := range members {
		m.input.Close()
	}
	for _, m := range members {
		late := time.AfterFunc(time.Minute, func() {
			t.Errorf("process %d does not end", m.cmd.Process.Pid)
			_ = m.cmd.Process.Signal(syscall.SIGQUIT) // it prints its stacks
		})
		if err := m.cmd.Wait(); err != nil {
			t.Errorf("process %d: %v", m.cmd.Process.Pid, err)
		}
		late.Stop()
	}
}

// kill kills a member, and requires that it was alive until then.
func (m *member) kill() {
	m.t.Helper()
	_ = m.cmd.Process.Kill()
	m.killed()
}

// doom makes a member kill itself in the middle of its next turn, and waits for that.
func (m *member) doom() {
	m.t.Helper()
	late := time.AfterFunc(3*time.Minute, func() {
		m.t.Errorf("process %d has had no turn", m.cmd.Process.Pid)
		_ = m.cmd.Process.Kill()
	})
	defer late.Stop()
	if _, err := m.input.Write([]byte("doomed\n")); err != nil {
		m.t.Error(err)
	}
	m.killed()
}

func (m *member) killed() {
	m.t.Helper()
	_ = m.cmd.Wait()
	if status, ok := m.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		m.t.Errorf("process %d ended by itself: %v", m.cmd.Process.Pid, m.cmd.ProcessState)
	}
}

// news returns what a member has written since the last call.
func (m *member) news() []history.Event {
	m.t.Helper()
	text, err := os.ReadFile(m.file)
	if err != nil && !os.IsNotExist(err) { // it has not begun yet
		m.t.Fatal(err)
	}
	text = text[min(m.read, len(text)):]
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	m.read += len(text)
	events, err := history.Read(bytes.NewReader(text))
	if err != nil {
		m.t.Fatal(err)
	}
	return events
}

// files returns the files with the members' histories.
func files(members []*member) []string {
	var all []string
	for _, m := range members {
		all = append(all, m.file)
	}
	return all
}
