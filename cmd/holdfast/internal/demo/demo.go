// Package demo shows locks at work, and checks them: processes compete, one is killed and one is paused, and then their records are
// checked against what locks promise.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/holdfasttest"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/standstill"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// Config says how to run the demo.
type Config struct {
	Workers int
	Seed    uint64 // decides who wins, and who has an accident
	NoLock  bool   // do without the lock, to show what it prevents
	Out     io.Writer
	JSON    bool   // print only the summary, as one JSON object
	Picture string // the file for an animated SVG of what happened; "" for none
}

// Bounds of Config.Workers. A second worker is needed to take over from the first.
const (
	MinWorkers = 2
	MaxWorkers = 32
)

// ttl is the TTL of the demo's locks. It is short so that leases expire soon.
const ttl = 1500 * time.Millisecond

// maxTime bounds the demo. What has not happened by then is missing, and a check fails.
const maxTime = 26 * time.Second

// Run runs the demo. Its error, which has an exit code, is ctx's cause if ctx ended; otherwise it says which checks failed, or what kept
// the demo from running. When Run returns, the demo's processes have ended.
func Run(ctx context.Context, cfg Config) error {
	// Workers die with the thread that started them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	server, err := holdfasttest.NewServer(&holdfasttest.ServerConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		return exitcode.Errorf(exitcode.None, "the embedded server: %w", err)
	}
	defer server.Close()
	shown := cfg.Out
	if cfg.JSON {
		shown = io.Discard
	}
	d := newDirector(ctx, cfg, newScreen(shown), assignment{Addr: server.Addr(), Seed: cfg.Seed, Locked: !cfg.NoLock})
	err = d.direct()
	d.processes.end(d.history.Add)
	if err == nil {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
		defer rdb.Close()
		err = d.readRegisters(rdb)
	}
	if ctx.Err() != nil {
		return exitcode.OfLibrary(context.Cause(ctx)) // other errors only follow from that
	}
	if err != nil {
		return &exitcode.Error{Code: exitcode.None, Err: err}
	}
	s := summarize(cfg, &d.history, Now()-d.began)
	s.show(d.screen)
	if cfg.JSON {
		text, err := output.JSON(s)
		if err == nil {
			_, err = cfg.Out.Write(text)
		}
		if err != nil {
			return exitcode.OfOutput(err)
		}
	}
	if cfg.Picture != "" { // also if a check has failed
		text, err := picture(&d.history)
		if err != nil {
			return &exitcode.Error{Code: exitcode.None, Err: err}
		}
		if err := output.ReplaceFile(cfg.Picture, text); err != nil {
			return &exitcode.Error{Code: exitcode.CannotCreate, Err: err}
		}
	}
	return s.failed()
}

// Times in the second act.
const (
	workTime    = 1500 * time.Millisecond // before, between and after the accidents
	restartTime = 700 * time.Millisecond  // from a takeover until the killed worker is started again
	stallTime   = 200 * time.Millisecond  // from a holder's stall to its accident, at least; at most three times that
	sleepTime   = 500 * time.Millisecond  // from a takeover until the paused worker is woken
	patience    = 5 * time.Second         // limit for what a worker does without delay
)

// director directs the workers, prints what happens, and records it. After the first error, its methods do nothing.
type director struct {
	*screen
	ctx       context.Context
	err       error
	cfg       Config
	processes *processes
	history   History
	began     Instant
	secondAct Instant // when it began
	rng       *rand.Rand
	ending    map[int]bool // the workers whose end is intended
}

func newDirector(ctx context.Context, cfg Config, s *screen, a assignment) *director {
	return &director{
		screen:    s,
		ctx:       ctx,
		cfg:       cfg,
		processes: newProcesses(a),
		history:   History{Pauses: canPause, Locked: !cfg.NoLock},
		began:     Now(),
		rng:       rand.New(rand.NewPCG(cfg.Seed, 0)),
		ending:    map[int]bool{},
	}
}

func (d *director) direct() error {
	watching, stopWatching := context.WithCancel(d.ctx)
	var watch sync.WaitGroup
	watch.Go(func() { d.history.Stood = standstill.Until(watching) })
	defer watch.Wait()
	defer stopWatching()

	d.line(fmt.Sprintf("%s  %d processes, embedded server, lease time %s", d.Bold("Holdfast demo"), d.cfg.Workers, ttl))
	for n := 1; n <= d.cfg.Workers; n++ {
		d.try(func() error { return d.processes.start(n) })
	}
	if !d.awaitAll(Ready, 15*time.Second) {
		d.try(func() error { return errors.New("the worker processes did not start in time") })
	}
	d.lottery()
	if !d.cfg.NoLock {
		d.ledger()
	}
	return d.err
}

// try calls step, unless an earlier step has failed.
func (d *director) try(step func() error) {
	if d.err == nil {
		d.err = step()
	}
}

func (d *director) lottery() {
	title, end := "1  The lottery", "Redis, takes its time, and writes it back: without a lock, draws collide."
	if d.cfg.NoLock {
		title, end = "The lottery, without a lock", "Redis, takes its time, and writes it back, over what others wrote meanwhile."
	}
	d.introduce(title, fmt.Sprintf("%d processes race to draw %d winners from %d entrants. A draw reads a list in",
		d.cfg.Workers, Places, len(entrants)), end)
	d.processes.orderAll(drawLottery)
	d.awaitAll(Finished, 10*time.Second)
}

// ledger is the second act: all workers work, and two of them have accidents.
func (d *director) ledger() {
	d.introduce("2  The ledger, and two accidents", "Again and again, each worker reads a total, adds one, and writes it back.",
		"Each grant has a higher fence than the last; the ledger refuses lower ones.")
	d.secondAct = Now()
	d.sayf("%d workers at work", d.cfg.Workers)
	d.processes.orderAll(keepLedger)
	d.wait(workTime)
	d.killHolder()
	d.wait(workTime)
	if canPause {
		d.pauseHolder()
		d.wait(workTime)
	} else {
		d.sayf("this system cannot pause a process: that part is left out")
	}
	d.processes.orderAll(stop)
	d.awaitAll(Finished, patience)
}

func (d *director) introduce(title string, about ...string) {
	if d.err != nil {
		return
	}
	d.line("")
	d.line(d.Bold(title))
	for _, line := range about {
		d.line(d.Dim("   " + line))
	}
	d.line("")
}

// sayf prints what happens in the second act, and when.
func (d *director) sayf(format string, args ...any) {
	if d.err == nil {
		d.line(fmt.Sprintf("   %s  %s", d.Dim(fmt.Sprintf("%4.1f s", (Now()-d.secondAct).Seconds())), fmt.Sprintf(format, args...)))
	}
}

// killHolder kills a worker that holds the lock, and starts it again after another worker has taken over.
func (d *director) killHolder() {
	victim := d.stallWorker()
	if victim == 0 {
		return
	}
	d.sayf("%s to worker %d, which holds the lock in the middle of its work", d.Red("kill -9"), victim)
	d.ending[victim] = true
	killed := d.record(victim, Killed)
	d.try(func() error { return d.processes.signal(victim, syscall.SIGKILL) })
	d.awaitTakeover(killed, victim, ": the dead worker's lease expired")
	d.wait(restartTime)
	if d.processes.running[victim] != nil {
		d.await(patience, func(e Event) bool { return e.Kind == Gone && e.Worker == victim })
	}
	delete(d.ending, victim)
	d.try(func() error { return d.processes.start(victim) })
	d.await(patience, func(e Event) bool { return e.Kind == Ready && e.Worker == victim })
	d.sayf("worker %d is started again, as a supervisor would do", victim)
	d.processes.order(victim, keepLedger)
}

// pauseHolder pauses a worker that holds the lock until its lease has expired, and wakes it after another worker has begun its work.
func (d *director) pauseHolder() {
	victim := d.stallWorker()
	if victim == 0 {
		return
	}
	d.sayf("%s to worker %d: it holds the lock, and sleeps past its lease", d.Yellow("kill -STOP"), victim)
	paused := d.record(victim, Paused)
	d.try(func() error { return d.processes.signal(victim, terminal.Stop) })
	d.awaitTakeover(paused, victim, ", and the ledger notes its fence")
	d.wait(sleepTime)
	d.processes.order(victim, goOn) // to be read when the worker wakes
	d.record(victim, Resumed)
	d.try(func() error { return d.processes.signal(victim, terminal.Continue) })
	d.sayf("%s to worker %d: it wakes up, and believes it has the lock", d.Yellow("kill -CONT"), victim)
	d.await(patience, func(e Event) bool {
		switch {
		case e.Worker != victim:
		case e.Kind == Woke && e.Lost:
			d.sayf("  it asks its lease: %s", d.Green(e.Text))
		case e.Kind == Woke:
			d.sayf("  it asks its lease: %s", d.Red("still held"))
		case e.Kind == Wrote && e.Late && e.Refused:
			d.sayf("  it writes anyway: %s, fence %s is below %s", d.Green("refused"), Fence(e.Fence), Fence(e.Highest))
			return true
		case e.Kind == Wrote && e.Late:
			d.sayf("  it writes anyway: %s", d.Red("accepted"))
			return true
		}
		return false
	})
}

// stallWorker makes a worker stop in the middle of its work while it holds the lock. It returns 0 if that does not happen in time.
func (d *director) stallWorker() (victim int) {
	victim = 1 + d.rng.IntN(d.cfg.Workers)
	d.processes.order(victim, stall)
	if !d.await(patience, func(e Event) bool { return e.Kind == Stalled && e.Worker == victim }) {
		return 0
	}
	d.wait(stallTime + time.Duration(d.rng.Int64N(int64(2*stallTime))))
	return victim
}

// awaitTakeover waits until another worker has the lock, and has read the ledger.
func (d *director) awaitTakeover(since Instant, victim int, why string) {
	granted := false
	d.await(4*ttl, func(e Event) bool {
		if e.Worker == victim || e.At < since {
			return false
		}
		if e.Kind == Granted && !granted {
			granted = true
			d.sayf("worker %d takes over after %s%s", e.Worker, d.Green(console.Duration(e.At-since)), why)
		}
		return e.Kind == Read
	})
}

// record records what the demo is about to do to worker n.
func (d *director) record(n int, k Kind) Instant {
	e := Event{At: Now(), Worker: n, Kind: k, Lock: Ledger}
	d.history.Add(e)
	return e.At
}

func (d *director) wait(t time.Duration) { d.await(t, func(Event) bool { return false }) }

// awaitAll waits until every running worker has reported an event of a kind.
func (d *director) awaitAll(k Kind, limit time.Duration) bool {
	reported := map[int]bool{}
	return d.await(limit, func(e Event) bool {
		if e.Kind == k {
			reported[e.Worker] = true
		}
		return len(reported) == len(d.processes.running)
	})
}

// await handles events until done returns true, and returns true. After limit it returns false.
func (d *director) await(limit time.Duration, done func(Event) bool) bool {
	timeout := time.NewTimer(min(limit, d.began+maxTime-Now()))
	defer timeout.Stop()
	for d.err == nil {
		select {
		case <-d.ctx.Done():
			d.err = d.ctx.Err()
		case <-timeout.C:
			return false
		case e := <-d.processes.events:
			d.err = d.handle(e)
			if d.err == nil && done(e) {
				return true
			}
		}
	}
	return false
}

// handle records an event of a worker, and prints a draw. It returns an error if the worker has failed, or has ended unexpectedly.
func (d *director) handle(e Event) error {
	d.history.Add(e)
	switch e.Kind {
	case Failed:
		return fmt.Errorf("worker %d: %s", e.Worker, e.Text)
	case Gone:
		delete(d.processes.running, e.Worker)
		if !d.ending[e.Worker] {
			return fmt.Errorf("worker %d ended unexpectedly: %s", e.Worker, e.Text)
		}
	case Drew:
		d.line(fmt.Sprintf("   %2d  %-22s %s", e.Place, e.Winner, d.Dim(fmt.Sprintf("drawn by worker %d", e.Worker))))
	}
	return nil
}

func (d *director) readRegisters(rdb *redis.Client) error {
	names, err := readRegister(d.ctx, rdb, Lottery)
	if err != nil {
		return err
	}
	d.history.Winners = splitNames(names)
	total, err := readRegister(d.ctx, rdb, Ledger)
	if err != nil || total == "" {
		return err
	}
	d.history.Total, err = strconv.Atoi(total)
	return err
}

// screen writes lines, with colors if it is a terminal.
type screen struct {
	console.Styles
	out io.Writer
}

func newScreen(out io.Writer) *screen { return &screen{console.Styles(console.HasStyles(out)), out} }

// line writes a line. It ignores errors: even without a reader, the demo's exit code counts.
func (s *screen) line(text string) { _, _ = io.WriteString(s.out, text+"\n") }
