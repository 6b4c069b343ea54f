package simulation

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/tests/internal/history"
)

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
