package child

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/expect"
)

// Process is a started process that a goroutine waits for. Once Ended is closed, ProcessState says how it ended.
type Process struct {
	*exec.Cmd
	Ended chan struct{}
}

// Run starts cmd as Start does, and waits for it in the background.
func Run(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd, make(chan struct{})}
	if err := Start(cmd); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait()
		close(p.Ended)
	}()
	return p, nil
}

// HasEnded reports whether the process has ended.
func (p *Process) HasEnded() bool {
	select {
	case <-p.Ended:
		return true
	default:
		return false
	}
}

// EndsWithin waits for the process to end, for limit at most, and reports whether it has.
func (p *Process) EndsWithin(limit time.Duration) bool {
	select {
	case <-p.Ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// Kill sends SIGKILL, which also ends a paused process, and waits for the process to end.
func (p *Process) Kill() {
	_ = p.Process.Kill()
	<-p.Ended
}

// Dialogue is a process that reads lines and writes lines.
type Dialogue struct {
	*Process
	Lines chan string // what it has written; closed after its end
	in    io.Writer
}

// Talk starts cmd, and kills it at the end of the test.
func Talk(tb testing.TB, cmd *exec.Cmd) *Dialogue {
	tb.Helper()
	out, said := io.Pipe()
	cmd.Stdout = said
	in := expect.Of(cmd.StdinPipe()).OK(tb)
	d := &Dialogue{expect.Of(Run(cmd)).OK(tb), make(chan string, 1<<16), in}
	tb.Cleanup(d.Kill)
	go func() {
		<-d.Ended
		said.Close()
	}()
	go func() {
		defer close(d.Lines)
		defer out.Close() // at a line that is too long, so that the process can still be waited for
		for lines := bufio.NewScanner(out); lines.Scan(); {
			d.Lines <- lines.Text()
		}
	}()
	return d
}

// Say sends the process a line.
func (d *Dialogue) Say(tb testing.TB, line string) {
	tb.Helper()
	if _, err := fmt.Fprintln(d.in, line); err != nil {
		tb.Fatalf("%s: %v", line, err)
	}
}

// Hear returns the next line of the process. If none comes, the test fails and says what was wanted.
func (d *Dialogue) Hear(tb testing.TB, want string, within time.Duration) string {
	tb.Helper()
	select {
	case line, ok := <-d.Lines:
		if !ok {
			tb.Fatalf("%s has ended; wanted %q", d.Path, want)
		}
		return line
	case <-time.After(within):
		tb.Fatalf("%s says nothing within %s; wanted %q", d.Path, within, want)
	}
	return ""
}
