//go:build !unix

package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// process is the command alone: what it starts is out of reach here.
type process struct {
	pid     int
	changed chan os.Signal // receives nil: there is no SIGCHLD here

	cmd    *exec.Cmd
	ended  chan change
	failed error
	over   bool
}

func startProcess(path string, args []string, with stdio) (*process, error) {
	cmd := exec.Command(path)
	cmd.Args, cmd.Env = args, with.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = with.in, with.out, with.err
	return &process{cmd: cmd, changed: make(chan os.Signal, 1), ended: make(chan change, 1)}, nil
}

func (p *process) id() int { return p.pid }

func (p *process) news() <-chan os.Signal { return p.changed }

func (p *process) release() {
	if err := p.cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "holdfast: cannot run %s: %v\n", p.cmd.Path, err)
		code := 126
		if errors.Is(err, os.ErrNotExist) {
			code = 127
		}
		p.ended <- change{code: code}
		p.changed <- nil
		return
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		_ = p.cmd.Wait() // ProcessState has it.
		p.ended <- change{code: p.cmd.ProcessState.ExitCode()}
		p.changed <- nil
	}()
}

func (p *process) reap() []change {
	select {
	case c := <-p.ended:
		p.over = true
		return []change{c}
	default:
		return nil
	}
}

func (p *process) empty() bool { return p.over }

// kill ends the command, or what would have become it; terminate does the same, since there is no TERM.
func (p *process) kill() []int {
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
		return nil
	}
	select {
	case p.ended <- change{signal: int(syscall.SIGKILL)}:
		p.changed <- nil
	default: // It has ended already.
	}
	return nil
}

func (p *process) terminate()       { p.kill() }
func (p *process) signal(int)       {}
func (p *process) notify()          {}
func (p *process) takeTerminal(int) {}
func (p *process) left() []int      { return nil }

func launch([]string, io.Writer) int { return 126 }
