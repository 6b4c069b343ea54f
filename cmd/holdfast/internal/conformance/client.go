package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// client is a process of the client that is judged.
type client struct {
	t     *trial
	who   string // in the dialogue
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string // what it says; closed when it ends
}

// ErrNotStarted marks the error of a client that cannot be started.
var ErrNotStarted = errors.New("the client cannot be started")

// start starts a process, whose connections go through the trial's network.
func (t *trial) start() (*client, error) {
	c := &client{t: t, who: fmt.Sprintf("client %d", len(t.clients)+1), lines: make(chan string, 16)}
	args := append(slices.Clone(t.cfg.Command), t.network.addr(), t.name)
	c.cmd = exec.CommandContext(t.ctx, args[0], args[1:]...)
	c.cmd.Stderr = t.cfg.Messages
	stdin, err := c.cmd.StdinPipe()
	if err == nil {
		c.stdin = stdin
		var stdout io.ReadCloser
		if stdout, err = c.cmd.StdoutPipe(); err == nil {
			if err = c.cmd.Start(); err == nil {
				t.clients = append(t.clients, c)
				go c.read(stdout)
			}
		}
	}
	if err != nil {
		t.broken = fmt.Errorf("%w: %w", ErrNotStarted, err)
		return nil, t.broken
	}
	if line, err := c.next("its first line"); err != nil {
		return nil, err
	} else if err := t.implements(line); err != nil {
		return nil, err
	}
	return c, nil
}

// features are the words that may follow ready: what a client implements besides mutexes.
var features = []string{rwmutex, semaphore}

const (
	rwmutex   = "rwmutex"
	semaphore = "semaphore"
)

// missingError says that a client does not implement what the scenario is about.
type missingError struct{ feature string }

func (e *missingError) Error() string {
	return fmt.Sprintf("not judged: the client does not say that it implements %s", e.feature)
}

// implements reads a client's first line.
func (t *trial) implements(line string) error {
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != "ready" {
		return problemf("a client says %s first, and not ready", printable.Word(line, 200))
	}
	for _, word := range words[1:] {
		if !slices.Contains(features, word) {
			return problemf("a client says that it implements %s; the words are %s", printable.Word(word, 200), strings.Join(features, ", "))
		}
	}
	if t.feature != "" && !slices.Contains(words[1:], t.feature) {
		return &missingError{t.feature}
	}
	return nil
}

func (c *client) read(stdout io.Reader) {
	defer close(c.lines)
	scanner := bufio.NewScanner(stdout)
	for scanner.Scan() {
		c.lines <- scanner.Text()
	}
}

// tell sends a command.
func (c *client) tell(format string, args ...any) error {
	command := fmt.Sprintf(format, args...)
	c.t.note(c.who+" <", command)
	if _, err := io.WriteString(c.stdin, command+"\n"); err != nil {
		return problemf("%s does not read %q: %v", c.who, command, err)
	}
	return nil
}

// next returns the next line that the client prints. what names the line that is expected.
func (c *client) next(what string) (string, error) { return c.nextWithin(c.t.cfg.Answer, what) }

func (c *client) nextWithin(d time.Duration, what string) (string, error) {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	select {
	case line, is := <-c.lines:
		if !is {
			return "", problemf("%s has ended, instead of %s", c.who, what)
		}
		c.t.note(c.who+" >", line)
		if text, is := strings.CutPrefix(line, "error"); is {
			return line, &clientError{c.who, what, strings.TrimSpace(text)}
		}
		return line, nil
	case <-timeout.C:
		return "", problemf("%s did not print %s within %s", c.who, what, d)
	case <-c.t.ctx.Done():
		return "", context.Cause(c.t.ctx)
	}
}

// clientError is an error that the client reports itself.
type clientError struct{ who, what, text string }

func (e *clientError) Error() string {
	return fmt.Sprintf("%s says error, instead of %s: %s", e.who, e.what, printable.Line(e.text, 300))
}

// ask sends a command and returns the answer.
func (c *client) ask(format string, args ...any) (string, error) {
	if err := c.tell(format, args...); err != nil {
		return "", err
	}
	return c.next("an answer to " + strconv.Quote(fmt.Sprintf(format, args...)))
}

// must sends a command whose answer is known.
func (c *client) must(want, format string, args ...any) error {
	got, err := c.ask(format, args...)
	if err == nil && got != want {
		err = problemf("%s answers %s to %q, and not %s", c.who, printable.Word(got, 200), fmt.Sprintf(format, args...), want)
	}
	return err
}

// grantedBy returns the fence that an answer tells.
func (c *client) grantedBy(answer string) (fence uint64, err error) {
	number, is := strings.CutPrefix(answer, "granted ")
	if is {
		fence, err = strconv.ParseUint(number, 10, 63)
	}
	if !is || err != nil || fence == 0 {
		return 0, problemf("%s says %s, and not granted and the fence", c.who, printable.Word(answer, 200))
	}
	return fence, nil
}

// granted returns the fence once the client says that it has the lock.
func (c *client) granted() (fence uint64, err error) { return c.grantedWithin(c.t.cfg.Answer) }

func (c *client) grantedWithin(d time.Duration) (fence uint64, err error) {
	answer, err := c.nextWithin(d, "granted")
	if err != nil {
		return 0, err
	}
	return c.grantedBy(answer)
}

// try makes the client ask for a lock that is free.
func (c *client) try(ttl time.Duration) (fence uint64, err error) {
	return c.take(c.t.verb("try"), ttl)
}

// take sends a command that must be granted.
func (c *client) take(verb string, ttl time.Duration) (fence uint64, err error) {
	answer, err := c.ask("%s %d", verb, ttl.Milliseconds())
	if err != nil {
		return 0, err
	}
	return c.grantedBy(answer)
}

// kill ends the process at once.
func (c *client) kill() {
	c.t.note(c.who, "is killed")
	_ = c.cmd.Process.Kill() // it may have ended
	for range c.lines {
		continue // until it has
	}
	_ = c.cmd.Wait() // reports the signal
}

// leave asks the process to end, by the end of its input, and ends it if it does not.
func (c *client) leave() {
	_ = c.stdin.Close() // it may have ended
	patience := time.AfterFunc(5*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer patience.Stop()
	for range c.lines {
		continue
	}
	_ = c.cmd.Wait() // how it ends is its own affair
}
