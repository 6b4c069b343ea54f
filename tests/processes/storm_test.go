//go:build unix

package processes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/backend"
	"github.com/holdfast-go/holdfast/tests/internal/history"
	"github.com/holdfast-go/holdfast/tests/internal/machine"
	"github.com/holdfast-go/holdfast/tests/internal/queuelog"
	"github.com/holdfast-go/holdfast/tests/internal/soak"
)

// storm is a worker: so many goroutines acquire one lock, hold it for a millisecond
// and think for up to ten. It writes its history to a file, and ends with its input.
//
//	storm FILE ADDR GOROUTINES
//
// What it sent goes to FILE.sent in the end: how often each script was.
func storm(args []string) {
	goroutines, err := strconv.Atoi(args[2])
	must(err)
	out, err := os.Create(args[0])
	must(err)
	sent := &tally{Driver: drivertest.Of(holdfastgoredis.NewDriver(redis.NewClient(&redis.Options{Addr: args[1]}))), sent: map[string]int{}}
	c, err := holdfast.New(sent, &patient)
	must(err)
	record := history.NewRecorder(out)
	l := c.Mutex("a")
	over := untilDismissed(new(atomic.Bool))
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for over.Err() == nil {
				a := record.Ask(g, "a")
				lease, err := l.Acquire(context.Background())
				if errors.Is(err, holdfast.ErrUnavailable) {
					a.GaveUp()
					continue
				}
				must(err)
				a.Granted(lease.Fence(), lease.Deadline(), 0)
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
	must(out.Close())
	text, err := json.Marshal(sent.sent)
	must(err)
	must(os.WriteFile(sentFile(args[0]), text, 0o600))
}

func sentFile(file string) string { return file + ".sent" }

// tally is a Driver that counts the scripts that are sent, by name.
type tally struct {
	drivertest.Driver
	mu   sync.Mutex
	sent map[string]int
}

func (d *tally) count(s driver.Script) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent[s.Name]++
}

func (d *tally) Run(ctx context.Context, call driver.Call) (string, error) {
	d.count(call.Script)
	return d.Driver.Run(ctx, call)
}

func (d *tally) RunAll(ctx context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	for _, call := range calls {
		d.count(call.Script)
	}
	d.Driver.RunAll(ctx, calls, tell)
}

// sent adds up the scripts that members have sent: all, and renewals, which are sent for locks that are held
// for more than some milliseconds.
func sent(t *testing.T, members []*member) (all, renewals int) {
	t.Helper()
	for _, m := range members {
		text, err := os.ReadFile(sentFile(m.file))
		if err != nil {
			t.Fatal(err)
		}
		var sent map[string]int
		if err := json.Unmarshal(text, &sent); err != nil {
			t.Fatal(err)
		}
		for name, n := range sent {
			all += n
			if strings.Contains(name, "renew") {
				renewals += n
			}
		}
	}
	return all, renewals
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// weather is the outcome of a storm.
type weather struct {
	history.Report
	scripts float64 // for each turn, without renewals
	long    int     // waits of more than 1.5 times the mean
	turns   int     // of processes
}

// turns counts the processes' turns in a history of one lock.
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

// lines counts the lines of files.
func lines(t *testing.T, files []string) (n int) {
	t.Helper()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil && !os.IsNotExist(err) { // it has not begun yet
			t.Fatal(err)
		}
		n += bytes.Count(text, []byte("\n"))
	}
	return n
}

// between returns the events that were granted between these times, and how fairly their number was distributed
// over all goroutines of the history.
func between(events []history.Event, from, to int64) (some []history.Event, jain float64) {
	grants := map[routine]int{}
	for _, e := range events {
		who := routine{e.Process, e.Goroutine}
		grants[who] += 0 // a goroutine without a grant counts, too
		if from < e.Granted && e.Granted < to {
			some = append(some, e)
			grants[who]++
		}
	}
	return some, history.Jain(slices.Collect(maps.Values(grants)))
}

// rage makes processes storm a server for a time, and for a number of grants for each goroutine, counted from
// when all have begun. It checks their history and the server's log.
func rage(t *testing.T, b *backend.Backend, processes, goroutines int, duration time.Duration, grants int) weather {
	t.Helper()
	queue := queuelog.Follow(b.Server, queuelog.Lock{Name: "a", Key: "holdfast:{a}", Queue: "holdfast:{a}:q"})
	var members []*member
	for range processes {
		members = append(members, enlist(t, os.Args[0], "storm", b.Server.Addr(), strconv.Itoa(goroutines)))
	}
	all := files(members)
	outlast(t, members, goroutines, 0, false)
	from, began, before := history.Now(), time.Now(), lines(t, all)
	time.Sleep(duration)
	// A grant is two lines, the second of which is written at the release.
	for ; lines(t, all)-before < 2*grants*processes*goroutines; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > duration+2*time.Minute {
			t.Errorf("only %d grants in %s\n%s", (lines(t, all)-before)/2, time.Since(began), machine.Report(began))
			break
		}
	}
	to := history.Now()
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
	some, jain := between(events, from, to)
	w := weather{Report: history.Fairness(some), turns: turns(events)}
	w.Jain = jain
	for _, e := range some {
		if e.Granted-e.Asked > int64(w.MeanWait)*3/2 {
			w.long++
		}
	}
	scripts, renewals := sent(t, members)
	w.scripts = float64(scripts-renewals) / float64(max(w.turns, 1))
	t.Logf("%d processes of %d goroutines, %s: %d grants, in %d turns with those before; %d out of turn; mean wait %s, longest %s, %.2f of the mean, %d above 1.5; Jain %.3f; %.2f scripts a turn, and %.2f renewals",
		processes, goroutines, duration.Round(time.Millisecond), w.Grants, w.turns, len(found.Passed), w.MeanWait.Round(time.Microsecond), w.LongestWait.Round(time.Microsecond),
		float64(w.LongestWait)/float64(w.MeanWait), w.long, w.Jain, w.scripts, float64(renewals)/float64(max(w.turns, 1)))
	return w
}

// inTurn is backend.EachRealInTurn in a soak, which judges times, and backend.EachReal otherwise.
func inTurn(t *testing.T, f func(t *testing.T, b *backend.Backend)) {
	if soak.Long() {
		backend.EachRealInTurn(t, f)
		return
	}
	backend.EachReal(t, f)
}

// Fault: Eight processes of 16 goroutines want one lock. Holds never overlap, fences rise, nobody in the queue is
// overtaken, and all get equally many turns.
func TestStorm(t *testing.T) {
	inTurn(t, func(t *testing.T, b *backend.Backend) {
		const processes, goroutines = 8, 16
		w := rage(t, b, processes, goroutines, soak.Duration(t), 16)
		if w.Jain < 0.95 {
			t.Errorf("Jain's index of fairness is %.3f", w.Jain)
		}
		// This is judged only in a soak: if the machine stalls in the middle of a turn, those that the turn
		// should have served wait for another round.
		if soak.Long() && w.long > 0 {
			t.Errorf("%d of %d waits were more than 1.5 times the mean of %s", w.long, w.Grants, w.MeanWait)
		}
		b.Cleaned(t)
	})
}

// Waiting costs the server nothing: each turn takes the same number of commands, however many processes wait.
//
// Bug: Waiting costs the server commands: the more wait, the more a turn takes.
func TestNobodyPolls(t *testing.T) {
	inTurn(t, func(t *testing.T, b *backend.Backend) {
		// Processes that are held up renew their claims, and look when the claims of others have ended.
		machine.Undisturbed(t, func() error {
			// Only with many grants do the scripts that a process sends when it begins and ends hardly count.
			few := rage(t, b, 2, 4, time.Second, 64)
			many := rage(t, b, 8, 4, time.Second, 32)
			if many.scripts > 1.25*few.scripts+0.25 {
				return fmt.Errorf("%.2f scripts a turn with 8 processes, %.2f with 2", many.scripts, few.scripts)
			}
			return nil
		})
	})
}
