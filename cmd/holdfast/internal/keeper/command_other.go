//go:build !unix

package keeper

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// command is the command alone. The processes that it starts cannot be found here.
type command struct {
	pid  int
	sigs chan os.Signal // receives nil: there is no SIGCHLD here

	cmd   *exec.Cmd
	ended chan change
	over  bool
}

func startCommand(o order, spec Spec) (*command, error) {
	path, args := o.command()
	cmd := exec.Command(path)
	cmd.Args, cmd.Env = args, spec.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = spec.Stdin, spec.Stdout, spec.Stderr
	return &command{cmd: cmd, sigs: make(chan os.Signal, 1), ended: make(chan change, 1)}, nil
}

func (c *command) commandPID() int { return c.pid }

func (c *command) changed() <-chan os.Signal { return c.sigs }

func (c *command) release() {
	if err := c.cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "holdfast: cannot run %s: %v\n", c.cmd.Path, err)
		code := 126
		if errors.Is(err, os.ErrNotExist) {
			code = 127
		}
		c.ended <- change{code: code}
		c.sigs <- nil
		return
	}
	c.pid = c.cmd.Process.Pid
	go func() {
		_ = c.cmd.Wait() // ProcessState has the result
		c.ended <- change{code: c.cmd.ProcessState.ExitCode()}
		c.sigs <- nil
	}()
}

func (c *command) reap() []change {
	select {
	case ended := <-c.ended:
		c.over = true
		return []change{ended}
	default:
		return nil
	}
}

func (c *command) gone() bool { return c.over }

// kill ends the command, or keeps it from beginning.
func (c *command) kill() []int {
	if c.cmd.Process != nil {
		_ = c.cmd.Process.Kill()
		return nil
	}
	select {
	case c.ended <- change{signal: int(syscall.SIGKILL)}:
		c.sigs <- nil
	default: // the command has ended
	}
	return nil
}

func (c *command) terminate()       { c.kill() } // there is no TERM
func (c *command) signal(int)       {}
func (c *command) notify()          {}
func (c *command) takeTerminal(int) {}
func (c *command) remaining() []int { return nil }
