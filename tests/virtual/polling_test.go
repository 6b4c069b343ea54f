package virtual

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/internal/expect"
	"github.com/holdfast-go/holdfast/tests/internal/race"
)

// voiceless is a proxy without pub/sub.
type voiceless struct {
	srv        *holdfasttest.Server
	subscribed func(client net.Conn) // called if a client subscribes
	scripts    atomic.Int64
}

func (p *voiceless) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	server, err := p.srv.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	go func() {
		_, _ = io.Copy(ours, server)
		_ = ours.Close()
	}()
	go func() {
		defer server.Close()
		defer ours.Close()
		for request := make([]byte, 1<<20); ; {
			n, err := ours.Read(request)
			switch {
			case err != nil:
				return
			case bytes.Contains(request[:n], []byte("\r\nsubscribe\r\n")):
				p.subscribed(ours)
				continue
			case bytes.Contains(request[:n], []byte("\r\nevalsha\r\n")):
				p.scripts.Add(1)
			}
			if _, err := server.Write(request[:n]); err != nil {
				return
			}
		}
	}()
	return theirs, nil
}

// Fault: A proxy before the server refuses to subscribe, cuts the connection, says nothing, or confirms subscriptions of which the server
// does not know. Waiters of many locks poll, get their locks, and keep neither the server nor each other busy.
func TestManyWaitersWhomTheServerDoesNotKnow(t *testing.T) {
	for what, subscribed := range map[string]func(client net.Conn){
		"refuses":  func(c net.Conn) { _, _ = io.WriteString(c, "-ERR unknown command 'subscribe'\r\n") },
		"cuts":     func(c net.Conn) { _ = c.Close() },
		"swallows": func(net.Conn) {},
		"quits":    func(c net.Conn) { _, _ = io.WriteString(c, "-ERR unsupported command\r\n"); _ = c.Close() },
		"confirms": nil,
	} {
		bubbleOf(t, what, func(t *testing.T, srv *holdfasttest.Server) {
			const minutes = 2
			locks, least := 10, 0
			if subscribed == nil { // so many that they exceed the bound if each reopens the subscription; the race detector is too slow for that
				if locks, least = 110, (2*minutes-1)*3; race.Detector {
					locks = 40
				}
			}
			var d unheard
			p := &voiceless{srv: srv, subscribed: subscribed}
			scripts, waiter := &d.asked, (*holdfast.Client)(nil)
			if subscribed == nil {
				waiter = client(t, srv, d.wrap)
			} else {
				scripts, waiter = &p.scripts, opened(t, p.dial, holdfast.Config{}, func(*redis.Options) {})
			}
			holder := client(t, srv)
			var held []*holdfast.Lease
			var waits []*waiting
			for i := range locks {
				held = append(held, acquire(t, holder.Mutex(fmt.Sprint("lock", i))))
				waits = append(waits, wait(t, waiter.Mutex(fmt.Sprint("lock", i))))
			}
			time.Sleep(20 * time.Second) // until all poll
			scripts.Store(0)
			d.subscriptions.Store(0)
			time.Sleep(minutes * time.Minute)
			// A second between two polls, less a tenth for jitter, and three attempts to be heard every 30 s, once more
			// than fit into these minutes, or once less.
			expect.Between(t, "scripts", scripts.Load(), 0, int64(locks*minutes*60*5/4))
			expect.Between(t, "subscriptions", d.subscriptions.Load(), int64(least), int64((2*minutes+1)*3))
			for i, lease := range held {
				release(t, lease)
				waits[i].served(t, 2*time.Second)
			}
		})
	}
}

// named and keyed are a lock by its name n, and by a key.
func named(c *holdfast.Client) *holdfast.Lock { return c.Mutex("n") }

func keyed(key string) func(c *holdfast.Client) *holdfast.Lock {
	return func(c *holdfast.Client) *holdfast.Lock { return c.MutexKey(key) }
}

func redisson(c *holdfast.Client) *holdfast.Lock { return c.RedissonMutex("k") }

// oneKey are locks of a holder with the prefix one: and a waiter, whose prefix is the same or two:, that have the same key.
type oneKey struct {
	holder, waiter func(c *holdfast.Client) *holdfast.Lock
}

// Fault: Clients with different prefixes share a key, so that a release in one queue tells nobody in the other. The
// first waiter there polls, and has the lock within 300 ms, even if the one before it has left.
func TestOneKeyUnderTwoPrefixes(t *testing.T) {
	for what, locks := range map[string]oneKey{
		"a key":                     {keyed("k"), keyed("k")},
		"a key with a hash tag":     {keyed("{k}:1"), keyed("{k}:1")},
		"a name and its key":        {named, keyed("one:{n}")},
		"the key of another's name": {keyed("two:{n}"), named},
		"in Redisson's form":        {redisson, redisson},
	} {
		bubbleOf(t, what, func(t *testing.T, srv *holdfasttest.Server) {
			two := holdfast.Config{Prefix: "two:"}
			holder := locks.holder(configured(t, srv, holdfast.Config{Prefix: "one:"}))
			waiter := locks.waiter(configured(t, srv, two))
			lease := acquire(t, holder)
			first := wait(t, waiter)
			time.Sleep(20 * time.Second)
			release(t, lease)
			first.served(t, 400*time.Millisecond)

			lease = acquire(t, holder)
			first = wait(t, waiter)
			second := wait(t, locks.waiter(configured(t, srv, two)))
			time.Sleep(30 * time.Second)
			first.giveUp()
			time.Sleep(100 * time.Millisecond)
			release(t, lease)
			second.served(t, 400*time.Millisecond)
		})
	}
}

// A waiter for a key whose holder hands it over asks no more often than a waiter for a name, even if the
// holder's lock has another name: its queue is the same.
func TestAKeyUnderOnePrefixIsNotPolled(t *testing.T) {
	for what, locks := range map[string]oneKey{
		"a key":                 {keyed("k"), keyed("k")},
		"a key with a hash tag": {keyed("{k}:1"), keyed("{k}:1")},
		"a name and its key":    {named, keyed("one:{n}")},
		"a key and its name":    {keyed("one:{n}"), named},
		"in Redisson's form":    {redisson, redisson},
	} {
		bubbleOf(t, what, func(t *testing.T, srv *holdfasttest.Server) {
			var asked atomic.Int64
			one := holdfast.Config{Prefix: "one:"}
			holder := locks.holder(configured(t, srv, one))
			waiter := locks.waiter(configured(t, srv, one, counted("acquire", &asked)))
			// The value is written by the holder's request first, and then by hand-overs.
			lease := acquire(t, holder)
			for range 3 {
				asked.Store(0)
				w := wait(t, waiter)
				time.Sleep(20 * time.Second)
				expect.Between(t, "how often the waiter asks in 20 s", asked.Load(), 0, 4)
				release(t, lease)
				w.served(t, 100*time.Millisecond)
				lease = acquire(t, holder)
				next := wait(t, holder)
				release(t, lease)
				next.granted(t)
				lease = next.lease
			}
			release(t, lease)
		})
	}
}

// Fault: The holder is a client of an earlier version, which does not say which queue it serves. The waiter polls, as
// it may serve another one.
func TestAHolderThatDoesNotNameItsQueue(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		rdb := server(t, srv)
		value := fmt.Sprintf(`hf2:AAAAAAAAAAAAAAAAAAAAAA:1:%d:0@%[1]d:{"o":"earlier"}`, time.Now().UnixMilli())
		expect.OK(t, rdb.Set(t.Context(), "k", value, time.Minute).Err())
		w := wait(t, client(t, srv).MutexKey("k"))
		time.Sleep(20 * time.Second)
		expect.Equal(t, "the value", rdb.Get(t.Context(), "k").Val(), value+"+")
		rdb.Del(t.Context(), "k")
		w.served(t, 400*time.Millisecond)
	})
}

// Prefix and name may both have the greatest length; the notification of a hand-over has both.
func TestWaitersForTheLongestNameAreNotified(t *testing.T) {
	bubble(t, func(t *testing.T, srv *holdfasttest.Server) {
		longest := func() *holdfast.Lock {
			return configured(t, srv, holdfast.Config{Prefix: strings.Repeat("p", 512)}).Mutex(strings.Repeat("n", 512))
		}
		lease := acquire(t, longest())
		w := wait(t, longest())
		release(t, lease)
		w.served(t, 10*time.Millisecond)
	})
}
