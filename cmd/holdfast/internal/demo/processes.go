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

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/worker"
)

// processes are the worker processes.
type processes struct {
	assignment worker.Assignment
	events     chan history.Event // of all of them
	running    map[int]*process   // until their end has been handled
	patience   time.Duration      // of end, with processes that are to end by themselves
}

// process is a worker process.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr tail
	paused bool
}

func newProcesses(a worker.Assignment) *processes {
	return &processes{assignment: a, events: make(chan history.Event, 256), running: map[int]*process{}, patience: 2 * time.Second}
}

// start starts worker n. On Linux it dies with the thread that calls start.
func (p *processes) start(n int) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	w := &process{cmd: exec.Command(program, worker.Arg)}
	w.cmd.Stderr = &w.stderr
	w.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { // these may contain a password
		name, _, _ := strings.Cut(kv, "=")
		return name == "HOLDFAST_REDIS" || name == "REDIS_URL"
	})
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

	a := p.assignment
	a.Worker = n
	if !a.Locked {
		a.Seed += uint64(n) // with the same seed they would draw the same, and hide that they collide
	}
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = w.stdin.Write(append(line, '\n'))
	return err
}

// listen passes on the events of a worker, the last of which is that it is gone.
func (p *processes) listen(n int, w *process, stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var e history.Event
		if json.Unmarshal(lines.Bytes(), &e) == nil { // a killed worker may leave half a line
			p.events <- e
		}
	}
	_ = w.cmd.Wait() // its state has the error
	text := w.cmd.ProcessState.String()
	if said := w.stderr.text(); said != "" {
		text += ": " + said
	}
	p.events <- history.Event{At: history.Now(), Worker: n, Kind: history.Gone, Text: text}
}

// order gives a worker an order. One that is gone does not read it.
func (p *processes) order(n int, o worker.Order) {
	if w := p.running[n]; w != nil {
		_, _ = io.WriteString(w.stdin, string(o)+"\n")
	}
}

// orderAll gives every worker an order.
func (p *processes) orderAll(o worker.Order) {
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
func (p *processes) end(last func(history.Event)) {
	for _, w := range p.running {
		_ = w.stdin.Close()
		if w.paused {
			_ = w.cmd.Process.Kill()
		}
	}
	patience := time.After(p.patience)
	for len(p.running) > 0 {
		select {
		case e := <-p.events:
			last(e)
			if e.Kind == history.Gone {
				delete(p.running, e.Worker)
			}
		case <-patience:
			for _, w := range p.running {
				_ = w.cmd.Process.Kill()
			}
		}
	}
}

// tail is a writer that keeps the end of what is written.
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
