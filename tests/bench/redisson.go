package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// The scripts of Redisson's RLock and of its read lock, as in RedissonLock.class and RedissonReadLock.class of redisson 4.7.0,
// with a difference that those for unlocking describe.
var (
	//go:embed redisson_lock.lua
	redissonLock string
	//go:embed redisson_unlock.lua
	redissonUnlock string
	//go:embed redisson_read_lock.lua
	redissonReadLock string
	//go:embed redisson_read_unlock.lua
	redissonReadUnlock string
)

// redissonScript sends a script. There is no reply if it is nil.
type redissonScript func(ctx context.Context, keys, args []string) (reply int64, isNil bool, err error)

func redissonOverGoredis(rdb redis.UniversalClient, source string) redissonScript {
	script := redis.NewScript(source)
	return func(ctx context.Context, keys, args []string) (int64, bool, error) {
		words := make([]any, len(args))
		for i := range args {
			words[i] = args[i]
		}
		n, err := script.Run(ctx, rdb, keys, words...).Int64()
		if errors.Is(err, redis.Nil) {
			return 0, true, nil
		}
		return n, false, err
	}
}

func redissonOverRueidis(c rueidis.Client, source string) redissonScript {
	script := rueidis.NewLuaScript(source)
	return func(ctx context.Context, keys, args []string) (int64, bool, error) {
		n, err := script.Exec(ctx, c, keys, args).AsInt64()
		if rueidis.IsRedisNil(err) {
			return 0, true, nil
		}
		return n, false, err
	}
}

// redissonHolders counts holders: each is a client and a thread of it.
type redissonHolders struct{ handles atomic.Int64 }

func (h *redissonHolders) next() string {
	return fmt.Sprintf("%08x-0000-4000-8000-000000000000:%d", os.Getpid(), h.handles.Add(1))
}

var redissonTTL = strconv.FormatInt(ttl.Milliseconds(), 10)

// reader sends only the scripts of the read lock: there are no renewals and no subscriptions, and a reader that waits for a
// writer polls.
func (h *redissonHolders) reader(acquire, release redissonScript) func(name string) lock {
	return func(name string) lock {
		holder := h.next()
		timeouts := "{" + name + "}:" + holder + ":rwlock_timeout"
		lockKeys, lockArgs := []string{name, timeouts}, []string{redissonTTL, holder, holder + ":write"}
		keys, args := []string{name, "redisson_rwlock:{" + name + "}", timeouts, "{" + name + "}"}, []string{"0", holder}
		return &handle{
			take: func(ctx context.Context) error {
				return again(ctx, errTaken, pollInterval, func() error {
					_, ok, err := acquire(ctx, lockKeys, lockArgs)
					if err == nil && !ok {
						return errTaken
					}
					return err
				})
			},
			free: func() error { return redissonReleased(release(context.Background(), keys, args)) },
		}
	}
}

func redissonReleased(_ int64, isNil bool, err error) error {
	if isNil {
		return errNotHeld
	}
	return err
}

func redissonScriptsOverGoredis(j job) (*locker, error) {
	rdb, h := dialGoredis(j.Addrs), &redissonHolders{}
	lockScript, unlockScript := redissonOverGoredis(rdb, redissonLock), redissonOverGoredis(rdb, redissonUnlock)
	return &locker{
		lock: func(name string) lock {
			m := &redissonMutex{
				rdb: rdb, lock: lockScript, unlock: unlockScript,
				keys: []string{name, "redisson_lock__channel:{" + name + "}"}, holder: h.next(),
			}
			return m
		},
		reader: h.reader(redissonOverGoredis(rdb, redissonReadLock), redissonOverGoredis(rdb, redissonReadUnlock)),
		close:  func() { _ = rdb.Close() },
	}, nil
}

func redissonScriptsOverRueidis(j job) (*locker, error) {
	c, err := rueidis.NewClient(rueidisOption(j.Addrs))
	if err != nil {
		return nil, err
	}
	h := &redissonHolders{}
	return &locker{reader: h.reader(redissonOverRueidis(c, redissonReadLock), redissonOverRueidis(c, redissonReadUnlock)), close: c.Close}, nil
}

// redissonMutex waits as RedissonLock.lock does: it asks; subscribes to the lock's channel, and asks again; asks once more
// whenever a message says that the lock is free; and unsubscribes when it has the lock. It does not renew the lock.
type redissonMutex struct {
	rdb          redis.UniversalClient
	lock, unlock redissonScript
	keys         []string // the lock, its channel
	holder       string
	subscription *redis.PubSub // which has no channel between acquires
	heard        <-chan any    // confirmations and messages
}

func (m *redissonMutex) acquire(ctx context.Context) error {
	if _, ok, err := m.try(ctx); ok || err != nil {
		return err
	}
	if err := m.subscribe(ctx); err != nil {
		return err
	}
	defer func() { _ = m.subscription.Unsubscribe(context.Background(), m.keys[1]) }()
	for {
		rest, ok, err := m.try(ctx)
		if ok || err != nil {
			return err
		}
		if err := m.awaitMessage(ctx, rest); err != nil {
			return err
		}
	}
}

// try returns how long the holder's lease lasts if the lock was not acquired.
func (m *redissonMutex) try(ctx context.Context) (rest time.Duration, ok bool, err error) {
	ms, ok, err := m.lock(ctx, m.keys[:1], []string{redissonTTL, m.holder})
	return time.Duration(ms) * time.Millisecond, ok, err
}

func (m *redissonMutex) subscribe(ctx context.Context) error {
	if m.subscription == nil {
		m.subscription = m.rdb.Subscribe(ctx)
		m.heard = m.subscription.ChannelWithSubscriptions()
	}
	if err := m.subscription.Subscribe(ctx, m.keys[1]); err != nil {
		return err
	}
	for {
		select {
		case what := <-m.heard:
			if s, is := what.(*redis.Subscription); is && s.Kind == "subscribe" {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitMessage returns when the lock may be free. Further messages that have arrived tell no more.
func (m *redissonMutex) awaitMessage(ctx context.Context, rest time.Duration) error {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-m.heard:
		for len(m.heard) > 0 {
			<-m.heard
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (m *redissonMutex) release() error {
	return redissonReleased(m.unlock(context.Background(), m.keys, []string{"0", redissonTTL, m.holder}))
}

//go:embed java/Contestant.java
var contestantJava []byte

// jvm says how to run the contestant in Java.
type jvm struct {
	command  []string
	redisson string // its version
	missing  string // why it cannot be run
}

// setUpInterop fetches the pinned libraries with which tests share locks with Java.
const setUpInterop = "../interop/setup.sh"

// findJava compiles java/Contestant.java into a folder. It is not an error if there is no JVM, or if the libraries cannot
// be fetched.
func findJava(ctx context.Context, dir string) (jvm, error) {
	if runtime.GOOS != "linux" { // on other systems, System.nanoTime is not the board's clock
		return jvm{missing: "it shares a clock with other processes only on Linux"}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	setUp := exec.CommandContext(ctx, setUpInterop, "java")
	var said strings.Builder
	setUp.Stderr = &said
	folder, err := setUp.Output()
	reason := strings.TrimSpace(said.String())
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 3 {
		return jvm{missing: reason}, nil
	}
	if err != nil {
		return jvm{}, fmt.Errorf("%s: %w: %s", setUpInterop, err, reason)
	}
	libraries := filepath.Join(strings.TrimSpace(string(folder)), "lib")
	jars, err := filepath.Glob(filepath.Join(libraries, "redisson-*.jar"))
	if err != nil || len(jars) != 1 {
		return jvm{}, fmt.Errorf("%s does not have exactly one redisson-*.jar: %v", libraries, jars)
	}
	path := libraries + "/*"
	source := filepath.Join(dir, "Contestant.java")
	if err := os.WriteFile(source, contestantJava, 0o600); err != nil {
		return jvm{}, err
	}
	if out, err := exec.CommandContext(ctx, "javac", "-d", dir, "-cp", path, source).CombinedOutput(); err != nil {
		return jvm{}, fmt.Errorf("javac: %w: %s", err, out)
	}
	return jvm{
		command:  []string{"java", "-Xmx256m", "-cp", dir + ":" + path, "Contestant"},
		redisson: strings.Replace(strings.TrimSuffix(filepath.Base(jars[0]), ".jar"), "-", " ", 1),
	}, nil
}
