package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

// trial is one run of a scenario, with a lock, clients, and Holdfast's own client, which reaches the server directly.
//
// Its methods, and those of client, end the scenario by a panic if they fail: see failf.
type trial struct {
	*kit
	ctx     context.Context
	cancel  context.CancelFunc
	feature string // the scenario's feature; "" for mutexes
	name    string // of the lock
	key     string // of the lock
	queue   string // the key of the lock's queue
	network *way
	rdb     *redis.Client
	own     *holdfast.Client
	lock    *holdfast.Lock // of a read-write lock, the writer; of a semaphore, one permit
	reader  *holdfast.Lock // of a read-write lock
	clients []*client

	began time.Time

	mu    sync.Mutex
	said  []string        // the dialogue
	lease *holdfast.Lease // the latest lease of Holdfast's client
}

// failure is the value of a scenario's panic.
type failure struct{ error }

// failf ends a scenario with a message that says what the client did wrong.
func failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// check ends a scenario if err is not nil.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// caught runs a scenario, or a part of it in another goroutine, and returns the error with which failf or check ended it.
func caught(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

// reply returns the server's reply to a command. If that is an error, reply ends the scenario.
func reply[T any](command interface {
	Name() string
	Result() (T, error)
}) T {
	got, err := command.Result()
	if err != nil {
		failf("%s: %v", strings.ToUpper(command.Name()), err)
	}
	return got
}

// The TTLs of leases.
const (
	long   = 5 * time.Minute              // does not pass within a scenario
	short  = 5 * time.Second              // passes within a scenario
	longMs = int(long / time.Millisecond) // for commands
)

func (k *kit) newTrial(ctx context.Context, s scenario) (*trial, error) {
	name := "conformance-" + strings.ToLower(rand.Text()[:10]) + "-" + s.name
	t := &trial{kit: k, feature: s.feature, name: name, key: "holdfast:{" + name + "}", began: time.Now()}
	t.ctx, t.cancel = context.WithCancel(ctx)
	t.rdb = redis.NewClient(&redis.Options{Addr: k.server})
	var err error
	if t.own, err = holdfastgoredis.New(t.rdb, &holdfast.Config{Identity: "conformance", Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return nil, err
	}
	switch t.feature {
	case rwmutex:
		rw := t.own.RWMutex(t.name, holdfast.TTL(long))
		t.lock, t.reader, t.queue = rw.Writer(), rw.Reader(), t.key+":rw"
	case semaphore:
		t.lock, t.queue = t.own.Semaphore(t.name, permits, holdfast.TTL(long)).Permits(1), t.key+":sem"
	default:
		t.lock, t.queue = t.own.Mutex(t.name, holdfast.TTL(long)), t.key+":q"
	}
	if _, err := t.lock.Status(ctx); err != nil {
		return nil, err
	}
	if t.network, err = newWay(k.server, t.key); err != nil {
		return nil, err
	}
	return t, nil
}

// end ends the processes, and deletes the scenario's keys.
func (t *trial) end() error {
	t.network.close()
	for _, c := range t.clients {
		c.leave()
	}
	t.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if t.lease != nil {
		_ = t.lease.Release(ctx) // does nothing if the scenario has released it
	}
	return errors.Join(t.own.Close(ctx), t.rdb.Del(ctx, t.key, t.queue, t.queue+":e").Err(), t.rdb.Close())
}

// note adds a line to the dialogue. Only the end of the dialogue is kept.
func (t *trial) note(who, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said = append(t.said, fmt.Sprintf("%7.3fs %s %s", time.Since(t.began).Seconds(), who, text))
	t.said = t.said[max(0, len(t.said)-20):]
}

// take acquires a side of the lock for Holdfast.
func (t *trial) take(lock *holdfast.Lock) *holdfast.Lease {
	ctx, cancel := context.WithTimeout(t.ctx, t.answer)
	defer cancel()
	lease, err := lock.Acquire(ctx)
	if err != nil {
		failf("Holdfast does not get the lock: %v", err)
	}
	t.note("holdfast", fmt.Sprintf("has the lock, fence %d", lease.Fence()))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lease = lease
	return lease
}

// acquire takes the lock for Holdfast.
func (t *trial) acquire() *holdfast.Lease { return t.take(t.lock) }

// release releases Holdfast's lease.
func (t *trial) release(lease *holdfast.Lease) {
	t.note("holdfast", "releases the lock")
	if err := lease.Release(t.ctx); err != nil {
		failf("Holdfast's release: %v", err)
	}
}

// keepsOutHoldfast checks that Holdfast does not get a side of the lock while a client has the lock.
func (t *trial) keepsOutHoldfast(lock *holdfast.Lock, side string) {
	t.note("holdfast", "tries the lock as a "+side)
	if lease, err := lock.TryAcquire(t.ctx); !errors.Is(err, holdfast.ErrHeld) {
		t.lease = lease
		failf("while a client has the lock, Holdfast's TryAcquire as a %s gets: %v", side, err)
	}
}

// verb returns the command for the lock: for its writer if it is a read-write lock, for a permit if it is a semaphore.
func (t *trial) verb(command string) string {
	switch t.feature {
	case rwmutex:
		command += "-write"
	case semaphore:
		command += "-permit"
	}
	return command
}

// waiting waits until n processes wait for the lock.
func (t *trial) waiting(n int) {
	t.until(fmt.Sprintf("%d waiters in the lock's queue", n), func() bool { return t.status().Waiting == n })
}

// status returns the lock's status, as Holdfast sees it.
func (t *trial) status() holdfast.Status {
	s, err := t.lock.Status(t.ctx)
	if err != nil {
		failf("the lock's state: %v", err)
	}
	return s
}

// waiter starts a client that becomes the nth to wait for the lock.
func (t *trial) waiter(n int) *client {
	c := t.start()
	c.tell("%s %d", t.verb("acquire"), longMs)
	t.waiting(n)
	return c
}

// behind acquires the lock for Holdfast, and starts a client that waits for it.
func (t *trial) behind() (*holdfast.Lease, *client) {
	lease := t.acquire()
	return lease, t.waiter(1)
}

// until calls is repeatedly until it returns true. It fails after the time that an answer may take.
func (t *trial) until(what string, is func() bool) {
	for began := time.Now(); !is(); t.pause(20 * time.Millisecond) {
		if time.Since(began) > t.answer {
			failf("waited %s in vain for %s", t.answer, what)
		}
	}
}

func (t *trial) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.ctx.Done():
		check(context.Cause(t.ctx))
	}
}

// exists reports whether the lock's key exists.
func (t *trial) exists() bool { return reply(t.rdb.Exists(t.ctx, t.key)) > 0 }

// now returns the server's time, in µs.
func (t *trial) now() int64 { return reply(t.rdb.Time(t.ctx)).UnixMicro() }
