//go:build unix

package examples

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

type process struct {
	*child.Process
	t *testing.T

	mu   sync.Mutex
	log  bytes.Buffer
	read int // how much of log says has passed
}

// start starts a program of examples/. It ends with the test, whose log gets its log if the test fails.
func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	dir := expect.Of(folder()).OK(t)
	p := &process{t: t}
	cmd := exec.Command(filepath.Join(dir, program), args...)
	cmd.Stdout, cmd.Stderr = p, p
	p.Process = expect.Of(child.Run(cmd)).OK(t)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s:\n%s", p.Cmd, p.String())
		}
	})
	return p
}

// Write appends to the log.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

// String returns the log.
func (p *process) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// says waits until the process logs a line that contains text, after the lines that earlier calls have found, and returns
// what follows the text in it.
func (p *process) says(text string) (rest string) {
	p.t.Helper()
	backend.Eventually(p.t, p.Cmd.String()+" says "+text, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		unread := p.log.String()[p.read:]
		_, after, found := strings.Cut(unread, text)
		line, _, complete := strings.Cut(after, "\n")
		if !found || !complete {
			return false
		}
		p.read += len(unread) - len(after) + len(line)
		rest = line
		return true
	})
	return rest
}

// url waits until the process serves HTTP and returns its URL.
func (p *process) url() string {
	p.t.Helper()
	return "http://" + p.says("serving on http://")
}

// kill kills the process, and requires that it ran until then.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.Ended
	if status, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		p.t.Errorf("%s ended by itself: %v", p.Cmd, p.Cmd.ProcessState)
	}
}

// interrupt ends the process as Ctrl-C does, and requires that it ends without an error.
func (p *process) interrupt() {
	p.t.Helper()
	p.signal(syscall.SIGINT)
	if !p.EndsWithin(time.Minute) {
		p.signal(syscall.SIGQUIT) // it prints its stacks
		<-p.Ended
	}
	if !p.Cmd.ProcessState.Success() {
		p.t.Errorf("%s: %v", p.Cmd, p.Cmd.ProcessState)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		p.t.Errorf("%s: %v", p.Cmd, err)
	}
}
