package campaign

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/harness"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
)

// cast is the processes of a lane. They are reused from one history to the next.
type cast struct {
	binary  string
	harness *harness.TB

	mu      sync.Mutex
	members []*member
	scripts []worker.Script // of the history under way
	records *records
}

// records is what the processes of one history reported.
type records struct {
	mu         sync.Mutex
	events     bytes.Buffer
	accesses   []worker.Access
	failures   []worker.Failure
	calls      []worker.Call
	steps      []worker.Step
	deadlocks  []worker.Deadlock
	extensions int
	ended      []worker.Ended
	races      []string // reports of the race detector
}

// member is one process.
type member struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	said *excerpt      // what it wrote on standard error
	gone chan struct{} // closed when everything it wrote has been read

	mu   sync.Mutex
	part *part
}

// part is a process's part in a history, and its answers.
type part struct {
	records *records
	started chan struct{}
	drained chan struct{}
	ended   chan struct{}
}

func newPart(r *records) *part {
	return &part{r, make(chan struct{}), make(chan struct{}), make(chan struct{})}
}

func (c *cast) launch(r *records) *member {
	cmd := exec.Command(c.binary)
	said := &excerpt{}
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		c.harness.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.harness.Fatal(err)
	}
	if err := child.Start(cmd); err != nil {
		c.harness.Fatal(err)
	}
	m := &member{cmd: cmd, in: in, said: said, gone: make(chan struct{}), part: newPart(r)}
	go m.read(out)
	return m
}

// current is the part that the process has now.
func (m *member) current() *part {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.part
}

func (m *member) read(out io.Reader) {
	defer close(m.gone)
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return // a killed process may leave an unfinished last line
		}
		if err := m.take(line[0], line[2:]); err != nil {
			panic(fmt.Sprintf("a worker says %.200q: %v", line, err))
		}
	}
}

func (m *member) take(kind byte, text []byte) (err error) {
	p := m.current()
	r := p.records
	r.mu.Lock()
	defer r.mu.Unlock()
	switch kind {
	case worker.EventLine:
		r.events.Write(text)
	case worker.AccessLine:
		err = add(&r.accesses, text)
	case worker.FailureLine:
		err = add(&r.failures, text)
	case worker.ExtendLine:
		r.extensions++
	case worker.CallLine:
		err = add(&r.calls, text)
	case worker.DeadlockLine:
		err = add(&r.deadlocks, text)
	case worker.StepLine:
		err = add(&r.steps, text)
	case worker.StartedLine:
		close(p.started)
	case worker.DrainedLine:
		close(p.drained)
	case worker.EndedLine:
		err = add(&r.ended, text)
		close(p.ended)
	default:
		err = fmt.Errorf("unknown line %q", kind)
	}
	return err
}

func add[T any](list *[]T, text []byte) error {
	var v T
	err := json.Unmarshal(text, &v)
	*list = append(*list, v)
	return err
}

func (m *member) hasGone() bool {
	select {
	case <-m.gone:
		return true
	default:
		return false
	}
}

// begin makes one process carry out each script.
func (c *cast) begin(scripts []worker.Script) *records {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scripts, c.records = scripts, &records{}
	for i := range scripts {
		if i == len(c.members) {
			c.members = append(c.members, nil)
		}
		if m := c.members[i]; m == nil || m.hasGone() {
			c.members[i] = c.launch(c.records)
		} else {
			m.mu.Lock()
			m.part = newPart(c.records)
			m.mu.Unlock()
		}
		c.members[i].send(worker.Order{Do: worker.Start, Script: &scripts[i]})
		if scripts[i].Admit {
			c.started(c.members[i])
		}
	}
	for _, m := range c.playing() {
		c.started(m)
	}
	return c.records
}

// started waits until a process has begun its part. A process that cannot begin is useless.
func (c *cast) started(m *member) {
	if !m.await(m.current().started, 20*time.Second) {
		m.kill()
		c.harness.Fatalf("a process does not start: %s", m.said.String())
	}
}

// playing returns the processes of the history under way. Guarded by mu.
func (c *cast) playing() []*member { return c.members[:len(c.scripts)] }

// send gives an order. If the process is gone, that shows elsewhere.
func (m *member) send(o worker.Order) {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	_, _ = m.in.Write(append(text, '\n'))
}

// await waits for an answer, and reports whether it came.
func (m *member) await(answer <-chan struct{}, limit time.Duration) bool {
	select {
	case <-answer:
	case <-m.gone:
	case <-time.After(limit):
	}
	select {
	case <-answer:
		return true
	default:
		return false
	}
}

func (c *cast) member(i int) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[i]
}

func (c *cast) order(i int, o worker.Order) { c.member(i).send(o) }
func (c *cast) pause(i int)                 { c.signal(i, syscall.SIGSTOP) }
func (c *cast) resume(i int)                { c.signal(i, syscall.SIGCONT) }

func (c *cast) signal(i int, s os.Signal) {
	if err := c.member(i).cmd.Process.Signal(s); err != nil {
		c.harness.Error(err)
	}
}

// kill ends a process with SIGKILL and waits until all its output has been read.
func (c *cast) kill(i int) { c.member(i).kill() }

func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	<-m.gone
	_ = m.cmd.Wait()
}

// replace starts a process in the place of one that was killed, with the same part.
func (c *cast) replace(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scripts[i].Admit = false
	c.scripts[i].Seed++ // it does something else than the one before, and the same when the history is replayed
	script := c.scripts[i]
	c.members[i] = c.launch(c.records)
	c.members[i].send(worker.Order{Do: worker.Start, Script: &script})
}

// drain makes every process finish its turns. If some do not finish in time, it returns the result of state and
// a description of each of them.
func (c *cast) drain(patience time.Duration, state func() []string) (stuck []string) {
	c.mu.Lock()
	members := c.playing()
	c.mu.Unlock()
	began := time.Now()
	for _, m := range members {
		m.send(worker.Order{Do: worker.Drain})
	}
	for _, m := range members {
		drained := m.await(m.current().drained, time.Until(began.Add(patience)))
		if !drained && !m.hasGone() { // if the machine stood still, or is too busy, it takes that much longer
			drained = m.await(m.current().drained, time.Until(began.Add(patience+machine.HeldUp(began))))
		}
		if !drained {
			if stuck == nil {
				stuck = state()
			}
			stuck = append(stuck, fmt.Sprintf("process %d has turns that have not ended %s after the last fault%s\n%s", m.cmd.Process.Pid, time.Since(began).Round(time.Millisecond), m.dump(), machine.Report(began)))
		}
	}
	return stuck
}

// end makes every process close its client. It returns a description of each process that did not end in time.
func (c *cast) end() (stuck []string) {
	c.mu.Lock()
	members := c.playing()
	c.mu.Unlock()
	for _, m := range members {
		m.send(worker.Order{Do: worker.End})
	}
	for _, m := range members {
		if !m.await(m.current().ended, time.Minute) {
			stuck = append(stuck, fmt.Sprintf("process %d has not ended a minute after it was told to%s", m.cmd.Process.Pid, m.dump()))
		}
		if text := m.said.String(); strings.Contains(text, "DATA RACE") { // of a worker built with -race
			c.records.races = append(c.records.races, text)
			m.kill() // so that it is reported once
		}
	}
	return stuck
}

// dump ends a process with SIGQUIT, which makes it print its goroutines' stacks.
func (m *member) dump() string {
	_ = m.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-m.gone:
	case <-time.After(5 * time.Second):
	}
	m.kill()
	return ":\n" + m.said.String()
}

// excerpt keeps the first 256 KiB written to it, enough for the stacks of all goroutines.
type excerpt struct {
	mu   sync.Mutex
	text []byte
}

func (t *excerpt) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text[:min(len(text), max(256<<10-len(t.text), 0))]...)
	return len(text), nil
}

func (t *excerpt) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

func (c *cast) close() {
	for _, m := range c.members {
		m.kill()
	}
}

// latestCalls returns the calls of all processes, each as it was last reported.
func (r *records) latestCalls() []worker.Call {
	return latest(r.calls, func(c worker.Call) source { return source{c.Process, c.ID} })
}

// latestSteps returns the steps at latches and barriers, in the same way.
func (r *records) latestSteps() []worker.Step {
	return latest(r.steps, func(s worker.Step) source { return source{s.Process, s.ID} })
}

// source tells apart what processes report.
type source struct {
	process int
	id      uint64
}

func latest[T any](list []T, id func(T) source) (all []T) {
	at := map[source]int{}
	for _, x := range list {
		i, known := at[id(x)]
		if !known {
			i = len(all)
			at[id(x)], all = i, append(all, x)
		}
		all[i] = x
	}
	return all
}

// read returns the events of all processes.
func (r *records) read() ([]history.Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return history.Read(bytes.NewReader(r.events.Bytes()))
}
