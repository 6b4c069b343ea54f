package virtual

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// asking counts how often a client asks for locks.
type asking struct {
	drivertest.Driver
	n atomic.Int64
}

func (d *asking) Run(ctx context.Context, call driver.Call) (string, error) {
	if call.Script.Name == "acquire" {
		d.n.Add(1)
	}
	return d.Driver.Run(ctx, call)
}

// prefixed returns a client with that prefix.
func prefixed(t *testing.T, srv *holdfasttest.Server, prefix string, wrap ...func(drivertest.Driver) drivertest.Driver) *holdfast.Client {
	t.Helper()
	return configured(t, srv, holdfast.Config{Prefix: prefix}, wrap...)
}

// named returns a client's lock with the name n; keyed and redisson return functions that make one by its key.
func named(c *holdfast.Client) *holdfast.Lock { return c.Mutex("n") }

func keyed(key string) func(c *holdfast.Client) *holdfast.Lock {
	return func(c *holdfast.Client) *holdfast.Lock { return c.MutexKey(key) }
}

func redisson(name string) func(c *holdfast.Client) *holdfast.Lock {
	return func(c *holdfast.Client) *holdfast.Lock { return c.RedissonMutex(name) }
}

// Fault: Clients with different prefixes share a key, so that a release in one queue tells nobody in the other. The
// first waiter there polls, and has the lock within 300 ms, even if the one before it has left.
func TestOneKeyUnderTwoPrefixes(t *testing.T) {
	for what, locks := range map[string]struct {
		holder, waiter func(c *holdfast.Client) *holdfast.Lock
	}{
		"a key":                     {keyed("k"), keyed("k")},
		"a key with a hash tag":     {keyed("{k}:1"), keyed("{k}:1")},
		"a name and its key":        {named, keyed("one:{n}")},
		"the key of another's name": {keyed("two:{n}"), named},
		"in Redisson's form":        {redisson("k"), redisson("k")},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
				holder := locks.holder(prefixed(t, srv, "one:"))
				lease := acquire(t, holder)
				waiter := locks.waiter(prefixed(t, srv, "two:"))
				first := wait(t, waiter)
				time.Sleep(20 * time.Second)
				release(t, lease)
				first.served(t, 400*time.Millisecond)

				lease = acquire(t, holder)
				first = wait(t, waiter)
				second := wait(t, locks.waiter(prefixed(t, srv, "two:")))
				time.Sleep(30 * time.Second)
				first.cancel()
				<-first.done
				time.Sleep(100 * time.Millisecond)
				release(t, lease)
				second.served(t, 400*time.Millisecond)
			})
		})
	}
}

// A waiter for a key whose holder hands it over asks no more often than a waiter for a name, even if the
// holder's lock has another name: its queue is the same.
func TestAKeyUnderOnePrefixIsNotPolled(t *testing.T) {
	for what, locks := range map[string]struct {
		holder, waiter func(c *holdfast.Client) *holdfast.Lock
	}{
		"a key":                 {keyed("k"), keyed("k")},
		"a key with a hash tag": {keyed("{k}:1"), keyed("{k}:1")},
		"a name and its key":    {named, keyed("one:{n}")},
		"a key and its name":    {keyed("one:{n}"), named},
		"in Redisson's form":    {redisson("k"), redisson("k")},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
				holder := locks.holder(prefixed(t, srv, "one:"))
				asked := &asking{}
				waiter := locks.waiter(prefixed(t, srv, "one:", func(d drivertest.Driver) drivertest.Driver {
					asked.Driver = d
					return asked
				}))
				// The value is written by the holder's request first, and then by hand-overs.
				var lease *holdfast.Lease
				for turn := range 3 {
					if turn == 0 {
						lease = acquire(t, holder)
					} else {
						w := wait(t, holder)
						release(t, lease)
						<-w.done
						if w.err != nil {
							t.Fatal(w.err)
						}
						lease = w.lease
					}
					asked.n.Store(0)
					w := wait(t, waiter)
					time.Sleep(20 * time.Second)
					if n := asked.n.Load(); n > 4 {
						t.Errorf("turn %d: the waiter has asked %d times in 20 s", turn, n)
					}
					release(t, lease)
					w.served(t, 100*time.Millisecond)
					lease = acquire(t, holder)
				}
				release(t, lease)
			})
		})
	}
}

// Fault: The holder is a client of an earlier version, which does not say which queue it serves. The waiter polls, as
// it may serve another one.
func TestAHolderThatDoesNotNameItsQueue(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0", Dialer: srv.Dial})
		t.Cleanup(func() { _ = rdb.Close() })
		value := fmt.Sprintf(`hf2:AAAAAAAAAAAAAAAAAAAAAA:1:%d:0@%[1]d:{"o":"earlier"}`, time.Now().UnixMilli())
		if err := rdb.Set(t.Context(), "k", value, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		w := wait(t, client(t, srv).MutexKey("k"))
		time.Sleep(20 * time.Second)
		if got := rdb.Get(t.Context(), "k").Val(); got != value+"+" {
			t.Errorf("the value became %q", got)
		}
		rdb.Del(t.Context(), "k")
		w.served(t, 400*time.Millisecond)
	})
}
