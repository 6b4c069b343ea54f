//go:build unix

package processes

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/queuelog"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// storm is a worker: so many goroutines acquire one lock, hold it for a millisecond
// and think for up to ten. It writes its history to a file, and ends with its input.
//
//	storm FILE ADDR GOROUTINES
func storm(args []string) {
	goroutines, err := strconv.Atoi(args[2])
	must(err)
	out, err := os.Create(args[0])
	must(err)
	c := dial(args[1])
	record := history.NewRecorder(out)
	l := c.Mutex("a")
	over := untilDismissed(new(atomic.Bool))
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for over.Err() == nil {
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
	scripts float64 // run by the server for each turn
	long    int     // waits of more than 1.5 times the mean
	turns   int     // of processes
}

// turns counts the turns of processes in a history of one lock.
func turns(events []history.Event) (turns int) {
	granted := slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return e.Granted == 0 })
	slices.SortFunc(granted, func(a, b history.Event) int { return cmp.Compare(a.Fence, b.Fence) })
	process := -1
	for _, e := range granted {
		if e.Process != process {
			turns++
		}
		process = e.Process
	}
	return turns
}

// lines counts those that files have.
func lines(t *testing.T, files []string) (n int) {
	t.Helper()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil && !os.IsNotExist(err) { // not begun yet
			t.Fatal(err)
		}
		n += bytes.Count(text, []byte("\n"))
	}
	return n
}

// rage has so many processes storm on a server for a time, and for as many grants for each
// goroutine, and checks their history and what the server tells.
func rage(t *testing.T, b *backend.Backend, processes, goroutines int, duration time.Duration, grants int) weather {
	t.Helper()
	before := b.Server.CommandStats()
	queue := queuelog.Follow(b.Server, queuelog.Lock{Name: "a", Key: "holdfast:{a}", Queue: "holdfast:{a}:q"})
	var members []*member
	for range processes {
		members = append(members, enlist(t, os.Args[0], "storm", b.Server.Addr(), strconv.Itoa(goroutines)))
	}
	all := files(members)
	began := time.Now()
	time.Sleep(duration)
	for ; lines(t, all) < grants*processes*goroutines; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > duration+time.Minute {
			t.Errorf("only %d grants in %s", lines(t, all), time.Since(began))
			break
		}
	}
	duration = time.Since(began)
	dismiss(t, members)
	events, err := history.ReadFiles(all...)
	if err != nil {
		t.Fatal(err)
	}
	found := queue.End()
	if !found.Whole || found.Grants == 0 {
		t.Errorf("the server told of %d grants; all: %t", found.Grants, found.Whole)
	}
	wrong := slices.Concat(found.Passed, found.Fell)
	for _, v := range history.Check(events) {
		wrong = append(wrong, v.String())
	}
	for i, w := range wrong {
		if i == 5 {
			t.Errorf("and %d more", len(wrong)-i)
			break
		}
		t.Error(w)
	}
	after := b.Server.CommandStats()
	w := weather{Report: history.Fairness(events), turns: turns(events)}
	for _, e := range events {
		if e.Granted-e.Asked > int64(w.MeanWait)*3/2 && e.Granted != 0 {
			w.long++
		}
	}
	scripts := float64(after["evalsha"] + after["delifeq"] - before["evalsha"] - before["delifeq"])
	w.scripts = scripts / float64(max(w.turns, 1))
	t.Logf("%d processes of %d goroutines, %s: %d grants in %d turns, %d out of turn; mean wait %s, longest %s, %.2f of the mean, %d above 1.5; Jain %.3f; %.2f scripts a grant, %.2f a turn",
		processes, goroutines, duration.Round(time.Millisecond), w.Grants, w.turns, len(found.Passed), w.MeanWait.Round(time.Microsecond), w.LongestWait.Round(time.Microsecond),
		float64(w.LongestWait)/float64(w.MeanWait), w.long, w.Jain, scripts/float64(w.Grants), w.scripts)
	return w
}

// Many processes want one lock. Nobody overlaps, fences rise, nobody passes who is queued,
// and everybody gets a turn as often as the others.
func TestStorm(t *testing.T) {
	backend.EachRealInTurn(t, func(t *testing.T, b *backend.Backend) {
		const processes, goroutines = 8, 16
		w := rage(t, b, processes, goroutines, soak.Duration(t), 16)
		if w.Jain < 0.95 {
			t.Errorf("Jain's index of fairness is %.3f", w.Jain)
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
		few := rage(t, b, 2, 4, time.Second, 8)
		many := rage(t, b, 8, 4, time.Second, 8)
		if many.scripts > 1.25*few.scripts+0.25 {
			t.Errorf("%.2f scripts a turn with 8 processes, %.2f with 2", many.scripts, few.scripts)
		}
	})
}
