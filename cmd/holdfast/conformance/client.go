package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/printable"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

// client is a process of the client that is judged.
type client struct {
	t     *trial
	who   string // in the dialogue
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string // the lines that it prints; closed when it ends
}

// start starts a process of the client. Its connections go through the trial's network.
func (t *trial) start() *client {
	c := &client{t: t, who: fmt.Sprintf("client %d", len(t.clients)+1), lines: make(chan string, 16)}
	args := append(slices.Clone(t.command), t.network.addr(), t.name)
	c.cmd = exec.CommandContext(t.ctx, args[0], args[1:]...)
	c.cmd.Stderr = t.messages
	var stdout io.ReadCloser
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err == nil {
		if stdout, err = c.cmd.StdoutPipe(); err == nil {
			err = c.cmd.Start()
		}
	}
	if err != nil {
		exit := exitcode.Errorf(exitcode.NotRunnable, "the client cannot be started: %w", err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			exit.Code = exitcode.NotFound
		}
		check(exit) // this error ends the judging without a verdict
	}
	t.clients = append(t.clients, c)
	go func() {
		defer close(c.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			c.lines <- scanner.Text()
		}
	}()
	t.implements(c.next(t.answer, "its first line"))
	return c
}

// started starts n clients.
func (t *trial) started(n int) (clients []*client) {
	for range n {
		clients = append(clients, t.start())
	}
	return clients
}

// The words that may follow ready. They say what a client implements besides mutexes.
const rwmutex, semaphore = "rwmutex", "semaphore"

// missingError is the name of a scenario's feature that the client does not implement.
type missingError string

func (e missingError) Error() string {
	return "not judged: the client does not say that it implements " + string(e)
}

// implements checks a client's first line. If the client lacks the trial's feature, it ends the scenario.
func (t *trial) implements(line string) {
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != "ready" {
		failf("a client says %s first, and not ready", printable.Word(line, 200))
	}
	for _, word := range words[1:] {
		if word != rwmutex && word != semaphore {
			failf("a client says that it implements %s; the words are %s, %s", printable.Word(word, 200), rwmutex, semaphore)
		}
	}
	if t.feature != "" && !slices.Contains(words[1:], t.feature) {
		check(missingError(t.feature))
	}
}

// tell sends a command.
func (c *client) tell(format string, args ...any) {
	command := fmt.Sprintf(format, args...)
	c.t.note(c.who+" <", command)
	if _, err := io.WriteString(c.stdin, command+"\n"); err != nil {
		failf("%s does not read %q: %v", c.who, command, err)
	}
}

// hear returns the next line, which the client must print within d, and whether the client reports an error in it. what describes the
// expected line.
func (c *client) hear(d time.Duration, what string) (line string, isError bool) {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	select {
	case line, is := <-c.lines:
		if !is {
			failf("%s has ended, instead of %s", c.who, what)
		}
		c.t.note(c.who+" >", line)
		return line, strings.HasPrefix(line, "error")
	case <-timeout.C:
		failf("%s did not print %s within %s", c.who, what, d)
	case <-c.t.ctx.Done():
		check(context.Cause(c.t.ctx))
	}
	return "", false
}

// next returns the next line, which the client must print within d, and which must not report an error.
func (c *client) next(d time.Duration, what string) string {
	line, isError := c.hear(d, what)
	if isError {
		text := strings.TrimSpace(strings.TrimPrefix(line, "error"))
		failf("%s says error, instead of %s: %s", c.who, what, printable.Line(text, 300))
	}
	return line
}

// ask sends a command and returns the answer.
func (c *client) ask(format string, args ...any) string {
	c.tell(format, args...)
	return c.next(c.t.answer, "an answer to "+strconv.Quote(fmt.Sprintf(format, args...)))
}

// must sends a command. The answer must be want.
func (c *client) must(want, format string, args ...any) {
	if got := c.ask(format, args...); got != want {
		failf("%s answers %s to %q, and not %s", c.who, printable.Word(got, 200), fmt.Sprintf(format, args...), want)
	}
}

// refused sends a command to acquire the lock. The client must not get it.
func (c *client) refused(verb string) { c.must("held", "%s %d", verb, longMs) }

func (c *client) release() { c.must("released", "release") }

func (c *client) holds() { c.must("yes", "holds") }

// grantedBy returns the fence in an answer, which must be a grant.
func (c *client) grantedBy(answer string) uint64 {
	number, is := strings.CutPrefix(answer, "granted ")
	fence, err := strconv.ParseUint(number, 10, 63)
	if !is || err != nil || fence == 0 {
		failf("%s says %s, and not granted and the fence", c.who, printable.Word(answer, 200))
	}
	return fence
}

// granted waits until the client says that it has the lock, and returns the fence.
func (c *client) granted() (fence uint64) { return c.grantedWithin(c.t.answer) }

func (c *client) grantedWithin(d time.Duration) (fence uint64) {
	return c.grantedBy(c.next(d, "granted"))
}

// handedOver is granted for a hand-over, whose fence must be above an earlier one.
func (c *client) handedOver(above uint64) (fence uint64) {
	if fence = c.granted(); fence <= above {
		failf("the fence %d of a hand-over follows %d", fence, above)
	}
	return fence
}

// try makes the client acquire a lock that is free.
func (c *client) try(ttl time.Duration) (fence uint64) { return c.take(c.t.verb("try"), ttl) }

// take sends a command to acquire the lock. The client must get it.
func (c *client) take(verb string, ttl time.Duration) (fence uint64) {
	return c.grantedBy(c.ask("%s %d", verb, ttl.Milliseconds()))
}

// kill ends the process at once.
func (c *client) kill() {
	c.t.note(c.who, "is killed")
	_ = c.cmd.Process.Kill() // it may have ended
	c.wait()
}

// leave closes the process's input, so that it ends, and kills it if it does not.
func (c *client) leave() {
	_ = c.stdin.Close() // it may have ended
	defer time.AfterFunc(5*time.Second, func() { _ = c.cmd.Process.Kill() }).Stop()
	c.wait()
}

// wait waits until the process has ended, whatever its status.
func (c *client) wait() {
	for range c.lines {
		continue
	}
	_ = c.cmd.Wait()
}
