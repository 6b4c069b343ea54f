//go:build unix

package processes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/child"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/queuelog"
	"github.com/holdfast-go/holdfast/tests/internal/server"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// storm is a worker: so many goroutines acquire one lock, hold it for a millisecond
// and think for up to ten. It prints its history, and ends with its input.
//
//	storm ADDR GOROUTINES
func storm(args []string) {
	goroutines, err := strconv.Atoi(args[1])
	must(err)
	c := dial(args[0])
	record := history.NewRecorder(os.Stdout)
	l := c.Mutex("a")
	var over atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		over.Store(true)
	}()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for !over.Load() {
				a := record.Ask(g, "a")
				lease, err := l.Acquire(context.Background())
				if errors.Is(err, holdfast.ErrUnavailable) {
					a.GaveUp()
					continue
				}
				must(err)
				a.Granted(lease.Fence(), lease.Deadline())
				granted := time.Now()
				time.Sleep(time.Millisecond)
				if err := lease.Err(); !excused(err, lease, granted) {
					must(err)
				}
				a.Released(lease.Deadline())
				if err := lease.Release(context.Background()); !excused(err, lease, granted) {
					must(err)
				}
				time.Sleep(rand.N(10 * time.Millisecond))
			}
		})
	}
	wg.Wait()
	_, err = record.Events()
	must(err)
	must(c.Close(context.Background()))
}

// member is a process of a storm.
type member struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu   sync.Mutex
	said bytes.Buffer
}

func enlist(t *testing.T, addr string, goroutines int) *member {
	t.Helper()
	m := &member{cmd: exec.Command(os.Args[0], addr, strconv.Itoa(goroutines))}
	m.cmd.Env = append(os.Environ(), roleVariable+"=storm", "GORACE=atexit_sleep_ms=0")
	m.cmd.Stdout, m.cmd.Stderr = m, os.Stderr
	var err error
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	expect.OK(t, child.Start(m.cmd))
	t.Cleanup(func() {
		if m.cmd.ProcessState == nil {
			_ = m.cmd.Process.Kill()
			_ = m.cmd.Wait()
		}
	})
	return m
}

// Write takes what the process prints.
func (m *member) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.said.Write(p)
}

// events returns the member's history so far.
func (m *member) events(t *testing.T) []history.Event {
	t.Helper()
	m.mu.Lock()
	text := bytes.Clone(m.said.Bytes())
	m.mu.Unlock()
	return expect.Of(history.Read(bytes.NewReader(text[:bytes.LastIndexByte(text, '\n')+1]))).OK(t)
}

// end ends the member, and requires that it ends without an error.
func (m *member) end(t *testing.T) {
	t.Helper()
	_ = m.in.Close()
	late := time.AfterFunc(time.Minute, func() {
		t.Errorf("process %d does not end", m.cmd.Process.Pid)
		_ = m.cmd.Process.Signal(syscall.SIGQUIT) // it prints its stacks
	})
	defer late.Stop()
	expect.Err(t, fmt.Sprintf("process %d", m.cmd.Process.Pid), m.cmd.Wait(), nil)
}

// routine is a goroutine of a member.
type routine struct{ process, goroutine int }

// grants returns how often each goroutine of a history was granted the lock after a time. One without a grant counts, too.
func grants(events []history.Event, after int64) map[routine]int {
	all := map[routine]int{}
	for _, e := range events {
		all[routine{e.Process, e.Goroutine}] += 0
		if e.Granted > after {
			all[routine{e.Process, e.Goroutine}]++
		}
	}
	return all
}

// weather is the outcome of a storm.
type weather struct {
	history.Report
	long int // waits of more than 1.5 times the mean
}

// rage makes processes compete for a lock until the duration has passed and each goroutine has had at least that many grants, both
// counted from the moment when all of them have had one. It checks their history and the server's log.
func rage(t *testing.T, b *backend.Backend, processes, goroutines int, duration time.Duration, least int) weather {
	t.Helper()
	queue := queuelog.Follow(b.Server, queuelog.Lock{Name: "a", Key: "holdfast:{a}", Queue: "holdfast:{a}:q"})
	var members []*member
	for range processes {
		members = append(members, enlist(t, b.Server.Addr(), goroutines))
	}
	events := func() (all []history.Event) {
		for _, m := range members {
			all = append(all, m.events(t)...)
		}
		return all
	}
	sum := func(of map[routine]int) (n int) {
		for _, some := range of {
			n += some
		}
		return n
	}
	backend.Eventually(t, "every goroutine has had a turn", func() bool {
		time.Sleep(50 * time.Millisecond)
		of := grants(events(), 0)
		return len(of) == processes*goroutines && slices.Min(slices.Collect(maps.Values(of))) > 0
	})
	from, began := history.Now(), time.Now()
	time.Sleep(duration)
	backend.Eventually(t, "there are enough grants", func() bool {
		time.Sleep(50 * time.Millisecond)
		return sum(grants(events(), from)) >= least*processes*goroutines
	})
	to := history.Now()
	duration = time.Since(began)
	for _, m := range members {
		_ = m.in.Close()
	}
	for _, m := range members {
		m.end(t)
	}
	found, all := queue.End(), events()
	if !found.Whole || found.Grants == 0 {
		t.Errorf("the server told of %d grants; all: %t", found.Grants, found.Whole)
	}
	wrong := slices.Concat(found.Passed, found.Fell)
	for _, v := range history.Check(all) {
		wrong = append(wrong, v.String())
	}
	if len(wrong) > 0 {
		t.Errorf("%d violations, such as %s", len(wrong), wrong[0])
	}

	during := slices.DeleteFunc(slices.Clone(all), func(e history.Event) bool { return e.Granted <= from || e.Granted >= to })
	w := weather{Report: history.Fairness(during)}
	within := grants(during, 0)
	for who := range grants(all, from) {
		within[who] += 0
	}
	w.Jain = history.Jain(slices.Collect(maps.Values(within)))
	for _, e := range during {
		if e.Granted-e.Asked > int64(w.MeanWait)*3/2 {
			w.long++
		}
	}
	t.Logf("%d processes of %d goroutines, %s: %d grants; mean wait %s, longest %s, %d above 1.5 of the mean; Jain %.3f",
		processes, goroutines, duration.Round(time.Millisecond), w.Grants,
		w.MeanWait.Round(time.Microsecond), w.LongestWait.Round(time.Microsecond), w.long, w.Jain)
	return w
}

// inTurn runs f on every real server: on one after the other in a soak, which judges times, and otherwise on all at once.
func inTurn(t *testing.T, f func(t *testing.T, b *backend.Backend)) {
	for _, bin := range server.Binaries(t) {
		t.Run(bin.Name, func(t *testing.T) {
			if !soak.Long() {
				t.Parallel()
			}
			f(t, backend.Real(t, bin))
		})
	}
}

// Fault: Eight processes of 16 goroutines want one lock. Holds never overlap, fences rise, nobody in the queue is
// overtaken, and all get equally many turns.
func TestStorm(t *testing.T) {
	inTurn(t, func(t *testing.T, b *backend.Backend) {
		const processes, goroutines = 8, 16
		w := rage(t, b, processes, goroutines, soak.Duration(t), 16)
		expect.AtLeast(t, "Jain's index of fairness", w.Jain, 0.95)
		// This is judged only in a soak: if the machine stalls in the middle of a turn, those that the turn
		// should have served wait for another round.
		if soak.Long() && w.long > 0 {
			t.Errorf("%d of %d waits were more than 1.5 times the mean of %s", w.long, w.Grants, w.MeanWait)
		}
		b.Cleaned(t)
	})
}
