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
)

// How long the parts of the second act take, beside what the accidents take.
const (
	calm     = 1500 * time.Millisecond // of work between two accidents
	mourning = 700 * time.Millisecond  // until a killed worker is started again
	agony    = 200 * time.Millisecond  // at least, from the stall of a holder to its accident; less than thrice that
	slumber  = 500 * time.Millisecond  // for which a paused worker sleeps on when another has the lock
)

// director makes happen what the demo shows, and records it.
type director struct {
	cfg     Config
	stage   *stage
	crew    *crew
	history history
	begun   instant
	rng     *rand.Rand
	missing map[int]bool // workers whose end was ordered
}

func newDirector(cfg Config, s *stage, c *crew) *director {
	return &director{
		cfg:     cfg,
		stage:   s,
		crew:    c,
		history: history{pauses: canPause, locked: !cfg.NoLock},
		begun:   now(),
		rng:     rand.New(rand.NewPCG(cfg.Seed, 0)),
		missing: map[int]bool{},
	}
}

// play plays both acts.
func (d *director) play(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { d.history.stood = standstill(watching) })
	defer watch.Wait()
	defer stop()

	for worker := 1; worker <= d.cfg.Workers; worker++ {
		if err := d.crew.start(worker); err != nil {
			return err
		}
	}
	if ready, err := d.all(ctx, isReady, 15*time.Second); err != nil {
		return err
	} else if !ready {
		return errors.New("the worker processes did not start in time")
	}
	if err := d.playLottery(ctx); err != nil || d.cfg.NoLock {
		return err
	}
	return d.playLedger(ctx)
}

// standstill returns for how long in all this process stood still until ctx ended, and with it, most likely,
// the whole machine.
func standstill(ctx context.Context) (all time.Duration) {
	const step, noticeable = 50 * time.Millisecond, 250 * time.Millisecond
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return all
		case <-time.After(step):
		}
		now := time.Now()
		if late := now.Sub(last) - step; late > noticeable {
			all += late
		}
		last = now
	}
}

func (d *director) playLottery(ctx context.Context) error {
	d.stage.lottery(d.cfg)
	d.crew.orderAll(drawLottery)
	_, err := d.all(ctx, isRested, 10*time.Second)
	return err
}

// playLedger keeps all workers working while accidents happen to two of them.
func (d *director) playLedger(ctx context.Context) error {
	d.stage.ledger(&d.history, d.cfg.Workers)
	d.crew.orderAll(keepLedger)
	if err := d.pass(ctx, calm); err != nil {
		return err
	}
	if err := d.killHolder(ctx); err != nil {
		return err
	}
	if err := d.pass(ctx, calm); err != nil {
		return err
	}
	if canPause {
		if err := d.pauseHolder(ctx); err != nil {
			return err
		}
		if err := d.pass(ctx, calm); err != nil {
			return err
		}
	} else {
		d.stage.say("this system cannot pause a process: that part is left out")
	}
	d.crew.orderAll(rest)
	_, err := d.all(ctx, isRested, 5*time.Second)
	return err
}

// killHolder kills a worker that holds the lock, and starts it again when
// another has taken over.
func (d *director) killHolder(ctx context.Context) error {
	victim, err := d.stallSomebody(ctx)
	if err != nil || victim == 0 {
		return err
	}
	d.stage.say("%s to worker %d, which holds the lock in the middle of its work", d.stage.red("kill -9"), victim)
	d.missing[victim] = true
	killed := d.note(victim, wasKilled)
	if err := d.crew.kill(victim); err != nil {
		return err
	}
	if err := d.awaitTakeover(ctx, killed, victim, ": the dead worker's lease ran out"); err != nil {
		return err
	}
	if err := d.pass(ctx, mourning); err != nil {
		return err
	}
	if d.crew.members[victim] != nil {
		if _, err := d.until(ctx, 5*time.Second, func(e event) bool { return e.Kind == wasBuried && e.Worker == victim }); err != nil {
			return err
		}
	}
	delete(d.missing, victim)
	if err := d.crew.start(victim); err != nil {
		return err
	}
	if _, err := d.until(ctx, 5*time.Second, func(e event) bool { return e.Kind == isReady && e.Worker == victim }); err != nil {
		return err
	}
	d.stage.say("worker %d is started again, as a supervisor would do", victim)
	d.crew.order(victim, keepLedger)
	return nil
}

// pauseHolder stops a worker that holds the lock for longer than its lease, and
// wakes it when another has begun to work.
func (d *director) pauseHolder(ctx context.Context) error {
	victim, err := d.stallSomebody(ctx)
	if err != nil || victim == 0 {
		return err
	}
	d.stage.say("%s to worker %d: it holds the lock, and sleeps past its lease", d.stage.yellow("kill -STOP"), victim)
	paused := d.note(victim, wasPaused)
	if err := d.crew.pause(victim); err != nil {
		return err
	}
	if err := d.awaitTakeover(ctx, paused, victim, ", and the ledger notes its fence"); err != nil {
		return err
	}
	if err := d.pass(ctx, slumber); err != nil {
		return err
	}
	d.crew.order(victim, goOn) // the first that it sees
	d.note(victim, wasResumed)
	if err := d.crew.resume(victim); err != nil {
		return err
	}
	d.stage.say("%s to worker %d: it wakes up, and thinks it holds the lock", d.stage.yellow("kill -CONT"), victim)
	_, err = d.until(ctx, 5*time.Second, func(e event) bool {
		if e.Worker != victim {
			return false
		}
		switch {
		case e.Kind == isWoken && e.Lost:
			d.stage.say("  it asks its lease: %s", d.stage.green(e.Text))
		case e.Kind == isWoken:
			d.stage.say("  it asks its lease: %s", d.stage.red("still held"))
		case e.Kind == isWrite && e.Late && e.Refused:
			d.stage.say("  it writes all the same: %s, fence …%06d is below …%06d",
				d.stage.green("refused"), e.Fence%1e6, e.Mark%1e6)
			return true
		case e.Kind == isWrite && e.Late:
			d.stage.say("  it writes all the same: %s", d.stage.red("accepted"))
			return true
		}
		return false
	})
	return err
}

// stallSomebody makes a worker stay in the middle of its work, with the lock. It
// returns 0 if that did not happen in time.
func (d *director) stallSomebody(ctx context.Context) (worker int, err error) {
	worker = 1 + d.rng.IntN(d.cfg.Workers)
	d.crew.order(worker, stall)
	stalled, err := d.until(ctx, 5*time.Second, func(e event) bool { return e.Kind == isStall && e.Worker == worker })
	if err != nil || !stalled {
		return 0, err
	}
	return worker, d.pass(ctx, agony+time.Duration(d.rng.Int64N(int64(2*agony))))
}

// awaitTakeover waits until another worker has the lock and has read the ledger.
func (d *director) awaitTakeover(ctx context.Context, from instant, victim int, why string) error {
	var granted event
	_, err := d.until(ctx, 4*ttl, func(e event) bool {
		if e.Worker == victim || e.At < from {
			return false
		}
		if e.Kind == isGrant && granted.At == 0 {
			granted = e
			d.stage.say("worker %d takes over after %s%s", e.Worker, d.stage.green(short(e.At.sub(from))), why)
		}
		return e.Kind == isRead
	})
	return err
}

// note records what the demo does to a worker, right before it does it.
func (d *director) note(worker int, k kind) instant {
	e := event{At: now(), Worker: worker, Kind: k, Lock: ledger}
	d.history.events = append(d.history.events, e)
	return e.At
}

// pass lets time pass.
func (d *director) pass(ctx context.Context, t time.Duration) error {
	_, err := d.until(ctx, t, func(event) bool { return false })
	return err
}

// all waits until every worker that is there has reported an event of that kind.
func (d *director) all(ctx context.Context, k kind, bound time.Duration) (bool, error) {
	reported := map[int]bool{}
	return d.until(ctx, bound, func(e event) bool {
		if e.Kind == k {
			reported[e.Worker] = true
		}
		return len(reported) == len(d.crew.members)
	})
}

// until records what is reported until done says so, or so much time has passed
// that it returns false.
func (d *director) until(ctx context.Context, bound time.Duration, done func(event) bool) (bool, error) {
	bound = min(bound, d.begun.add(longest).sub(now()))
	timeout := time.NewTimer(bound)
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
			d.stage.redraw()
		case e := <-d.crew.events:
			if err := d.record(e); err != nil {
				return false, err
			}
			if done(e) {
				return true, nil
			}
		}
	}
}

// record adds an event to the history. A worker's error, and its end unless that
// was ordered, end the demo.
func (d *director) record(e event) error {
	d.history.events = append(d.history.events, e)
	switch e.Kind {
	case isError:
		return fmt.Errorf("worker %d: %s", e.Worker, e.Text)
	case wasBuried:
		d.crew.bury(e.Worker)
		if !d.missing[e.Worker] {
			return fmt.Errorf("worker %d ended by itself: %s", e.Worker, e.Text)
		}
	case isDraw:
		d.stage.winner(e)
	}
	return nil
}

// readRegisters adds to the history what the registers hold at the end.
func (d *director) readRegisters(ctx context.Context, rdb redis.UniversalClient) error {
	read := func(lock string) (string, error) {
		text, err := rdb.HGet(ctx, dataKey(d.crew.brief.Prefix, lock), "value").Result()
		if errors.Is(err, redis.Nil) {
			err = nil // nobody wrote
		}
		return text, err
	}
	names, err := read(lottery)
	if err != nil {
		return err
	}
	d.history.winners = split(names)
	total, err := read(ledger)
	if err != nil || total == "" {
		return err
	}
	d.history.total, err = strconv.Atoi(total)
	return err
}
