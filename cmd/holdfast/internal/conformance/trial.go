package conformance

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfastgoredis"
)

// trial is one run of a scenario: a lock, clients, and Holdfast's own, which reaches the server directly.
type trial struct {
	ctx     context.Context
	cancel  context.CancelFunc
	cfg     Config
	feature string // what the scenario is about; empty for mutexes
	name    string // of the lock
	key     string // of the lock
	queue   string // the key of the lock's queue
	network *way
	rdb     *redis.Client
	own     *holdfast.Client
	lock    *holdfast.Lock // of a read-write lock, the writer; of a semaphore, one permit
	reader  *holdfast.Lock // of a read-write lock
	clients []*client
	lease   *holdfast.Lease // the latest of Holdfast's
	broken  error           // why there can be no verdict

	mu    sync.Mutex
	began time.Time
	said  []string
}

// long is the TTL of leases that must not end within a scenario.
const long = 5 * time.Minute

func newTrial(ctx context.Context, cfg Config, server string, s scenario) (*trial, error) {
	name := "conformance-" + strings.ToLower(rand.Text()[:10]) + "-" + s.name
	t := &trial{cfg: cfg, feature: s.feature, name: name, began: time.Now()}
	t.key = "holdfast:{" + t.name + "}"
	t.ctx, t.cancel = context.WithCancel(ctx)
	t.rdb = redis.NewClient(&redis.Options{Addr: server})
	var err error
	if t.own, err = holdfastgoredis.New(t.rdb, &holdfast.Config{Identity: "holdfast conformance", Logger: slog.New(slog.DiscardHandler)}); err != nil {
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
	if t.network, err = newWay(server, t.key); err != nil {
		return nil, err
	}
	return t, nil
}

// end ends the processes, and deletes what the scenario has left on the server.
func (t *trial) end() error {
	t.network.close()
	for _, c := range t.clients {
		c.leave()
	}
	t.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if t.lease != nil {
		_ = t.lease.Release(ctx) // most often it is released
	}
	closed := t.own.Close(ctx)
	err := t.rdb.Del(ctx, t.key, t.queue, t.queue+":e").Err()
	return cmp.Or(closed, err, t.rdb.Close())
}

// note adds to the dialogue.
func (t *trial) note(who, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.said) > 100*mostSaid {
		t.said = slices.Clone(t.said[len(t.said)-mostSaid:])
	}
	t.said = append(t.said, fmt.Sprintf("%7.3fs %s %s", time.Since(t.began).Seconds(), who, text))
}

// mostSaid bounds the dialogue that is shown: the end of it, which tells what went wrong.
const mostSaid = 20

func (t *trial) dialogue() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said[max(0, len(t.said)-mostSaid):]
}

// acquire takes the lock for Holdfast.
func (t *trial) acquire() (*holdfast.Lease, error) { return t.take(t.lock) }

// take takes a side of the lock for Holdfast.
func (t *trial) take(lock *holdfast.Lock) (*holdfast.Lease, error) {
	ctx, cancel := context.WithTimeout(t.ctx, t.cfg.Answer)
	defer cancel()
	lease, err := lock.Acquire(ctx)
	if err != nil {
		return nil, problemf("Holdfast does not get the lock: %v", err)
	}
	t.note("holdfast", fmt.Sprintf("has the lock, fence %d", lease.Fence()))
	t.lease = lease
	return lease, nil
}

// release releases Holdfast's lease.
func (t *trial) release(lease *holdfast.Lease) error {
	t.note("holdfast", "releases the lock")
	if err := lease.Release(t.ctx); err != nil {
		return problemf("Holdfast's release: %v", err)
	}
	return nil
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

// waiting waits until that many processes wait for the lock.
func (t *trial) waiting(n int) error {
	return t.until(fmt.Sprintf("%d waiters in the lock's queue", n), func() (bool, error) {
		s, err := t.lock.Status(t.ctx)
		return s.Waiting == n, err
	})
}

// waiter starts a client that waits for the lock, as the nth.
func (t *trial) waiter(n int) (*client, error) {
	c, err := t.start()
	if err == nil {
		err = c.tell("%s %d", t.verb("acquire"), long.Milliseconds())
	}
	if err == nil {
		err = t.waiting(n)
	}
	return c, err
}

// behind acquires the lock for Holdfast, and starts a client that waits for it.
func (t *trial) behind() (*holdfast.Lease, *client, error) {
	lease, err := t.acquire()
	if err != nil {
		return nil, nil, err
	}
	c, err := t.waiter(1)
	return lease, c, err
}

// until calls is until it returns true, for at most cfg.Answer.
func (t *trial) until(what string, is func() (bool, error)) error {
	for began := time.Now(); ; {
		switch done, err := is(); {
		case err != nil:
			return problemf("%s: %v", what, err)
		case done:
			return nil
		case time.Since(began) > t.cfg.Answer:
			return problemf("waited %s in vain for %s", t.cfg.Answer, what)
		}
		if err := t.pause(20 * time.Millisecond); err != nil {
			return err
		}
	}
}

func (t *trial) pause(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
}
