//go:build unix

package processes

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/backend"
	"github.com/holdfast-go/holdfast/tests/child"
	"github.com/holdfast-go/holdfast/tests/history"
	"github.com/holdfast-go/holdfast/tests/soak"
)

// storm is a worker: so many goroutines acquire one lock, hold it for a millisecond
// and think for up to ten. It writes its history to a file.
//
//	storm ADDR FILE GOROUTINES DURATION
func storm(args []string) {
	goroutines, err := strconv.Atoi(args[2])
	must(err)
	duration, err := time.ParseDuration(args[3])
	must(err)
	out, err := os.Create(args[1])
	must(err)
	c := dial(args[0])
	record := history.NewRecorder(out)
	l := c.Mutex("a")
	end := time.Now().Add(duration)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for time.Now().Before(end) {
				a := record.Ask(g, "a")
				lease, err := l.Acquire(context.Background())
				must(err)
				a.Granted(lease.Token(), lease.Deadline(), 0)
				time.Sleep(time.Millisecond)
				must(lease.Err())
				a.Released(lease.Deadline())
				must(lease.Release(context.Background()))
				time.Sleep(rand.N(10 * time.Millisecond))
			}
		})
	}
	wg.Wait()
	_, err = record.Events()
	must(err)
	must(c.Close(context.Background()))
	must(out.Close())
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// weather is what a storm was like.
type weather struct {
	history.Report
	scripts   float64 // run by the server for each turn
	long      int     // waits of more than 1.5 times the mean
	turns     int     // of processes
	overtakes int     // turns that were not the next process's to have
}

// turns counts the turns of processes in a history of one lock, and those that a
// process took from another that had waited for longer. A process waits from when it
// last got the lock, or from when the goroutine asked that gets it next. Waits that
// began within slack of each other are alike: nobody sees a process enter the queue.
func turns(events []history.Event, slack time.Duration) (turns, overtakes int) {
	granted := slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return e.Granted == 0 })
	slices.SortFunc(granted, func(a, b history.Event) int { return cmp.Compare(a.Fence, b.Fence) })
	type turn struct{ waits, begins int64 }
	var all []turn
	last := map[int]int64{}
	process := -1
	for _, e := range granted {
		if e.Process == process {
			continue
		}
		process = e.Process
		all = append(all, turn{max(last[process], e.Asked), e.Granted})
		last[process] = e.Granted
	}
	for i, t := range all {
		for _, later := range all[i+1:] {
			if later.waits > t.begins {
				break
			}
			if later.waits+int64(slack) < t.waits {
				overtakes++
				break
			}
		}
	}
	return len(all), overtakes
}

// rage has so many processes storm on a server, and checks their history.
func rage(t *testing.T, b *backend.Backend, processes, goroutines int, duration time.Duration) weather {
	t.Helper()
	before := b.Server.CommandStats()
	var files []string
	var workers []*exec.Cmd
	for p := range processes {
		file := filepath.Join(t.TempDir(), strconv.Itoa(p))
		cmd := exec.Command(os.Args[0], b.Server.Addr(), file, strconv.Itoa(goroutines), duration.String())
		cmd.Env = append(os.Environ(), roleVariable+"=storm", "GORACE=atexit_sleep_ms=0")
		cmd.Stderr = os.Stderr
		if err := child.Start(cmd); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		files, workers = append(files, file), append(workers, cmd)
	}
	for _, cmd := range workers {
		if err := cmd.Wait(); err != nil {
			t.Errorf("a worker ends with %v", err)
		}
	}
	events, err := history.ReadFiles(files...)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range history.Check(events) {
		if i == 5 {
			t.Error("and more")
			break
		}
		t.Error(v)
	}
	after := b.Server.CommandStats()
	w := weather{Report: history.Fairness(events)}
	w.turns, w.overtakes = turns(events, 20*time.Millisecond)
	for _, e := range events {
		if e.Granted-e.Asked > int64(w.MeanWait)*3/2 && e.Granted != 0 {
			w.long++
		}
	}
	scripts := float64(after["evalsha"] - before["evalsha"])
	w.scripts = scripts / float64(max(w.turns, 1))
	if w.Grants < processes*goroutines {
		t.Errorf("only %d grants", w.Grants)
	}
	t.Logf("%d processes of %d goroutines, %s: %d grants in %d turns, %d out of turn; mean wait %s, longest %s, %.2f of the mean, %d above 1.5; Jain %.3f; %.2f scripts a grant, %.2f a turn",
		processes, goroutines, duration, w.Grants, w.turns, w.overtakes, w.MeanWait.Round(time.Microsecond), w.LongestWait.Round(time.Microsecond),
		float64(w.LongestWait)/float64(w.MeanWait), w.long, w.Jain, scripts/float64(w.Grants), w.scripts)
	return w
}

// Many processes want one lock. Nobody overlaps, fences rise, and everybody gets a
// turn as often as the others.
func TestStorm(t *testing.T) {
	backend.EachRealInTurn(t, func(t *testing.T, b *backend.Backend) {
		const processes, goroutines = 8, 16
		w := rage(t, b, processes, goroutines, soak.Duration(t))
		if w.Jain < 0.95 {
			t.Errorf("Jain's index of fairness is %.3f", w.Jain)
		}
		// On a busy machine a process may be late to the queue now and then.
		if w.overtakes > w.turns/50 {
			t.Errorf("%d of %d turns were another process's", w.overtakes, w.turns)
		}
		// Judged in a soak only: a machine that stalls in the middle of a turn makes
		// those wait another round whom the turn was to serve.
		if soak.Long() && w.long > 0 {
			t.Errorf("%d of %d waits were more than 1.5 times the mean of %s", w.long, w.Grants, w.MeanWait)
		}
		if len(b.Keys(t)) != 0 {
			t.Errorf("keys left behind: %q", b.Keys(t))
		}
	})
}

// Waiting costs the server nothing: each turn takes as many commands, however many
// processes wait.
func TestNobodyPolls(t *testing.T) {
	backend.EachRealInTurn(t, func(t *testing.T, b *backend.Backend) {
		few := rage(t, b, 2, 4, time.Second)
		many := rage(t, b, 8, 4, time.Second)
		if many.scripts > 1.25*few.scripts+0.25 {
			t.Errorf("%.2f scripts a turn with 8 processes, %.2f with 2", many.scripts, few.scripts)
		}
	})
}

// A checker that is itself checked: it must see a turn taken out of order.
func TestTurnsOutOfOrderAreSeen(t *testing.T) {
	ms := int64(time.Millisecond)
	event := func(process int, fence uint64, asked, granted int64) history.Event {
		return history.Event{Process: process, Fence: fence, Asked: asked * ms, Granted: granted * ms, Name: "a"}
	}
	fair := []history.Event{event(1, 1, 0, 1), event(2, 2, 0, 100), event(3, 3, 50, 200), event(1, 4, 101, 300)}
	if n, bad := turns(fair, 20*time.Millisecond); n != 4 || bad != 0 {
		t.Errorf("a fair history has %d turns, %d out of order", n, bad)
	}
	unfair := []history.Event{event(1, 1, 0, 1), event(3, 3, 150, 200), event(2, 4, 0, 300)}
	if n, bad := turns(unfair, 20*time.Millisecond); n != 3 || bad != 1 {
		t.Errorf("an unfair history has %d turns, %d out of order", n, bad)
	}
}
