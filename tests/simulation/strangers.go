package simulation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
	"github.com/holdfast-go/holdfast/tests/internal/history"
)

// These are the scripts that Redisson 4.7.0 sends for an RLock: to acquire it, to release it and, without a
// lease time, to renew it.
var (
	redissonLock = redis.NewScript(`if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then
redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end;
return redis.call('pttl', KEYS[1]);`)

	redissonUnlock = redis.NewScript(`local val = redis.call('get', KEYS[3]); if val ~= false then return tonumber(val); end;
if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end;
local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1);
if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); redis.call('set', KEYS[3], 0, 'px', ARGV[5]); return 0;
else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return 1; end;`)

	redissonRenew = redis.NewScript(`if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then
redis.call('pexpire', KEYS[1], ARGV[1]); return 1; end; return 0;`)
)

// java is a thread of a program that acquires a name's lock with Redisson.
type java struct {
	w     *World
	rdb   *redis.Client
	key   string
	field string // UUID:THREAD
	calls int
}

// javaProgram is a client of Redisson with one thread. It waits for a notification that the lock is free, or
// until the holder's lease is over by the server's last answer.
func (w *World) javaProgram(i int) {
	n := w.plan.names[i]
	host := -1 - i
	r := random(w.plan.seed, "java", i)
	rdb := w.foreigner(host)
	defer rdb.Close()
	free := make(ears, 1)
	d := drivertest.Of(holdfastgoredis.NewDriver(rdb))
	defer d.Close()
	d.Subscribe(driver.Subscription{
		Channel: "redisson_lock__channel:{" + n.key + "}", Up: free.Up, Down: free.Down, Message: free.Message,
	})
	j := &java{w: w, rdb: rdb, key: n.key, field: fmt.Sprintf("5f0c0000-0000-4000-8000-%012d:57", i)}
	for w.sleepUntil(time.Since(w.begun) + between(r, time.Second, 2*n.every)) {
		e := history.Event{Process: host, Name: n.name, Asked: w.at(time.Now())}
		deadline, ok := j.lock(free)
		if !ok {
			e.GaveUp = w.at(time.Now())
			w.record(e, false)
			continue
		}
		e.Granted, e.Deadline = w.at(time.Now()), w.at(deadline)
		again, renews := chance(r, 30), chance(r, 50)
		if again {
			again, deadline = j.lockAgain(deadline)
		}
		for until := time.Now().Add(min(between(r, n.hold[0], n.hold[1]), 3*time.Minute)); time.Now().Before(until); {
			rest := min(time.Until(until), time.Until(deadline))
			if renews {
				rest = min(rest, foreignTTL/3)
			}
			if !w.sleepUntil(time.Since(w.begun)+rest) || !time.Now().Before(deadline) {
				break
			}
			if renews {
				deadline = j.renew(deadline)
			}
		}
		if again {
			_ = j.unlock()
		}
		e.Released, e.Deadline = w.at(time.Now()), w.at(deadline)
		w.record(e, true)
		w.note(host, 0, "%s: a client of Redisson's held it for %s", n.name, time.Duration(e.Released-e.Granted))
		_ = j.unlock() // otherwise it expires
	}
}

// ears is a Sink that hears that a lock is free, or may have become free.
type ears chan struct{}

func (e ears) Up() { e.Message("") }

func (e ears) Down(error) {}

func (e ears) Message(string) {
	select {
	case e <- struct{}{}:
	default:
	}
}

// lock waits for the lock, and returns the time until which it certainly has it.
func (j *java) lock(free ears) (deadline time.Time, ok bool) {
	for {
		sent := time.Now()
		rest, err := j.run(redissonLock, []string{j.key}, foreignTTL.Milliseconds(), j.field)
		switch {
		case errors.Is(err, redis.Nil):
			return sent.Add(foreignTTL - foreignTTL/50), true
		case err != nil:
			return time.Time{}, false
		}
		timer := time.NewTimer(max(time.Duration(rest), 1) * time.Millisecond)
		select {
		case <-free:
		case <-timer.C:
		case <-j.w.draining:
			timer.Stop()
			return time.Time{}, false
		}
		timer.Stop()
	}
}

// lockAgain acquires the lock that the thread already has, so that it must release it twice.
func (j *java) lockAgain(deadline time.Time) (bool, time.Time) {
	sent := time.Now()
	if _, err := j.run(redissonLock, []string{j.key}, foreignTTL.Milliseconds(), j.field); !errors.Is(err, redis.Nil) {
		return false, deadline
	}
	return true, sent.Add(foreignTTL - foreignTTL/50)
}

func (j *java) renew(deadline time.Time) time.Time {
	sent := time.Now()
	if done, err := j.run(redissonRenew, []string{j.key}, foreignTTL.Milliseconds(), j.field); err != nil || done != 1 {
		return deadline
	}
	return sent.Add(foreignTTL - foreignTTL/50)
}

func (j *java) unlock() error {
	j.calls++
	latched := fmt.Sprintf("redisson_unlock_latch:{%s}:%d", j.key, j.calls)
	_, err := j.run(redissonUnlock, []string{j.key, "redisson_lock__channel:{" + j.key + "}", latched},
		"0", foreignTTL.Milliseconds(), j.field, "publish", 10000)
	if err != nil { // an unlock that arrives late must not end a later hold
		j.field += "0"
	}
	return err
}

func (j *java) run(s *redis.Script, keys []string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return s.Run(ctx, j.rdb, keys, args...).Int64()
}

// foreignTTL is the TTL of a lock of a program that knows only SET.
const foreignTTL = 20 * time.Second

// compareAndDelete is how such programs release a lock.
var compareAndDelete = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

// stranger is a program that shares a name's key.
func (w *World) stranger(i int) {
	if w.plan.names[i].form == redisson {
		w.javaProgram(i)
	} else {
		w.oldProgram(i)
	}
}

// foreigner returns a client of a program without this library.
func (w *World) foreigner(host int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:       "127.0.0.1:0",
		MaxRetries: -1, // a repeated SET would meet its own lock
		Dialer:     func(ctx context.Context, _, _ string) (net.Conn, error) { return w.network.dial(ctx, host) },
	})
}

// oldProgram knows only SET: it polls, does not queue, and knows no fence.
func (w *World) oldProgram(i int) {
	n := w.plan.names[i]
	host := -1 - i
	r := random(w.plan.seed, "stranger", i)
	rdb := w.foreigner(host)
	defer rdb.Close()
	for attempt := 0; w.sleepUntil(time.Since(w.begun) + between(r, time.Second, 2*n.every)); attempt++ {
		ctx, cancel := context.WithTimeout(w.patience, 2*time.Second)
		token := fmt.Sprintf("%d:%d", host, attempt)
		e := history.Event{Process: host, Name: n.name, Asked: w.at(time.Now())}
		sent := time.Now()
		ok, err := rdb.SetNX(ctx, n.key, token, foreignTTL).Result()
		cancel()
		if err != nil || !ok {
			continue
		}
		// The deadline has the allowance for drift that such programs should make, and seldom do.
		deadline := sent.Add(foreignTTL - foreignTTL/50)
		e.Granted, e.Deadline = w.at(time.Now()), w.at(deadline)
		if hold := min(between(r, n.hold[0], n.hold[1]), foreignTTL/2); time.Until(deadline) > hold {
			w.sleepUntil(time.Since(w.begun) + hold)
		}
		e.Released = w.at(time.Now())
		w.record(e, false)
		w.note(host, 0, "%s: a stranger held it for %s", n.name, time.Duration(e.Released-e.Granted))
		ctx, cancel = context.WithTimeout(context.Background(), 2*time.Second)
		_ = compareAndDelete.Run(ctx, rdb, []string{n.key}, token).Err() // otherwise it expires
		cancel()
	}
}
