package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/bench/measure"
	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/server"
)

// workerArgument makes the program a process of a contestant.
const workerArgument = "worker"

// turn runs a contestant's processes for a cell, and returns the figures.
func turn(ctx context.Context, v *rig, c contestant, of cell, number int) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, of.limit())
	defer cancel()
	b, path, err := newBoard(v.dir, number)
	if err != nil {
		return nil, err
	}
	s, end, err := v.serversOf(ctx, c, of.Kind)
	if err != nil {
		return nil, err
	}
	defer end()
	addrs := s.addrs()
	if of.roundTrip > 0 {
		if addrs, err = v.delay(addrs, of.roundTrip/2); err != nil {
			return nil, err
		}
	}
	if c.java {
		of = of.merged()
	}
	var workers []*worker
	done := false
	defer func() {
		if c.java && done {
			return
		}
		if c.java {
			v.jvm = nil // its state is unknown
		}
		for _, w := range workers {
			w.end()
		}
	}()
	ready := 0
	awaitReady := func() error {
		w := workers[ready]
		ready++
		if line, err := w.out.ReadString('\n'); line != "ready\n" {
			return fmt.Errorf("%s did not get ready: %q: %w", c.name, line, err)
		}
		return nil
	}
	for i := range of.processes {
		if i >= startsAtOnce {
			if err := awaitReady(); err != nil {
				return nil, err
			}
		}
		j := of.job(c, i)
		j.Addrs, j.Board, j.Names = addrs, path, fmt.Sprintf("%s-%d", c.name, number)
		w, err := v.hire(c)
		if err != nil {
			return nil, err
		}
		workers = append(workers, w)
		defer context.AfterFunc(ctx, w.kill)()
		if err := json.NewEncoder(w.in).Encode(j); err != nil {
			return nil, err
		}
	}
	for ready < len(workers) {
		if err := awaitReady(); err != nil {
			return nil, err
		}
	}
	cpuBefore, sentBefore, err := usage(s, c.sends)
	if err != nil {
		return nil, err
	}
	for _, w := range workers {
		if _, err := io.WriteString(w.in, "go\n"); err != nil {
			return nil, err
		}
	}
	var seen figures
	if of.Kind == "crowd" {
		if seen, err = watchCrowd(ctx, s, c, of, b, workers); err != nil {
			return nil, err
		}
	}
	var outcomes []outcome
	for _, w := range workers {
		var o outcome
		line, err := w.out.ReadBytes('\n')
		if err = errors.Join(err, json.Unmarshal(line, &o)); err != nil {
			return nil, fmt.Errorf("%s did not finish: %w", c.name, err)
		}
		if o.Errors > 0 {
			fmt.Fprintf(os.Stderr, "%s: %s: %d errors, such as %s\n", of.name, c.name, o.Errors, o.Error)
		}
		outcomes = append(outcomes, o)
	}
	done = true
	cpu, sent, err := usage(s, c.sends)
	if err != nil {
		return nil, err
	}
	f := account(outcomes, cpu-cpuBefore, int(sent-sentBefore), int(b.overlaps.Load()))
	for _, o := range outcomes {
		for name, value := range o.Figures {
			if value != 0 {
				f[name] = math.Round(value*1000) / 1000
			}
		}
	}
	maps.Copy(f, seen)
	return f, nil
}

// serversOf returns a contestant's servers for a turn, and what ends those that no other turn uses. An etcd has only one
// turn: it would use the processors during the turns of others.
func (v *rig) serversOf(ctx context.Context, c contestant, kind string) (s servers, end func(), err error) {
	if kind == "memory" || kind == "queue" { // they count all that a server has or does
		one := server.Start(v.h, v.bin)
		return site{one}, one.Stop, nil
	}
	if !c.etcd {
		return v.site(ctx, kind), func() {}, nil
	}
	e, err := startEtcd(ctx, v.etcd, v.dir)
	if err != nil {
		return nil, nil, err
	}
	return e, e.end, nil
}

// usage returns the processor time that servers have used, and the commands that they were sent.
func usage(s servers, other string) (cpu time.Duration, sent int64, err error) {
	if cpu, err = s.cpu(); err != nil {
		return 0, 0, err
	}
	sent, err = s.sent(other)
	return cpu, sent, err
}

func newBoard(dir string, number int) (*board, string, error) {
	path := filepath.Join(dir, fmt.Sprint("board-", number))
	if err := os.WriteFile(path, make([]byte, boardSize), 0o600); err != nil {
		return nil, "", err
	}
	b, err := openBoard(path)
	return b, path, err
}

// faults are figures that should be 0.
var faults = []string{"overlaps", "errors", "lost"}

// account computes the figures of a turn from the outcomes of its processes and from what the server used.
func account(outcomes []outcome, redisCPU time.Duration, sent, overlaps int) figures {
	var all outcome
	var longest time.Duration
	for _, o := range outcomes {
		all.Cycles += o.Cycles
		all.Written += o.Written
		all.Took = max(all.Took, o.Took)
		all.CPU += o.CPU
		all.Mallocs += o.Mallocs
		all.Latencies = append(all.Latencies, o.Latencies...)
		all.Handovers = append(all.Handovers, o.Handovers...)
		all.Waits = append(all.Waits, o.Waits...)
		all.Writers = append(all.Writers, o.Writers...)
		all.Grants = append(all.Grants, o.Grants...)
		all.Lost += o.Lost
		all.Goroutines += o.Goroutines
		all.LeaseHeap += o.LeaseHeap
		all.LeaseStack += o.LeaseStack
		all.Errors += o.Errors
	}
	if waits := slices.Concat(all.Waits, all.Writers); len(waits) > 0 {
		longest = slices.Max(waits)
	}
	cycles := float64(max(all.Cycles, 1))
	f := figures{
		"rate":          float64(all.Cycles) / all.Took.Seconds(),
		"redis_us":      measure.Micros(redisCPU) / cycles,
		"client_us":     measure.Micros(all.CPU) / cycles,
		"commands":      float64(sent) / cycles,
		"allocs":        float64(all.Mallocs) / cycles,
		"p50_us":        percentile(all.Latencies, 50),
		"handover_us":   percentile(all.Handovers, 50),
		"handover99_us": percentile(all.Handovers, 99),
		"wait99_us":     percentile(all.Waits, 99),
		"writer99_us":   percentile(all.Writers, 99),
		"longest_us":    measure.Micros(longest),
		"written":       float64(all.Written) / all.Took.Seconds(),
		"jain":          measure.Jain(all.Grants),
		"goroutines":    float64(all.Goroutines),
		"lease_heap":    all.LeaseHeap,
		"lease_stack":   all.LeaseStack,
		"lost":          float64(all.Lost),
		"errors":        float64(all.Errors),
		"overlaps":      float64(overlaps),
	}
	for name, value := range f {
		f[name] = math.Round(value*1000) / 1000
		if value == 0 && !slices.Contains(faults, name) { // the cell does not have this figure
			delete(f, name)
		}
	}
	return f
}

// percentile returns a percentile of times, in microseconds.
func percentile(times []time.Duration, p float64) float64 {
	return measure.Micros(measure.Percentiles(times, p)[0])
}

type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// hire returns a contestant's process that waits for a job: a new one, or the JVM.
func (v *rig) hire(c contestant) (w *worker, err error) {
	if c.program != "" {
		return start(c.program, workerArgument)
	}
	if !c.java {
		return start(v.self, workerArgument)
	}
	if v.jvm == nil {
		v.jvm, err = start(v.java[0], v.java[1:]...)
	}
	return v.jvm, err
}

func start(program string, args ...string) (w *worker, err error) {
	w = &worker{cmd: exec.Command(program, args...)}
	w.cmd.Stderr = os.Stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewReader(out)
	if err := child.Start(w.cmd); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *worker) kill() { _ = w.cmd.Process.Kill() }

// end waits for the process, which ends with its input, or is killed after its time.
func (w *worker) end() {
	_ = w.in.Close()
	_ = w.cmd.Wait()
}

// job is what a contestant's process does in one turn.
type job struct {
	cell
	Contestant string
	Addrs      []string // the servers'
	Board      string   // a file; see board
	Names      string   // begins the name of every lock of this turn
	Process    int
}

// outcome is what a process measured between "go" and the last release. Times are in nanoseconds.
type outcome struct {
	Cycles  int           // acquires and releases
	Written int           // the cycles of writers in readwrite
	Took    time.Duration // until the last goroutine that did not fail had ended
	CPU     time.Duration // of the process, user and system
	Mallocs uint64        // allocations of the process

	Latencies []time.Duration `json:",omitempty"` // of the cycles, with one goroutine or a far server
	Handovers []time.Duration `json:",omitempty"` // from the call of release, in any process, to the next holder's first step, in this one
	Waits     []time.Duration `json:",omitempty"` // from the call of acquire to its return or the end of the turn; without writers
	Writers   []time.Duration `json:",omitempty"` // the same for writers, in readwrite
	Grants    []int           `json:",omitempty"` // of each goroutine

	Lost       int     // leases that were lost
	Goroutines int     // the most while the leases were held
	LeaseHeap  float64 // bytes of heap for each lease
	LeaseStack float64 // bytes of stacks for each lease

	Figures figures `json:",omitempty"` // that the process computed itself

	Errors int
	Error  string // one of them
}

func (o *outcome) fail(err error) {
	o.Errors++
	o.Error = err.Error()
}

// figures are what a turn measured, by name, or the medians of several turns.
type figures map[string]float64

// measured reports whether there was a turn that finished.
func (f figures) measured() bool { return f["rate"] > 0 }

// summary returns the median of each figure over the rounds, and the sum of each fault.
func summary(rounds []figures) figures {
	all := map[string][]float64{}
	for _, round := range rounds {
		for name, value := range round {
			all[name] = append(all[name], value)
		}
	}
	result := figures{}
	for name, values := range all {
		if slices.Contains(faults, name) {
			for _, v := range values {
				result[name] += v
			}
			continue
		}
		result[name] = measure.Median(values)
	}
	return result
}
