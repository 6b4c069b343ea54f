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
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// canPause reports whether this system can pause a process.
const canPause = terminal.Stop != 0

type processes struct {
	assignment assignment
	events     chan Event       // of all of them
	running    map[int]*process // the workers whose end has not been handled
	patience   time.Duration    // how long end waits for workers to end by themselves
}

type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer // to be read after the process has ended
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
		a.Seed += uint64(n) // with the same seed, workers that collide would draw the same winner
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

// listen passes on the events of a worker. The last one is Gone.
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

// order gives a worker an order, unless the worker is gone.
func (p *processes) order(n int, o order) {
	if w := p.running[n]; w != nil {
		_, _ = io.WriteString(w.stdin, string(o)+"\n")
	}
}

func (p *processes) orderAll(o order) {
	for n := range p.running {
		p.order(n, o)
	}
}

func (p *processes) signal(n int, sig syscall.Signal) error {
	w := p.running[n]
	w.paused = sig == terminal.Stop
	return w.cmd.Process.Signal(sig)
}

// end ends all workers, and passes their last events to last. It kills paused workers at once, and the others if they do not end by
// themselves.
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
