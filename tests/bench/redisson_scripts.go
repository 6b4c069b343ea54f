package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// The two scripts of Redisson's read lock, as in RedissonReadLock.class of redisson 4.7.0, with a difference that the
// second describes.
var (
	//go:embed redisson_read_lock.lua
	redissonReadLock string
	//go:embed redisson_read_unlock.lua
	redissonReadUnlock string
)

// redissonScripts sends only the scripts of Redisson's read lock: there are no renewals and no subscriptions, and a reader
// that waits for a writer polls. Over go-redis it also has Redisson's RLock.
type redissonScripts struct {
	lockScript   func(ctx context.Context, keys, args []string) error // a nil reply is an error for which isNil is true
	unlockScript func(ctx context.Context, keys, args []string) error
	isNil        func(error) bool
	mutex        func(name string, handle int64) lock
	end          func()

	handles atomic.Int64
}

func (s *redissonScripts) lock(name string) lock { return s.mutex(name, s.handles.Add(1)) }

func (s *redissonScripts) writer(string) lock { panic("bench: these scripts are the readers'") }

// reader names keys and holders as Redisson does: a holder is a client and a thread of it.
func (s *redissonScripts) reader(name string) lock {
	holder := fmt.Sprintf("%08x-0000-4000-8000-000000000000:%d", os.Getpid(), s.handles.Add(1))
	timeouts := "{" + name + "}:" + holder + ":rwlock_timeout"
	return &redissonReader{
		s:        s,
		lockKeys: []string{name, timeouts},
		lockArgs: []string{strconv.FormatInt(ttl.Milliseconds(), 10), holder, holder + ":write"},
		keys:     []string{name, "redisson_rwlock:{" + name + "}", timeouts, "{" + name + "}"},
		args:     []string{"0", holder},
	}
}

func (s *redissonScripts) close() { s.end() }

type redissonReader struct {
	s                  *redissonScripts
	lockKeys, lockArgs []string
	keys, args         []string
}

func (r *redissonReader) acquire(ctx context.Context) error {
	for {
		err := r.s.lockScript(ctx, r.lockKeys, r.lockArgs)
		if r.s.isNil(err) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

var errNotHeld = errors.New("the lock is not held")

func (r *redissonReader) release() error {
	err := r.s.unlockScript(context.Background(), r.keys, r.args)
	if r.s.isNil(err) {
		return errNotHeld
	}
	return err
}

func redissonScriptsOverGoredis(j job) (locker, error) {
	rdb := dialGoredis(j.Addrs)
	send := func(source string) func(context.Context, []string, []string) error {
		script := redis.NewScript(source)
		return func(ctx context.Context, keys, args []string) error {
			words := make([]any, len(args))
			for i := range args {
				words[i] = args[i]
			}
			return script.Run(ctx, rdb, keys, words...).Err()
		}
	}
	return &redissonScripts{
		lockScript: send(redissonReadLock), unlockScript: send(redissonReadUnlock),
		isNil: func(err error) bool { return errors.Is(err, redis.Nil) },
		mutex: func(name string, handle int64) lock { return newRedissonMutex(rdb, name, handle) },
		end:   func() { _ = rdb.Close() },
	}, nil
}

func redissonScriptsOverRueidis(j job) (locker, error) {
	c, err := rueidis.NewClient(rueidisOption(j.Addrs))
	if err != nil {
		return nil, err
	}
	send := func(source string) func(context.Context, []string, []string) error {
		script := rueidis.NewLuaScript(source)
		return func(ctx context.Context, keys, args []string) error {
			return script.Exec(ctx, c, keys, args).Error()
		}
	}
	return &redissonScripts{
		lockScript: send(redissonReadLock), unlockScript: send(redissonReadUnlock),
		isNil: rueidis.IsRedisNil,
		end:   c.Close,
	}, nil
}
