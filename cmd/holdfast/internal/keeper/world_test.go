package keeper

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// world is a keeper and its parent in virtual time, with a simulated command. It records what happens: "95s TERM" is a TERM 95 s after the
// beginning.
type world struct {
	*Job
	t       *testing.T
	began   time.Time
	parent  net.Conn      // the parent's end of the connection
	ended   chan Event    // Ended
	listens chan struct{} // full while the parent does not listen

	mu     sync.Mutex
	log    []string
	slept  time.Duration // of the machine
	alarms []*virtualAlarm

	sigs    chan os.Signal
	changes []change // for reap
	exited  bool     // the command has ended
	others  []int    // processes that it started
	onTerm  func()
	onKill  func() (denied []int)
}

func inWorld(t *testing.T, spec Spec, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, began: time.Now(), ended: make(chan Event, 1), sigs: make(chan os.Signal, 1), listens: make(chan struct{}, 1)}
		w.onTerm = func() {}
		w.onKill = w.die
		ours, theirs := net.Pipe()
		w.parent = ours
		over := make(chan struct{})
		go func() {
			defer close(over)
			supervise(theirs, w, func(order) (processes, error) { return w, nil })
			theirs.Close()
		}()
		var err error
		w.Job, err = begin(&link{conn: ours, wait: func() error { <-over; return nil }, cleanUp: func(func([]int)) {}}, w, spec)
		must(t, err)
		go w.listen()
		f(w)
		w.onKill = w.die
		ours.Close() // ends what remains
		<-over
		synctest.Wait()
	})
}

func (w *world) listen() {
	for ev := range w.Events() {
		w.listens <- struct{}{}
		<-w.listens
		switch ev.Kind {
		case Stopped:
			w.note("told: stopped by %d", ev.Signal)
		case Losing:
			w.note("told: losing")
		case Overtime:
			w.note("told: overtime")
		case Leftover:
			w.note("told: leftover %v", ev.PIDs)
		case Denied:
			w.note("told: denied %v", ev.PIDs)
		case Ended:
			w.note("told: ended")
			w.ended <- ev
		}
	}
}

func (w *world) at(seconds float64) time.Time {
	return w.began.Add(time.Duration(seconds * float64(time.Second)))
}

// until waits until a time after the beginning, and until everything that is due at that time has happened.
func (w *world) until(seconds float64) {
	time.Sleep(time.Until(w.at(seconds)))
	synctest.Wait()
}

// oversleep makes the machine sleep: only CLOCK_BOOTTIME goes on. Alarms that are due meanwhile ring when it wakes up.
func (w *world) oversleep(d time.Duration) {
	synctest.Wait()
	w.mu.Lock()
	w.slept += d
	alarms := slices.Clone(w.alarms)
	w.mu.Unlock()
	for _, a := range alarms {
		a.again()
	}
	synctest.Wait()
}

func (w *world) elapsed() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.began) + w.slept
}

func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf("%vs %s", w.elapsed().Seconds(), fmt.Sprintf(format, args...))
	w.mu.Lock()
	defer w.mu.Unlock()
	// KILL is repeated at the same instant after the end of each process.
	if !slices.Contains(w.log, line) {
		w.log = append(w.log, line)
	}
}

// happened requires that exactly these things have happened. Things of the same instant may be in any order, because the keeper's actions
// and events reach the log in different ways.
func (w *world) happened(want ...string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	got := slices.Clone(w.log)
	w.mu.Unlock()
	slices.SortFunc(got, inTime)
	slices.SortFunc(want, inTime)
	if !slices.Equal(got, want) {
		w.t.Errorf("what happened:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func inTime(a, b string) int {
	when := func(line string) float64 {
		at, _, _ := strings.Cut(line, "s ")
		seconds, err := strconv.ParseFloat(at, 64)
		if err != nil {
			panic(err)
		}
		return seconds
	}
	switch x, y := when(a), when(b); {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return strings.Compare(a, b)
}

// end requires that the job has ended in this way.
func (w *world) end(want Event) {
	w.t.Helper()
	synctest.Wait()
	want.Kind = Ended
	select {
	case got := <-w.ended:
		if fmt.Sprint(got) != fmt.Sprint(want) {
			w.t.Errorf("ended with %+v, want %+v", got, want)
		}
	default:
		w.t.Error("the job has not ended")
	}
}

// The clock:

func (w *world) now() instant { return instant(w.elapsed()) + 1 }

func (w *world) newAlarm() (alarm, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &virtualAlarm{w: w, c: make(chan os.Signal, 1)}
	w.alarms = append(w.alarms, a)
	return a, nil
}

type virtualAlarm struct {
	w *world
	c chan os.Signal

	mu sync.Mutex
	at instant
	t  *time.Timer
}

func (a *virtualAlarm) rings() <-chan os.Signal { return a.c }

func (a *virtualAlarm) set(at instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = at
	a.wind()
}

// again sets the alarm to the same instant, after the clock has jumped.
func (a *virtualAlarm) again() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wind()
}

func (a *virtualAlarm) wind() {
	if a.t != nil {
		a.t.Stop()
	}
	if a.at == 0 {
		return
	}
	a.t = time.AfterFunc(time.Duration(a.at-a.w.now()), func() {
		select {
		case a.c <- nil:
		default:
		}
	})
}

func (a *virtualAlarm) close() { a.set(0) }

// The processes:

func (w *world) change(c change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = append(w.changes, c)
	select {
	case w.sigs <- os.Interrupt:
	default:
	}
}

func (w *world) exit(code int) { w.change(change{code: code}) }

// die is what KILL does to processes.
func (w *world) die() (denied []int) {
	w.leaves()
	w.mu.Lock()
	exited := w.exited
	w.mu.Unlock()
	if !exited {
		w.change(change{signal: 9})
	}
	return nil
}

func (w *world) commandPID() int           { return 4711 }
func (w *world) changed() <-chan os.Signal { return w.sigs }
func (w *world) release()                  { w.note("runs") }
func (w *world) signal(sig int)            { w.note("signal %d", sig) }
func (w *world) notify()                   { w.note("USR1") }
func (w *world) terminate()                { w.note("TERM"); w.onTerm() }
func (w *world) kill() (denied []int)      { w.note("KILL"); return w.onKill() }
func (w *world) takeTerminal(group int)    { w.note("terminal back") }

func (w *world) reap() []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.changes
	w.changes = nil
	for _, c := range all {
		w.exited = w.exited || !c.stopped
	}
	return all
}

// leaves makes these processes run beside the command.
func (w *world) leaves(pids ...int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.others = pids
}

func (w *world) remaining() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.others)
}

func (w *world) gone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.exited && len(w.others) == 0
}
