package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/format"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/history"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo/worker"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/standstill"
)

// How long the parts of the second act take, besides the accidents.
const (
	workTime    = 1500 * time.Millisecond // before, between and after the accidents
	restartTime = 700 * time.Millisecond  // from a takeover until the killed worker is started again
	stallTime   = 200 * time.Millisecond  // from a holder's stall to its accident: this, and up to twice more
	sleepTime   = 500 * time.Millisecond  // from a takeover until the paused worker is woken
)

// director makes the demo happen, and records it.
type director struct {
	cfg       Config
	narrator  *narrator
	processes *processes
	history   history.History
	began     history.Instant
	rng       *rand.Rand
	ending    map[int]bool // the workers that are to end
}

func newDirector(cfg Config, n *narrator, p *processes) *director {
	return &director{
		cfg:       cfg,
		narrator:  n,
		processes: p,
		history:   history.History{Pauses: canPause, Locked: !cfg.NoLock},
		began:     history.Now(),
		rng:       rand.New(rand.NewPCG(cfg.Seed, 0)),
		ending:    map[int]bool{},
	}
}

// direct directs both acts.
func (d *director) direct(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { d.history.Stood = standstill.Until(watching) })
	defer watch.Wait()
	defer stop()

	for n := 1; n <= d.cfg.Workers; n++ {
		if err := d.processes.start(n); err != nil {
			return err
		}
	}
	if ready, err := d.awaitAll(ctx, history.Ready, 15*time.Second); err != nil {
		return err
	} else if !ready {
		return errors.New("the worker processes did not start in time")
	}
	if err := d.lottery(ctx); err != nil || d.cfg.NoLock {
		return err
	}
	return d.ledger(ctx)
}

// lottery is the first act.
func (d *director) lottery(ctx context.Context) error {
	d.narrator.lottery(d.cfg)
	d.processes.orderAll(worker.DrawLottery)
	_, err := d.awaitAll(ctx, history.Finished, 10*time.Second)
	return err
}

// ledger is the second act: all workers work, and two of them have accidents.
func (d *director) ledger(ctx context.Context) error {
	d.narrator.ledger(&d.history, d.cfg.Workers)
	d.processes.orderAll(worker.KeepLedger)
	if err := d.wait(ctx, workTime); err != nil {
		return err
	}
	accidents := []func(context.Context) error{d.killHolder, d.pauseHolder}
	if !canPause {
		accidents = accidents[:1]
	}
	for _, accident := range accidents {
		if err := accident(ctx); err != nil {
			return err
		}
		if err := d.wait(ctx, workTime); err != nil {
			return err
		}
	}
	if !canPause {
		d.narrator.sayf("this system cannot pause a process: that part is left out")
	}
	d.processes.orderAll(worker.Stop)
	_, err := d.awaitAll(ctx, history.Finished, 5*time.Second)
	return err
}

// killHolder kills a worker that holds the lock, and starts it again after another has taken over.
func (d *director) killHolder(ctx context.Context) error {
	victim, err := d.stallWorker(ctx)
	if err != nil || victim == 0 {
		return err
	}
	d.narrator.sayf("%s to worker %d, which holds the lock in the middle of its work", d.narrator.Red("kill -9"), victim)
	d.ending[victim] = true
	killed := d.record(victim, history.Killed)
	if err := d.processes.kill(victim); err != nil {
		return err
	}
	if err := d.awaitTakeover(ctx, killed, victim, ": the dead worker's lease expired"); err != nil {
		return err
	}
	if err := d.wait(ctx, restartTime); err != nil {
		return err
	}
	if d.processes.running[victim] != nil {
		if err := d.awaitOne(ctx, history.Gone, victim); err != nil {
			return err
		}
	}
	delete(d.ending, victim)
	if err := d.processes.start(victim); err != nil {
		return err
	}
	if err := d.awaitOne(ctx, history.Ready, victim); err != nil {
		return err
	}
	d.narrator.sayf("worker %d is started again, as a supervisor would do", victim)
	d.processes.order(victim, worker.KeepLedger)
	return nil
}

// pauseHolder pauses a worker that holds the lock for longer than its lease, and wakes it after another has begun to
// work.
func (d *director) pauseHolder(ctx context.Context) error {
	victim, err := d.stallWorker(ctx)
	if err != nil || victim == 0 {
		return err
	}
	d.narrator.sayf("%s to worker %d: it holds the lock, and sleeps past its lease", d.narrator.Yellow("kill -STOP"), victim)
	paused := d.record(victim, history.Paused)
	if err := d.processes.pause(victim); err != nil {
		return err
	}
	if err := d.awaitTakeover(ctx, paused, victim, ", and the ledger notes its fence"); err != nil {
		return err
	}
	if err := d.wait(ctx, sleepTime); err != nil {
		return err
	}
	d.processes.order(victim, worker.GoOn) // the first thing that it reads when it wakes
	d.record(victim, history.Resumed)
	if err := d.processes.resume(victim); err != nil {
		return err
	}
	d.narrator.sayf("%s to worker %d: it wakes up, and believes it has the lock", d.narrator.Yellow("kill -CONT"), victim)
	_, err = d.await(ctx, 5*time.Second, func(e history.Event) bool {
		if e.Worker != victim {
			return false
		}
		switch {
		case e.Kind == history.Woke && e.Lost:
			d.narrator.sayf("  it asks its lease: %s", d.narrator.Green(e.Text))
		case e.Kind == history.Woke:
			d.narrator.sayf("  it asks its lease: %s", d.narrator.Red("still held"))
		case e.Kind == history.Wrote && e.Late && e.Refused:
			d.narrator.sayf("  it writes anyway: %s, fence %s is below %s",
				d.narrator.Green("refused"), format.Fence(e.Fence), format.Fence(e.Highest))
			return true
		case e.Kind == history.Wrote && e.Late:
			d.narrator.sayf("  it writes anyway: %s", d.narrator.Red("accepted"))
			return true
		}
		return false
	})
	return err
}

// stallWorker makes a worker stop in the middle of its work while it holds the lock. It returns 0 if that does not
// happen in time.
func (d *director) stallWorker(ctx context.Context) (victim int, err error) {
	victim = 1 + d.rng.IntN(d.cfg.Workers)
	d.processes.order(victim, worker.Stall)
	stalled, err := d.await(ctx, 5*time.Second, func(e history.Event) bool { return e.Kind == history.Stalled && e.Worker == victim })
	if err != nil || !stalled {
		return 0, err
	}
	return victim, d.wait(ctx, stallTime+time.Duration(d.rng.Int64N(int64(2*stallTime))))
}

// awaitTakeover waits until another worker has the lock, and has read the ledger.
func (d *director) awaitTakeover(ctx context.Context, since history.Instant, victim int, why string) error {
	var granted history.Event
	_, err := d.await(ctx, 4*ttl, func(e history.Event) bool {
		if e.Worker == victim || e.At < since {
			return false
		}
		if e.Kind == history.Granted && granted.At == 0 {
			granted = e
			d.narrator.sayf("worker %d takes over after %s%s", e.Worker, d.narrator.Green(format.Duration(e.At.Sub(since))), why)
		}
		return e.Kind == history.Read
	})
	return err
}

// record records what the demo is about to do to a worker.
func (d *director) record(n int, k history.Kind) history.Instant {
	e := history.Event{At: history.Now(), Worker: n, Kind: k, Lock: history.Ledger}
	d.history.Add(e)
	return e.At
}

// wait lets time pass.
func (d *director) wait(ctx context.Context, t time.Duration) error {
	_, err := d.await(ctx, t, func(history.Event) bool { return false })
	return err
}

// awaitOne waits up to 5 s for an event of a kind from one worker.
func (d *director) awaitOne(ctx context.Context, k history.Kind, n int) error {
	_, err := d.await(ctx, 5*time.Second, func(e history.Event) bool { return e.Kind == k && e.Worker == n })
	return err
}

// awaitAll waits until every running worker has reported an event of a kind.
func (d *director) awaitAll(ctx context.Context, k history.Kind, limit time.Duration) (bool, error) {
	reported := map[int]bool{}
	return d.await(ctx, limit, func(e history.Event) bool {
		if e.Kind == k {
			reported[e.Worker] = true
		}
		return len(reported) == len(d.processes.running)
	})
}

// await handles events until done returns true. After the limit it returns false.
func (d *director) await(ctx context.Context, limit time.Duration, done func(history.Event) bool) (bool, error) {
	limit = min(limit, d.began.Add(maxTime).Sub(history.Now()))
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	frames := time.NewTicker(100 * time.Millisecond)
	defer frames.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-timeout.C:
			return false, nil
		case <-frames.C:
			d.narrator.Redraw()
		case e := <-d.processes.events:
			if err := d.handle(e); err != nil {
				return false, err
			}
			if done(e) {
				return true, nil
			}
		}
	}
}

// handle handles an event of a worker. Its error, or its end unless that was intended, ends the demo.
func (d *director) handle(e history.Event) error {
	d.history.Add(e)
	switch e.Kind {
	case history.Failed:
		return fmt.Errorf("worker %d: %s", e.Worker, e.Text)
	case history.Gone:
		delete(d.processes.running, e.Worker)
		if !d.ending[e.Worker] {
			return fmt.Errorf("worker %d ended unexpectedly: %s", e.Worker, e.Text)
		}
	case history.Drew:
		d.narrator.winner(e)
	}
	return nil
}

// readRegisters adds to the history what the registers have at the end.
func (d *director) readRegisters(ctx context.Context, rdb redis.UniversalClient) error {
	read := func(lock string) (string, error) {
		text, err := rdb.HGet(ctx, worker.RegisterKey(d.processes.assignment.Prefix, lock), "value").Result()
		if errors.Is(err, redis.Nil) {
			err = nil // nobody wrote
		}
		return text, err
	}
	names, err := read(history.Lottery)
	if err != nil {
		return err
	}
	d.history.Winners = worker.SplitNames(names)
	total, err := read(history.Ledger)
	if err != nil || total == "" {
		return err
	}
	d.history.Total, err = strconv.Atoi(total)
	return err
}
