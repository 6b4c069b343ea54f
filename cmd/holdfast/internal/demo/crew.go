package demo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// crew is the worker processes, as the process that started them sees them.
type crew struct {
	brief    brief
	events   chan event
	members  map[int]*member // those not yet buried
	patience time.Duration   // of disband with workers that are to end by themselves
}

// member is a worker process.
type member struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr tail
	paused bool
}

func newCrew(b brief) *crew {
	return &crew{brief: b, events: make(chan event, 256), members: map[int]*member{}, patience: 2 * time.Second}
}

// start starts a worker. On Linux it dies with the thread that calls this.
func (c *crew) start(worker int) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	m := &member{cmd: exec.Command(program, WorkerArg)}
	m.cmd.Stderr = &m.stderr
	m.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { // what may have a password
		name, _, _ := strings.Cut(kv, "=")
		return name == "HOLDFAST_REDIS" || name == "REDIS_URL"
	})
	tie(m.cmd)
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := m.cmd.Start(); err != nil {
		return fmt.Errorf("starting worker %d: %w", worker, err)
	}
	c.members[worker] = m
	go c.listen(worker, m, stdout)

	b := c.brief
	b.Worker = worker
	if !b.Locked {
		b.Seed += uint64(worker) // or all would draw the same, and hide that they collide
	}
	line, err := json.Marshal(b)
	if err != nil {
		return err
	}
	_, err = m.stdin.Write(append(line, '\n'))
	return err
}

// listen passes on what a worker reports, and then that it is gone.
func (c *crew) listen(worker int, m *member, stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil { // a killed worker may leave half a line
			c.events <- e
		}
	}
	_ = m.cmd.Wait() // its state tells
	text := m.cmd.ProcessState.String()
	if said := m.stderr.text(); said != "" {
		text += ": " + said
	}
	c.events <- event{At: now(), Worker: worker, Kind: wasBuried, Text: text}
}

// bury takes a worker that is gone off the list.
func (c *crew) bury(worker int) { delete(c.members, worker) }

// order tells a worker what to do. One that is gone does not hear it, which its
// burial shows.
func (c *crew) order(worker int, o order) {
	if m := c.members[worker]; m != nil {
		_, _ = io.WriteString(m.stdin, string(o)+"\n")
	}
}

// orderAll tells every worker.
func (c *crew) orderAll(o order) {
	for worker := range c.members {
		c.order(worker, o)
	}
}

// kill sends SIGKILL.
func (c *crew) kill(worker int) error { return c.members[worker].cmd.Process.Kill() }

// pause and resume send SIGSTOP and SIGCONT, where systems have them.
func (c *crew) pause(worker int) error {
	m := c.members[worker]
	m.paused = true
	return pauseProcess(m.cmd.Process)
}

func (c *crew) resume(worker int) error {
	m := c.members[worker]
	m.paused = false
	return resumeProcess(m.cmd.Process)
}

// disband ends all workers: gently, but for a paused one, and with SIGKILL after
// a while. It hands over what they still report. When it returns, all are gone.
func (c *crew) disband(last func(event)) {
	for _, m := range c.members {
		_ = m.stdin.Close()
		if m.paused {
			_ = m.cmd.Process.Kill()
		}
	}
	patience := time.After(c.patience)
	for len(c.members) > 0 {
		select {
		case e := <-c.events:
			last(e)
			if e.Kind == wasBuried {
				c.bury(e.Worker)
			}
		case <-patience:
			for _, m := range c.members {
				_ = m.cmd.Process.Kill()
			}
		}
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 2048
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - most; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
