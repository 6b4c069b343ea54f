// Naiveworker is a process of a campaign that locks as many programs do: it polls, and the campaign must find
// what it does wrong. The lock is chosen at build time, with -ldflags "-X main.which=NAME".
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/tests/internal/campaign/worker"
)

var which = "correct"

// way is how a lock is acquired and released.
type way struct {
	token   func() string
	take    func(c *client, ctx context.Context, key, token string, ttl time.Duration) (bool, error)
	give    func(c *client, ctx context.Context, key, token string) error
	neverUp bool // Err does not know that leases end
}

// correct is the canonical form: one command to acquire, a script that compares to release.
var correct = way{
	token: rand.Text,
	take: func(c *client, ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
		return c.rdb.SetNX(ctx, key, token, ttl).Result()
	},
	give: func(c *client, ctx context.Context, key, token string) error {
		return c.rdb.Eval(ctx, "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0", []string{key}, token).Err()
	},
}

var ways = map[string]way{
	"correct": correct,
	"exists-then-set": {
		take: func(c *client, ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
			n, err := c.rdb.Exists(ctx, key).Result()
			if err != nil || n > 0 {
				return false, err
			}
			return true, c.rdb.Set(ctx, key, token, ttl).Err()
		},
	},
	"setnx-then-expire": {
		take: func(c *client, ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
			ok, err := c.rdb.SetNX(ctx, key, token, 0).Result()
			if err != nil || !ok {
				return false, err
			}
			return true, c.rdb.PExpire(ctx, key, ttl).Err()
		},
	},
	// As the documentation of SETNX once had it, except for the clocks.
	"getset-client-clocks": {
		take: func(c *client, ctx context.Context, key, _ string, ttl time.Duration) (bool, error) {
			now := time.Now().Add(c.skew)
			mine := strconv.FormatInt(now.Add(ttl).UnixMilli(), 10)
			ok, err := c.rdb.SetNX(ctx, key, mine, 10*ttl).Result()
			if err != nil || ok {
				return ok, err
			}
			until, err := c.rdb.Get(ctx, key).Int64()
			if err != nil || until > now.UnixMilli() {
				return false, ignoreNil(err)
			}
			before, err := c.rdb.Do(ctx, "getset", key, mine).Int64()
			return err == nil && before == until, ignoreNil(err)
		},
		give: func(c *client, ctx context.Context, key, _ string) error { return c.rdb.Del(ctx, key).Err() },
	},
	"get-then-del": {
		give: func(c *client, ctx context.Context, key, token string) error {
			now, err := c.rdb.Get(ctx, key).Result()
			if err != nil || now != token {
				return ignoreNil(err)
			}
			return c.rdb.Del(ctx, key).Err()
		},
	},
	"plain-del": {
		give: func(c *client, ctx context.Context, key, _ string) error { return c.rdb.Del(ctx, key).Err() },
	},
	// Two processes that ask in the same millisecond both believe that the lock is their own.
	"millisecond-tokens": {
		token: func() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) },
		take: func(c *client, ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
			ok, err := c.rdb.SetNX(ctx, key, token, ttl).Result()
			if err != nil || ok {
				return ok, err
			}
			now, err := c.rdb.Get(ctx, key).Result()
			return now == token, ignoreNil(err)
		},
	},
	"never-told": {neverUp: true},
}

func ignoreNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

type client struct {
	way
	rdb  *redis.Client
	skew time.Duration // of this process's clock
}

func main() {
	w, ok := ways[which]
	if !ok {
		fmt.Fprintf(os.Stderr, "naiveworker: there is no lock %q\n", which)
		os.Exit(2)
	}
	if w.token == nil {
		w.token = correct.token
	}
	if w.take == nil {
		w.take = correct.take
	}
	if w.give == nil {
		w.give = correct.give
	}
	worker.Main(func(s worker.Setting) (worker.Locks, error) {
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr, ReadTimeout: s.CommandTimeout, MaxRetries: -1})
		return &client{w, rdb, time.Duration(os.Getpid()%3) * 300 * time.Millisecond}, nil
	})
}

func (c *client) Close(context.Context) error { return c.rdb.Close() }

func (c *client) Acquire(ctx context.Context, w worker.Want) (worker.Lease, error) {
	key := cmp.Or(w.Key, "holdfast:{"+w.Name+"}")
	for {
		token, sent := c.token(), time.Now()
		ok, err := c.take(c, ctx, key, token, w.TTL)
		if err != nil {
			_ = c.give(c, context.WithoutCancel(ctx), key, token)
			return nil, err
		}
		if ok {
			return c.lease(ctx, key, token, sent.Add(w.TTL-w.TTL/100-2*time.Millisecond))
		}
		if w.Try {
			return nil, errors.New("held")
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *client) lease(ctx context.Context, key, token string, deadline time.Time) (worker.Lease, error) {
	l := &lease{c: c, key: key, token: token, deadline: deadline}
	l.ctx, l.cancel = context.WithDeadline(context.Background(), deadline)
	n, err := c.rdb.Incr(ctx, "holdfast:fences").Result()
	if err == nil {
		err = l.Err()
	}
	if err != nil {
		_ = l.Release(ctx)
		return nil, err
	}
	l.fence = uint64(n)
	return l, nil
}

type lease struct {
	c          *client
	key, token string
	fence      uint64
	deadline   time.Time
	ctx        context.Context
	cancel     context.CancelFunc
}

func (l *lease) Fence() uint64 { return l.fence }

func (l *lease) Err() error {
	if !l.c.neverUp && !time.Now().Before(l.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

func (l *lease) Done() <-chan struct{} { return l.ctx.Done() }

// Deadline returns a time far away: a holder that is never told believes in its lease until then.
func (l *lease) Deadline() time.Time {
	if l.c.neverUp {
		return l.deadline.Add(time.Hour)
	}
	return l.deadline
}

func (l *lease) Extend(context.Context, time.Duration) error { return nil }

func (l *lease) Release(ctx context.Context) error {
	defer l.cancel()
	return l.c.give(l.c, context.WithoutCancel(ctx), l.key, l.token)
}
