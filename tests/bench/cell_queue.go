package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/script"
)

const (
	// queueClients is how many processes the queue cell simulates. Each has a channel.
	queueClients = 1000

	// queueClaim is longer than the claims of real waiters, so that a lock lasts until the queue has its next turn.
	queueClaim = 60_000

	// queueChunk is how many cycles of one queue follow each other.
	queueChunk = 50
)

// queueDepths are the numbers of waiters in the queue cell.
var queueDepths = []int{1000, 100_000}

// queueSteps are the scripts that the queue cell measures.
var queueSteps = []string{"release", "enqueue", "look"}

// queueFigure names a figure: a percentile of a script's time.
func queueFigure(step string, depth, percentile int) string {
	return fmt.Sprintf("%s_%d_p%d", step, depth, percentile)
}

// scripts sends the scripts of the mutex as a client does.
type scripts struct {
	rdb  *redis.Client
	used time.Duration // by all scripts so far
}

// openScripts returns a contestant without locks: the cell queue sends the scripts itself.
func openScripts(job) (*locker, error) { return &locker{close: func() {}}, nil }

// run runs a script, and returns how long that took the server. It is an error if the reply does not begin with want.
func (s *scripts) run(ctx context.Context, what script.Script, want string, keys []string, args ...any) (took time.Duration, err error) {
	p := s.rdb.Pipeline()
	reply, stats := p.EvalSha(ctx, what.SHA1, keys, args...), p.Info(ctx, "commandstats")
	if _, err := p.Exec(ctx); err != nil {
		return 0, fmt.Errorf("%s: %w", what.Name, err)
	}
	if !strings.HasPrefix(fmt.Sprint(reply.Val()), want+" ") {
		return 0, fmt.Errorf("%s: %v", what.Name, reply.Val())
	}
	before := s.used
	s.used, err = scriptTime(stats.Val())
	return s.used - before, err
}

// scriptTime reads how long all scripts have taken.
func scriptTime(stats string) (time.Duration, error) {
	var calls, us int64
	_, line, _ := strings.Cut(stats, "cmdstat_evalsha:")
	_, err := fmt.Sscanf(line, "calls=%d,usec=%d,", &calls, &us)
	return time.Duration(us) * time.Microsecond, err
}

// queue fills queues of each depth, and hands their locks on: each cycle is a release, an enqueue and a look. It takes the time
// of each script from the server's statistics. The queues take turns, so that all meet the same disturbances.
func queue(ctx context.Context, _ *locker, j job, _ *board, start func() error) (o outcome, err error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addrs[0]})
	defer rdb.Close()
	server := &scripts{rdb: rdb}
	for _, s := range []script.Script{script.Acquire(), script.Release()} {
		if err := rdb.ScriptLoad(ctx, s.Source).Err(); err != nil {
			return o, err
		}
	}
	channels := make([]string, queueClients)
	for i := range channels {
		channels[i] = "holdfast:c:" + randomToken()
	}
	ears := rdb.Subscribe(ctx, channels...)
	defer ears.Close()
	for range channels {
		if _, err := ears.Receive(ctx); err != nil {
			return o, err
		}
	}
	go func() { // what the server could not send would take its memory
		for range ears.Channel() {
		}
	}()
	var lines []*line
	for _, depth := range queueDepths {
		q := &line{scripts: server, channels: channels, depth: depth, times: map[string][]time.Duration{}}
		if err := q.fill(ctx); err != nil {
			return o, err
		}
		lines = append(lines, q)
	}
	if err := start(); err != nil {
		return o, err
	}
	read := meter()
	began := time.Now()
	for first := true; first || time.Since(began) < j.For; first = false {
		for _, q := range lines {
			if err := q.turn(ctx); err != nil {
				return o, err
			}
			o.Cycles += queueChunk
		}
	}
	o.Took = time.Since(began)
	read(&o)
	o.Figures = figures{}
	for _, q := range lines {
		for step, times := range q.times {
			for _, p := range []int{50, 99} {
				o.Figures[queueFigure(step, q.depth, p)] = percentile(times, float64(p))
			}
		}
	}
	return o, nil
}

// line is a lock that is held, and its queue.
type line struct {
	scripts  *scripts
	channels []string
	depth    int

	holder  queued
	waiters []queued
	made    int // waiters so far
	times   map[string][]time.Duration
}

// queued is a waiter, or a holder that was one.
type queued struct{ token, channel string }

const queueInfo = `{"o":"vm:12345:abcd","h":"vm","p":12345}`

// member is the waiter's entry in the queue, as PROTOCOL.md has it.
func (w queued) member() string {
	return fmt.Sprintf("%s\n%d\n%s\n%s", w.token, queueClaim, w.channel, queueInfo)
}

func randomToken() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(random[:])
}

func (q *line) keys() []string {
	name := fmt.Sprintf("holdfast:{queue-%d}", q.depth)
	return []string{name, name + ":q", "holdfast:fences"}
}

// newWaiter returns one of the next simulated process.
func (q *line) newWaiter() queued {
	q.made++
	return queued{randomToken(), q.channels[q.made%len(q.channels)]}
}

// fill acquires the lock, and has all but one of the waiters in the queue without their scripts. The script of the last one marks
// the lock.
func (q *line) fill(ctx context.Context) error {
	q.holder = q.newWaiter()
	if err := q.acquire(ctx, "w", q.holder, "grant", "granted"); err != nil {
		return err
	}
	now, err := q.scripts.rdb.Time(ctx).Result()
	if err != nil {
		return err
	}
	came := now.UnixMicro() - int64(q.depth)
	for len(q.waiters) < q.depth-1 {
		var some []redis.Z
		for len(some) < 1000 && len(q.waiters) < q.depth-1 {
			w := q.newWaiter()
			came++
			q.waiters = append(q.waiters, w)
			some = append(some, redis.Z{Score: float64(came), Member: w.member()})
		}
		if err := q.scripts.rdb.ZAdd(ctx, q.keys()[1], some...).Err(); err != nil {
			return err
		}
	}
	err = q.enqueue(ctx)
	q.times = map[string][]time.Duration{} // the first of a kind takes longer
	return err
}

// turn hands the lock on some times, and notes how long the scripts took.
func (q *line) turn(ctx context.Context) error {
	for range queueChunk {
		if err := q.release(ctx); err != nil {
			return err
		}
		if err := q.enqueue(ctx); err != nil {
			return err
		}
		if err := q.acquire(ctx, "l", q.waiters[len(q.waiters)/2], "look", "queued"); err != nil {
			return err
		}
	}
	return nil
}

func (q *line) release(ctx context.Context) error {
	took, err := q.scripts.run(ctx, script.Release(), "released", q.keys(), "", q.holder.token, q.holder.member(), "0")
	q.times["release"] = append(q.times["release"], took)
	q.holder, q.waiters = q.waiters[0], q.waiters[1:]
	return err
}

func (q *line) enqueue(ctx context.Context) error {
	w := q.newWaiter()
	q.waiters = append(q.waiters, w)
	return q.acquire(ctx, "w", w, "enqueue", "queued")
}

func (q *line) acquire(ctx context.Context, flag string, w queued, step, want string) error {
	notAfter := time.Now().Add(6 * time.Second).UnixMicro() // the server has this clock
	took, err := q.scripts.run(ctx, script.Acquire(), want, q.keys(), flag, w.token, ttl.Milliseconds(), notAfter, 1, queueInfo, queueClaim, w.channel, "")
	q.times[step] = append(q.times[step], took)
	return err
}
