package demo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// processes are the worker processes.
type processes struct {
	assignment assignment
	events     chan Event       // of all of them
	running    map[int]*process // until their end has been handled
	patience   time.Duration    // of end, with processes that are to end by themselves
}

// process is a worker process.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer // read after the process has ended
	paused bool
}

func newProcesses(a assignment) *processes {
	return &processes{assignment: a, events: make(chan Event, 256), running: map[int]*process{}, patience: 2 * time.Second}
}

// start starts worker n. On Linux it dies with the thread that calls start.
func (p *processes) start(n int) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	a := p.assignment
	a.Worker = n
	if !a.Locked {
		a.Seed += uint64(n) // with the same seed they would draw the same, and hide that they collide
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	w := &process{cmd: exec.Command(program, WorkerArg, string(text))}
	w.cmd.Stderr = &w.stderr
	dieWithThread(w.cmd)
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := w.cmd.Start(); err != nil {
		return fmt.Errorf("starting worker %d: %w", n, err)
	}
	p.running[n] = w
	go p.listen(n, w, stdout)
	return nil
}

// listen passes on the events of a worker, the last of which is that it is gone.
func (p *processes) listen(n int, w *process, stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) == nil { // a killed worker may leave half a line
			p.events <- e
		}
	}
	_ = w.cmd.Wait() // its state has the error
	text := w.cmd.ProcessState.String()
	if said := strings.TrimSpace(w.stderr.String()); said != "" {
		text += ": " + said
	}
	p.events <- Event{At: Now(), Worker: n, Kind: Gone, Text: text}
}

// order gives a worker an order. One that is gone does not read it.
func (p *processes) order(n int, o order) {
	if w := p.running[n]; w != nil {
		_, _ = io.WriteString(w.stdin, string(o)+"\n")
	}
}

// orderAll gives every worker an order.
func (p *processes) orderAll(o order) {
	for n := range p.running {
		p.order(n, o)
	}
}

// kill sends SIGKILL.
func (p *processes) kill(n int) error { return p.running[n].cmd.Process.Kill() }

// pause sends SIGSTOP.
func (p *processes) pause(n int) error {
	w := p.running[n]
	w.paused = true
	return pauseProcess(w.cmd.Process)
}

// resume sends SIGCONT.
func (p *processes) resume(n int) error {
	w := p.running[n]
	w.paused = false
	return resumeProcess(w.cmd.Process)
}

// end ends all workers, and passes on what they still report. It kills those that are paused at once, and the others
// if they do not end by themselves.
func (p *processes) end(last func(Event)) {
	for _, w := range p.running {
		_ = w.stdin.Close()
		if w.paused {
			_ = w.cmd.Process.Kill()
		}
	}
	impatient := time.After(p.patience)
	for len(p.running) > 0 {
		select {
		case e := <-p.events:
			last(e)
			if e.Kind == Gone {
				delete(p.running, e.Worker)
			}
		case <-impatient:
			for _, w := range p.running {
				_ = w.cmd.Process.Kill()
			}
		}
	}
}
