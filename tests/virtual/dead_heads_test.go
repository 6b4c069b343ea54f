package virtual

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// mortal is the driver of a process that can be killed: its subscriptions end, and nothing that it sends
// arrives any more.
type mortal struct {
	drivertest.Driver
	mu   sync.Mutex
	dead bool
	subs []func()
}

func (d *mortal) Run(ctx context.Context, call driver.Call) (string, error) {
	if d.isDead() {
		return "", fmt.Errorf("%w: killed", driver.ErrNotSent)
	}
	return d.Driver.Run(ctx, call)
}

func (d *mortal) RunAll(ctx context.Context, calls []driver.Call, tell func(i int, reply string, err error)) {
	if d.isDead() {
		for i := range calls {
			tell(i, "", fmt.Errorf("%w: killed", driver.ErrNotSent))
		}
		return
	}
	d.Driver.RunAll(ctx, calls, tell)
}

func (d *mortal) Subscribe(s driver.Subscription) (cancel func()) {
	cancel = d.Driver.Subscribe(s)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subs = append(d.subs, cancel)
	return cancel
}

func (d *mortal) isDead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

func (d *mortal) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	for _, cancel := range d.subs {
		cancel()
	}
}

// mortals are processes that are killed together.
type mortals struct{ all []*mortal }

func (m *mortals) process(t *testing.T, srv *holdfasttest.Server) *holdfast.Client {
	t.Helper()
	d := &mortal{}
	m.all = append(m.all, d)
	return configured(t, srv, holdfast.Config{ViaClient: true}, func(inner drivertest.Driver) drivertest.Driver { d.Driver = inner; return d })
}

func (m *mortals) kill() {
	for _, d := range m.all {
		d.kill()
	}
}

// kindsOfLocks are the locks that one process may hold at a time, with a TTL.
var kindsOfLocks = map[string]func(c *holdfast.Client, ttl time.Duration) *holdfast.Lock{
	"mutex": func(c *holdfast.Client, ttl time.Duration) *holdfast.Lock { return c.Mutex("a", holdfast.TTL(ttl)) },
	"exact key": func(c *holdfast.Client, ttl time.Duration) *holdfast.Lock {
		return c.MutexKey("k", holdfast.TTL(ttl))
	},
	"semaphore": func(c *holdfast.Client, ttl time.Duration) *holdfast.Lock {
		return c.Semaphore("a", 1, holdfast.TTL(ttl)).Permits(1)
	},
	"writer": func(c *holdfast.Client, ttl time.Duration) *holdfast.Lock {
		return c.RWMutex("a", holdfast.TTL(ttl)).Writer()
	},
	"owner": func(c *holdfast.Client, ttl time.Duration) *holdfast.Lock {
		return c.OwnerMutex("a", fmt.Sprintf("%p", c), holdfast.TTL(ttl))
	},
}

// Fault: The holder dies, and with it the first waiters. The next waiter gets the lock within TTL + 1 s, however many
// they are, and whenever they died.
func TestAHolderDiesWithTheFirstWaiters(t *testing.T) {
	for kind, lock := range kindsOfLocks {
		for _, dead := range []int{0, 1, 6} {
			for _, ttl := range []time.Duration{time.Second, 4 * time.Second, 15 * time.Second} {
				t.Run(fmt.Sprintf("%s/%d/%s", kind, dead, ttl), func(t *testing.T) {
					if testing.Short() && kind != "mutex" && kind != "semaphore" {
						t.Skip("many processes")
					}
					for _, after := range []time.Duration{100 * time.Millisecond, 3 * time.Second, 11 * time.Second} {
						bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
							var doomed mortals
							acquire(t, lock(doomed.process(t, srv), ttl))
							for range dead {
								wait(t, lock(doomed.process(t, srv), 30*time.Second))
							}
							last := wait(t, lock(client(t, srv), 30*time.Second))
							time.Sleep(after)
							doomed.kill()
							last.served(t, ttl+time.Second)
						})
					}
				})
			}
		}
	}
}

// Fault: The first waiters for a key that another program holds die. The next notices at its next look, within 12 s.
func TestTheFirstWaitersDieWhileAnotherProgramHasTheKey(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		other := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: srv.Dial})
		t.Cleanup(func() { _ = other.Close() })
		other.Set(t.Context(), "k", "theirs", 0)
		var doomed mortals
		for range 6 {
			wait(t, doomed.process(t, srv).MutexKey("k"))
		}
		last := wait(t, client(t, srv).MutexKey("k"))
		doomed.kill()
		time.Sleep(15 * time.Second) // it has looked since
		other.Del(t.Context(), "k")
		last.served(t, 400*time.Millisecond)
	})
}
