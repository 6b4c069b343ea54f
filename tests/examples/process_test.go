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
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has been waited for

	mu   sync.Mutex
	log  bytes.Buffer
	read int // how much of log says has passed
}

// start starts a program of examples/. It ends with the test, whose log gets its log if the test fails.
func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	dir := expect.Of(folder()).OK(t)
	p := &process{t: t, cmd: exec.Command(filepath.Join(dir, program), args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	expect.OK(t, child.Start(p.cmd))
	go func() {
		_ = p.cmd.Wait() // ProcessState says how it ended
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended; a paused process is killed, too
		<-p.ended
		if t.Failed() {
			t.Logf("%s:\n%s", p.cmd, p.String())
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
	backend.Eventually(p.t, p.cmd.String()+" says "+text, func() bool {
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
	<-p.ended
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		p.t.Errorf("%s ended by itself: %v", p.cmd, p.cmd.ProcessState)
	}
}

// interrupt ends the process as Ctrl-C does, and requires that it ends without an error.
func (p *process) interrupt() {
	p.t.Helper()
	p.signal(syscall.SIGINT)
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		p.signal(syscall.SIGQUIT) // it prints its stacks
		<-p.ended
	}
	if !p.cmd.ProcessState.Success() {
		p.t.Errorf("%s: %v", p.cmd, p.cmd.ProcessState)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Errorf("%s: %v", p.cmd, err)
	}
}
